//! How the process ends: a signal cancels one token, a second one ends the process at once.

use futures::{Stream, StreamExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The exit code after a second signal, as shells report an interrupted program.
pub const INTERRUPTED: i32 = 130;

/// Cancels `token` on the first SIGTERM or SIGINT and exits the process on the second.
///
/// Run it as a task of `main` for as long as the process lives.
pub async fn on_signals(token: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let signals = futures::stream::poll_fn(move |cx| {
        if terminate.poll_recv(cx).is_ready() {
            return std::task::Poll::Ready(Some("SIGTERM"));
        }
        interrupt.poll_recv(cx).map(|it| it.map(|()| "SIGINT"))
    });
    follow(signals, token, |code| std::process::exit(code)).await;
    Ok(())
}

/// What [`on_signals`] does, with the signals and the exit handed in.
async fn follow(signals: impl Stream<Item = &'static str>, token: CancellationToken, exit: impl FnOnce(i32)) {
    let mut signals = std::pin::pin!(signals);
    let Some(first) = signals.next().await else { return };
    info!(signal = first, "stopping: work in flight is finished, nothing new is started");
    token.cancel();
    let Some(second) = signals.next().await else { return };
    warn!(signal = second, "second signal: leaving at once");
    exit(INTERRUPTED);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::mpsc;

    use super::*;

    fn channel() -> (mpsc::Sender<&'static str>, impl Stream<Item = &'static str>) {
        let (send, mut receive) = mpsc::channel(4);
        (send, futures::stream::poll_fn(move |cx| receive.poll_recv(cx)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_cancels_and_the_second_exits() {
        let (send, signals) = channel();
        let (token, code) = (CancellationToken::new(), Cell::new(None));
        let mut running = std::pin::pin!(follow(signals, token.clone(), |it| code.set(Some(it))));

        assert!(futures::poll!(&mut running).is_pending());
        assert!(!token.is_cancelled());
        send.send("SIGTERM").await.unwrap();
        assert!(futures::poll!(&mut running).is_pending());
        assert!(token.is_cancelled());
        assert_eq!(code.get(), None);

        send.send("SIGINT").await.unwrap();
        running.await;
        assert_eq!(code.get(), Some(INTERRUPTED));
    }

    #[tokio::test]
    async fn a_real_sigterm_cancels_the_token() {
        let token = CancellationToken::new();
        let task = tokio::spawn(on_signals(token.clone()));
        // The handler is installed on the task's first poll; until then a signal would end the test process.
        tokio::task::yield_now().await;
        let status = std::process::Command::new("kill")
            .args(["-TERM", &std::process::id().to_string()])
            .status()
            .expect("kill is on every machine that runs tests");
        assert!(status.success());
        tokio::time::timeout(std::time::Duration::from_secs(10), token.cancelled()).await.unwrap();
        task.abort();
    }
}
