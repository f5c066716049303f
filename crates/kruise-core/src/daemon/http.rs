//! HTTP requests of hooks and probes. Of a hook's nothing matters but that there is an answer.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use axum::http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::core::v1::{ContainerPort, HTTPGetAction},
    apimachinery::pkg::util::intstr::IntOrString,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// What hooks say about themselves.
pub const HOOK: &str = "kube-lifecycle/1";

/// What probes say about themselves.
pub const PROBE: &str = "kube-probe";

/// One request, with everything filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who asks, unless a header says so.
    pub agent: &'static str,
    /// Whether to speak TLS.
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

/// As much of an answer as was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Where the server sends us instead.
    pub location: Option<String>,
    /// The beginning of the body.
    pub body: Vec<u8>,
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
pub fn call(
    agent: &'static str,
    action: &HTTPGetAction,
    ports: &[ContainerPort],
    pod_ip: Option<&str>,
) -> Result<Call, Error> {
    Ok(Call {
        agent,
        is_https: action.scheme.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("https")),
        host: host(action.host.as_deref(), pod_ip)?,
        port: port(&action.port, ports)?,
        path: path(action.path.as_deref().unwrap_or_default())?,
        headers: action.http_headers.iter().flatten().map(|it| (it.name.clone(), it.value.clone())).collect(),
    })
}

/// The host that a handler names, or the pod's address; without brackets.
pub(super) fn host(named: Option<&str>, pod_ip: Option<&str>) -> Result<String, Error> {
    let host = named.filter(|it| !it.is_empty()).or(pod_ip.filter(|it| !it.is_empty()));
    let host = host.ok_or_else(|| Error::Malformed("the pod has no address".into()))?;
    Ok(host.trim_matches(['[', ']']).to_owned())
}

/// A number, also one that is written as text, or the port of this name.
pub(super) fn port(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, Error> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => text
            .parse()
            .ok()
            .or_else(|| ports.iter().find(|it| it.name.as_deref() == Some(text)).map(|it| it.container_port)),
    };
    let number = number.and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0);
    number.ok_or_else(|| match port {
        IntOrString::Int(number) => Error::Malformed(format!("there is no port {number}")),
        IntOrString::String(text) => Error::Malformed(format!("there is no port {text:?}")),
    })
}

/// A path and query as they are sent. What may not stand in a request is escaped; a broken escape is an error.
fn path(text: &str) -> Result<String, Error> {
    let text = text.split('#').next().unwrap_or_default();
    let mut path = String::with_capacity(text.len() + 1);
    path.push('/');
    let mut bytes = text.trim_start_matches('/').bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next(), bytes.next()].map(|it| it.filter(u8::is_ascii_hexdigit));
                let [Some(high), Some(low)] = digits else {
                    return Err(Error::Malformed(format!("the path {text:?} has a broken escape")));
                };
                path.extend(['%', char::from(high), char::from(low)]);
            }
            it if it.is_ascii_control() => {
                return Err(Error::Malformed(format!("the path {text:?} has control characters")));
            }
            it if it.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&it) => path.push(char::from(it)),
            it => path.extend([b'%', hex(it >> 4), hex(it & 0xf)].map(char::from)),
        }
    }
    Ok(path)
}

/// The digit for a number below sixteen.
fn hex(number: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(number)]
}

/// Whether a URL may begin with this before its `://`. A path may contain those characters as well.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_alphabetic())
        && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"+.-".contains(&it))
}

impl Call {
    /// The same at the place where a server sends us, unless that is another host.
    pub fn redirected(&self, location: &str) -> Option<Self> {
        let mut call = self.clone();
        let target = match location.split_once("://") {
            Some((scheme, _)) if is_scheme(scheme) => Some(location.to_owned()),
            _ if location.starts_with("//") => {
                Some(format!("{}:{location}", if self.is_https { "https" } else { "http" }))
            }
            _ => None,
        };
        let Some(target) = target else {
            // A path that begins with no slash continues where the last one ended.
            let folder = self.path.split('?').next().and_then(|it| it.rsplit_once('/')).map_or("", |it| it.0);
            call.path = match location.strip_prefix('/') {
                Some(rest) => path(rest).ok()?,
                None => path(&format!("{folder}/{location}")).ok()?,
            };
            return Some(call);
        };
        let target: Uri = target.parse().ok()?;
        if !target.host()?.trim_matches(['[', ']']).eq_ignore_ascii_case(&self.host) {
            return None;
        }
        call.is_https = target.scheme_str() == Some("https");
        call.port = target.port_u16().unwrap_or(if call.is_https { 443 } else { 80 });
        call.path = target.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        Some(call)
    }
}

