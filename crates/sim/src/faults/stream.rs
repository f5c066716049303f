//! Bodies of answers: whole ones, and watches that can be late or break.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::Link;
use crate::{
    seed::Seed,
    server::watch::{WatchLine, WatchSession},
    world::Life,
};

/// The body of an answer.
pub struct SimBody(Inner);

enum Inner {
    Full(Option<Bytes>),
    Watch(BoxStream<'static, Result<Bytes, BoxError>>),
}

impl SimBody {
    pub(super) fn full(bytes: Bytes) -> Self {
        Self(Inner::Full(Some(bytes)))
    }

    pub(super) fn watch(session: WatchSession, link: Arc<Link>, life: Option<Life>, draw: Seed) -> Self {
        let state = WatchStream { session, link, life, draw, batches: 0, broken: false };
        let batches = stream::unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Some((batch, state))
        });
        Self(Inner::Watch(batches.boxed()))
    }
}

struct WatchStream {
    session: WatchSession,
    link: Arc<Link>,
    life: Option<Life>,
    draw: Seed,
    batches: u64,
    broken: bool,
}

impl WatchStream {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.broken {
            return None;
        }
        let lines = self.session.next().await?;
        let weather = self.link.weather();
        self.batches += 1;
        let draw = self.draw.at(self.batches);

        let mut delay = draw.of("latency").between(weather.latency.0, weather.latency.1);
        if draw.of("late").happens(weather.late_watch.0) {
            delay += draw.of("late-by").between(Duration::ZERO, weather.late_watch.1);
        }
        tokio::time::sleep(delay).await;
        self.wait_until_open().await;
        if self.life.as_ref().is_some_and(Life::is_over) {
            std::future::pending::<()>().await;
        }
        if draw.of("break").happens(weather.break_watch) {
            self.broken = true;
            let cause = "the connection broke while a watch event was on its way";
            return Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, cause).into()));
        }
        let lines = if draw.of("disorder").happens(weather.disorder) { disorder(lines, draw) } else { lines };
        let mut bytes = Vec::with_capacity(lines.iter().map(|it| it.text.len()).sum());
        for line in &lines {
            bytes.extend_from_slice(&line.text);
        }
        Some(Ok(bytes.into()))
    }

    /// While the way to the client is cut, a stream stands still: TCP would send again.
    async fn wait_until_open(&self) {
        let mut changes = self.link.cut_changes();
        // The link outlives this stream, so waiting cannot fail.
        let _ = changes.wait_for(|it| !it.to_client).await;
    }
}

/// Swaps the first two neighbours that are about different objects, or repeats an event.
fn disorder(mut lines: Vec<WatchLine>, draw: Seed) -> Vec<WatchLine> {
    let swap = (1..lines.len()).find(|it| {
        let (left, right) = (&lines[it - 1].about, &lines[*it].about);
        !left.is_empty() && !right.is_empty() && left != right
    });
    match swap {
        Some(index) => lines.swap(index - 1, index),
        None => {
            let index = draw.of("repeat").below(lines.len() as u64) as usize;
            let repeated = lines[index].clone();
            lines.insert(index, repeated);
        }
    }
    lines
}

impl Body for SimBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Inner::Full(bytes) => Poll::Ready(bytes.take().map(|it| Ok(Frame::data(it)))),
            Inner::Watch(batches) => Pin::new(batches).poll_next(context).map_ok(Frame::data),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64)),
            Inner::Watch(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for SimBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self.0, Inner::Full(_)) { "Full" } else { "Watch" };
        formatter.debug_tuple("SimBody").field(&kind).finish()
    }
}
