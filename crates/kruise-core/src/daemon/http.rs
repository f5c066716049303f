//! HTTP requests of hooks: one GET, and nothing about the answer matters but that there is one.

use std::{fmt, sync::Arc};

use axum::http::{HeaderName, HeaderValue, Request, header};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::core::v1::{ContainerPort, HTTPGetAction},
    apimachinery::pkg::util::intstr::IntOrString,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// One request, with everything filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Whether to try TLS first.
    pub is_https: bool,
    /// The host or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// Headers besides those that every request has.
    pub headers: Vec<(String, String)>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be written down.
    #[error("{0}")]
    Malformed(String),
    /// Nobody answers.
    #[error("cannot connect to {0}")]
    Connect(String, #[source] std::io::Error),
    /// The TLS handshake failed.
    #[error("TLS with {0} failed")]
    Tls(String, #[source] std::io::Error),
    /// The conversation broke off.
    #[error("the request failed")]
    Http(#[from] hyper::Error),
}

/// Fills in what a handler leaves out: the host from the pod's address, a named port from the container's ports.
pub fn call(action: &HTTPGetAction, ports: &[ContainerPort], pod_ip: Option<&str>) -> Result<Call, Error> {
    let host = action.host.as_deref().filter(|it| !it.is_empty()).or(pod_ip.filter(|it| !it.is_empty()));
    let host = host.ok_or_else(|| Error::Malformed("the pod has no address".into()))?;
    let path = action.path.as_deref().unwrap_or_default();
    Ok(Call {
        is_https: action.scheme.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("https")),
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port(&action.port, ports)?,
        path: format!("/{}", path.trim_start_matches('/')),
        headers: action.http_headers.iter().flatten().map(|it| (it.name.clone(), it.value.clone())).collect(),
    })
}

fn port(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, Error> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => text
            .parse()
            .ok()
            .or_else(|| ports.iter().find(|it| it.name.as_deref() == Some(text)).map(|it| it.container_port)),
    };
    let number = number.and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0);
    number.ok_or_else(|| Error::Malformed(format!("there is no port {port:?}")))
}

/// Sends the request and gives the status of the answer. A server that answers TLS in plain text is asked in plain text.
pub async fn get(call: &Call) -> Result<u16, Error> {
    if call.is_https {
        match over_tls(call).await {
            Err(Error::Tls(_, error)) if is_plain_text(&error) => {}
            answer => return answer,
        }
    }
    ask(connect(call).await?, call).await
}

async fn connect(call: &Call) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect((call.host.as_str(), call.port)).await;
    stream.map_err(|error| Error::Connect(format!("{}:{}", call.host, call.port), error))
}

async fn over_tls(call: &Call) -> Result<u16, Error> {
    let stream = connect(call).await?;
    let name = ServerName::try_from(call.host.clone())
        .map_err(|_| Error::Malformed(format!("{:?} is no host name", call.host)))?;
    let stream = TlsConnector::from(unverified()?).connect(name, stream).await;
    ask(stream.map_err(|error| Error::Tls(call.host.clone(), error))?, call).await
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    call: &Call,
) -> Result<u16, Error> {
    let request = request(call)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut answer = std::pin::pin!(sender.send_request(request));
    // The connection works for as long as the answer is waited for; it may end right behind it.
    let answer = tokio::select! {
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            answer.await
        }
    };
    Ok(answer?.status().as_u16())
}

fn request(call: &Call) -> Result<Request<Empty<Bytes>>, Error> {
    let malformed = |it: &dyn fmt::Display| Error::Malformed(it.to_string());
    let host = if call.host.contains(':') { format!("[{}]", call.host) } else { call.host.clone() };
    let mut request = Request::get(&call.path)
        .header(header::HOST, format!("{host}:{}", call.port))
        .header(header::USER_AGENT, "kube-lifecycle/1")
        .header(header::ACCEPT, "*/*")
        .body(Empty::new())
        .map_err(|it| malformed(&it))?;
    for (name, value) in &call.headers {
        let name = HeaderName::try_from(name).map_err(|it| malformed(&it))?;
        let value = HeaderValue::try_from(value).map_err(|it| malformed(&it))?;
        request.headers_mut().insert(name, value);
    }
    Ok(request)
}

/// Whether the other side spoke plain text.
fn is_plain_text(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidMessage(_)))
}

/// TLS without asking who answers: hooks go to an address, as the kubelet's do.
fn unverified() -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|it| Error::Malformed(it.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn action(action: serde_json::Value) -> HTTPGetAction {
        serde_json::from_value(action).unwrap()
    }

    #[test]
    fn host_and_port_are_filled_in_from_the_pod() {
        let ports: Vec<ContainerPort> =
            serde_json::from_value(json!([{"name": "admin", "containerPort": 8081}])).unwrap();
        let it = call(&action(json!({"port": "admin", "path": "stop"})), &ports, Some("10.0.0.1")).unwrap();
        assert_eq!(
            (it.host.as_str(), it.port, it.path.as_str(), it.is_https),
            ("10.0.0.1", 8081, "/stop", false)
        );
        let it = call(&action(json!({"port": "80", "host": "[::1]", "scheme": "HTTPS"})), &[], None).unwrap();
        assert_eq!((it.host.as_str(), it.port, it.is_https), ("::1", 80, true));
    }

    #[test]
    fn what_cannot_be_filled_in_is_an_error() {
        assert!(call(&action(json!({"port": 80})), &[], None).is_err(), "no address");
        for port in [json!("admin"), json!(0), json!(70_000), json!(-1)] {
            assert!(call(&action(json!({"port": port})), &[], Some("10.0.0.1")).is_err(), "{port}");
        }
    }

    /// Answers every connection in plain text and gives the first request that made sense.
    async fn server() -> (u16, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = vec![0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                let answer = "HTTP/1.1 204 No Content\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes()).await;
                let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
                if request.starts_with("GET") {
                    return request;
                }
            }
        });
        (port, task)
    }

    #[tokio::test]
    async fn a_request_arrives_also_where_tls_was_expected_and_is_not_spoken() {
        for is_https in [false, true] {
            let (port, task) = server().await;
            let headers = vec![("x-hook".to_owned(), "yes".to_owned())];
            let it = Call { is_https, host: "127.0.0.1".into(), port, path: "/stop".into(), headers };
            assert_eq!(get(&it).await.unwrap(), 204);
            let request = task.await.unwrap().to_lowercase();
            assert!(
                request.starts_with("get /stop http/1.1") && request.contains("x-hook: yes"),
                "{request}"
            );
        }
    }
}