/// Sends the request of a hook and gives the status of the answer. A server that answers TLS in plain text is asked in
/// plain text.
pub async fn get(call: &Call) -> Result<u16, Error> {
    match fetch(call, 0).await {
        Err(Error::Tls(_, error)) if is_plain_text(&error) => {
            Ok(ask(connect(call).await?, call, 0).await?.status)
        }
        answer => Ok(answer?.status),
    }
}

/// Sends the request and gives the answer with at most `limit` bytes of its body.
pub async fn fetch(call: &Call, limit: usize) -> Result<Answer, Error> {
    let stream = connect(call).await?;
    if !call.is_https {
        return ask(stream, call, limit).await;
    }
    let name = ServerName::try_from(call.host.clone())
        .map_err(|_| Error::Malformed(format!("{:?} is no host name", call.host)))?;
    let stream = TlsConnector::from(unverified()?).connect(name, stream).await;
    ask(stream.map_err(|error| Error::Tls(call.host.clone(), error))?, call, limit).await
}

async fn connect(call: &Call) -> Result<TcpStream, Error> {
    dial(&call.host, call.port).await
}

/// Opens a connection.
pub(super) async fn dial(host: &str, port: u16) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect((host, port)).await;
    stream.map_err(|error| Error::Connect(format!("{host}:{port}"), error))
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    call: &Call,
    limit: usize,
) -> Result<Answer, Error> {
    let request = request(call)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut answer = std::pin::pin!(async { read(sender.send_request(request).await?, limit).await });
    // The connection works for as long as the answer is waited for; it may end right behind it.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // However it ended: an answer that is complete counts, and one that is not says so itself.
        _ = connection => answer.await,
    }
}

async fn read(answer: Response<Incoming>, limit: usize) -> Result<Answer, Error> {
    let status = answer.status().as_u16();
    let location = answer.headers().get(header::LOCATION).and_then(|it| it.to_str().ok()).map(str::to_owned);
    let (mut body, mut rest) = (Vec::new(), answer.into_body());
    while body.len() < limit
        && let Some(frame) = rest.frame().await
    {
        if let Ok(bytes) = frame?.into_data() {
            body.extend_from_slice(&bytes[..bytes.len().min(limit - body.len())]);
        }
    }
    Ok(Answer { status, location, body })
}

fn request(call: &Call) -> Result<Request<Empty<Bytes>>, Error> {
    let malformed = |it: &dyn fmt::Display| Error::Malformed(it.to_string());
    let mut request = Request::get(&call.path).body(Empty::new()).map_err(|it| malformed(&it))?;
    let headers = request.headers_mut();
    for (name, value) in &call.headers {
        let name = HeaderName::try_from(name).map_err(|it| malformed(&it))?;
        headers.append(name, HeaderValue::try_from(value).map_err(|it| malformed(&it))?);
    }
    if headers.get(header::HOST).is_none_or(HeaderValue::is_empty) {
        let host = if call.host.contains(':') { format!("[{}]", call.host) } else { call.host.clone() };
        let value = HeaderValue::try_from(format!("{host}:{}", call.port)).map_err(|it| malformed(&it))?;
        headers.insert(header::HOST, value);
    }
    headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(call.agent));
    match headers.get(header::ACCEPT) {
        None => drop(headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"))),
        // Whoever asks for nothing gets no such header.
        Some(it) if it.is_empty() => drop(headers.remove(header::ACCEPT)),
        Some(_) => {}
    }
    Ok(request)
}

/// Whether the other side spoke plain text.
fn is_plain_text(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidMessage(_)))
}

/// TLS without asking who answers: hooks and probes go to an address, as the kubelet's do.
fn unverified() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|it| Error::Malformed(it.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        .with_no_client_auth();
    // Every connection is a new one; remembering sessions would cost memory for nothing.
    config.resumption = Resumption::disabled();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
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
mod tests;
