//! `/healthz`, `/readyz` and `/metrics` over plain HTTP.

use std::{collections::BTreeMap, fmt, future, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;

/// How long a check may take: a prober that hears nothing cannot tell which check was slow.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// One named check: `Ok`, or what is wrong in a few words.
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Named checks behind one address.
#[derive(Clone, Default)]
pub struct Checks(BTreeMap<&'static str, Check>);

impl Checks {
    /// The same checks and one more.
    #[must_use]
    pub fn with(
        self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.with_probe(name, move || future::ready(check()))
    }

    /// The same checks and one more that has to ask somebody, such as
    /// [`webhook::Handle::check`](super::webhook::Handle::check).
    #[must_use]
    pub fn with_probe<F>(mut self, name: &'static str, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.0.insert(name, Arc::new(move || check().boxed()));
        self
    }

    /// One line per check, and whether all of them hold. They are asked together, so the slowest decides how long it
    /// takes.
    async fn run(&self) -> (StatusCode, String) {
        let results = join_all(self.0.values().map(|check| async {
            let late = || Err(format!("no answer within {CHECK_TIMEOUT:?}"));
            timeout(CHECK_TIMEOUT, check()).await.unwrap_or_else(|_| late())
        }));
        let mut code = StatusCode::OK;
        let mut text = String::from("[+] ping ok\n");
        for (name, result) in self.0.keys().zip(results.await) {
            match result {
                Ok(()) => text.push_str(&format!("[+] {name} ok\n")),
                Err(reason) => {
                    code = StatusCode::INTERNAL_SERVER_ERROR;
                    text.push_str(&format!("[-] {name} failed: {reason}\n"));
                }
            }
        }
        text.push_str(if code == StatusCode::OK { "ok\n" } else { "failed\n" });
        (code, text)
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Serves `/healthz` (is the process alive) and `/readyz` (should it get work).
pub fn probes(health: Checks, ready: Checks) -> Router {
    Router::new()
        .route("/healthz", get(async |State(it): State<(Checks, Checks)>| it.0.run().await))
        .route("/readyz", get(async |State(it): State<(Checks, Checks)>| it.1.run().await))
        .with_state((health, ready))
}

/// Serves `/metrics`.
pub fn metrics(metrics: Metrics) -> Router {
    let text = async |State(it): State<Metrics>| {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(header::CONTENT_TYPE, kind)], it.text()).into_response()
    };
    Router::new().route("/metrics", get(text)).with_state(metrics)
}

/// A listening address that is not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// Where it really listens: port 0 has become a free port.
    pub address: SocketAddr,
}

impl Bound {
    /// Listens on `address`.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Answers requests until `token` is cancelled and the open ones are done.
    pub async fn serve(self, router: Router, token: CancellationToken) -> std::io::Result<()> {
        axum::serve(self.listener, router)
            .with_graceful_shutdown(async move { token.cancelled().await })
            .await
    }
}

/// Reads an address as Go programs write it: `:8080` listens everywhere, `0` and nothing at all mean "do not serve".
pub fn parse_address(text: &str) -> Result<Option<SocketAddr>, std::net::AddrParseError> {
    match text {
        "" | "0" => Ok(None),
        _ => match text.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}").parse().map(Some),
            None => text.parse().map(Some),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_name_the_check_that_fails_and_metrics_are_served() {
        let synced = Arc::new(AtomicBool::new(false));
        let seen = synced.clone();
        let ready = Checks::default().with("caches", move || {
            if seen.load(Ordering::SeqCst) { Ok(()) } else { Err("pods are not synced".into()) }
        });
        let counted = Metrics::default();
        counted.api_request("GET", "200");
        let token = CancellationToken::new();
        let bound = Bound::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = bound.address;
        assert_ne!(address.port(), 0);
        let router = probes(Checks::default(), ready).merge(metrics(counted));
        let server = tokio::spawn(bound.serve(router, token.clone()));

        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
        assert!(answer.contains("[-] caches failed: pods are not synced"), "{answer}");
        synced.store(true, Ordering::SeqCst);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(
            ask(address, "/metrics")
                .await
                .contains("rest_client_requests_total{method=\"GET\",code=\"200\"} 1")
        );
        assert!(ask(address, "/other").await.starts_with("HTTP/1.1 404"));

        token.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_is_named_and_the_others_are_still_told() {
        let checks = Checks::default().with_probe("hangs", future::pending).with_probe("slow", || async {
            tokio::time::sleep(CHECK_TIMEOUT / 2).await;
            Ok(())
        });
        let (code, text) = checks.run().await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(text, "[+] ping ok\n[-] hangs failed: no answer within 5s\n[+] slow ok\nfailed\n");
    }

    #[test]
    fn addresses_are_read_as_go_writes_them() {
        assert_eq!(parse_address(":8000").unwrap(), Some("0.0.0.0:8000".parse().unwrap()));
        assert_eq!(parse_address("127.0.0.1:0").unwrap(), Some("127.0.0.1:0".parse().unwrap()));
        assert_eq!(parse_address("0").unwrap(), None);
        assert!(parse_address(":http").is_err());
    }
}
