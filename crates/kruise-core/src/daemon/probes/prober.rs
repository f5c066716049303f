//! One attempt: a command, a request or a connection.

use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, Probe, TCPSocketAction};

use super::{memory, plan::ProbeKey};
use crate::{
    api::node_pod_probe::ProbeState,
    causes::with_causes,
    daemon::{
        cri::{self, Container, Runtime},
        http::{self, Call},
    },
};

/// As many characters of what a probe says are kept.
const LONGEST_MESSAGE: usize = 1024;

/// As many bytes of what a probe says are looked at.
const LONGEST_OUTPUT: usize = 10 * 1024;

/// A server that sends us on more often than this sends us in circles.
const MOST_REDIRECTS: usize = 10;

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Succeeded or Failed.
    pub state: ProbeState,
    /// What the probe said.
    pub message: String,
}

/// Why an attempt says nothing about the container.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is asked for that we can do.
    #[error("missing probe handler for {0}")]
    NoHandler(String),
    /// The runtime did not do its part.
    #[error("the runtime did not do its part")]
    Runtime(#[from] cri::Error),
    /// The request cannot be written down.
    #[error("the request cannot be made")]
    Request(#[source] http::Error),
}

impl Answer {
    fn new(state: ProbeState, text: &str) -> Self {
        Self { state, message: text.trim_end().chars().take(LONGEST_MESSAGE).collect() }
    }

    fn succeeded(output: &[u8]) -> Self {
        let output = &output[..output.len().min(LONGEST_OUTPUT)];
        Self::new(ProbeState::Succeeded, &String::from_utf8_lossy(output))
    }

    fn failed(text: &str) -> Self {
        Self::new(ProbeState::Failed, text)
    }
}

/// Probes `container` once. An error is no result: the container may be well or not.
pub async fn probe(
    runtime: &dyn Runtime,
    of: &ProbeKey,
    container: &Container,
    probe: &Probe,
) -> Result<Answer, Error> {
    if let Some(action) = &probe.exec {
        return run(runtime, container, action, probe).await;
    }
    let named = match (&probe.http_get, &probe.tcp_socket) {
        (Some(action), _) => action.host.as_deref(),
        (None, Some(action)) => action.host.as_deref(),
        (None, None) => return Err(Error::NoHandler(of.container.clone())),
    };
    let address = match named.unwrap_or_default() {
        "" if of.ip.is_empty() => runtime.address(&container.sandbox_id).await?,
        _ => Some(of.ip.clone()),
    };
    let attempt = async {
        match (&probe.http_get, &probe.tcp_socket) {
            (Some(action), _) => get(action, address.as_deref()).await,
            (None, Some(action)) => open(action, address.as_deref()).await,
            (None, None) => Err(Error::NoHandler(of.container.clone())),
        }
    };
    let limit = memory::timeout(probe);
    let too_long = |_| Ok(Answer::failed(&format!("no answer within {} s", limit.as_secs())));
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(too_long)
}

async fn run(
    runtime: &dyn Runtime,
    container: &Container,
    action: &ExecAction,
    probe: &Probe,
) -> Result<Answer, Error> {
    let command = action.command.clone().unwrap_or_default();
    match runtime.exec(&container.id, command, Some(memory::timeout(probe))).await {
        Ok(output) => Ok(Answer::succeeded(&output)),
        Err(cri::Error::CommandFailed { stderr, .. }) => Ok(Answer::failed(&stderr)),
        Err(error @ cri::Error::CommandTimedOut) => Ok(Answer::failed(&error.to_string())),
        Err(error) => Err(error.into()),
    }
}

async fn get(action: &HTTPGetAction, address: Option<&str>) -> Result<Answer, Error> {
    let mut call = http::call(http::PROBE, action, &[], address).map_err(Error::Request)?;
    for _ in 0..MOST_REDIRECTS {
        let answer = match http::fetch(&call, LONGEST_OUTPUT).await {
            Ok(answer) => answer,
            Err(error @ http::Error::Malformed(_)) => return Err(Error::Request(error)),
            Err(error) => return Ok(Answer::failed(&with_causes(&error).to_string())),
        };
        match follow(&call, &answer) {
            Some(next) => call = next,
            None => return Ok(judge(&answer)),
        }
    }
    Ok(Answer::failed(&format!("sent on more than {MOST_REDIRECTS} times")))
}

/// Where an answer sends us, if it is a redirect within the host.
fn follow(call: &Call, answer: &http::Answer) -> Option<Call> {
    let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
    call.redirected(answer.location.as_deref().filter(|_| is_redirect)?)
}

fn judge(answer: &http::Answer) -> Answer {
    match answer.status {
        200..=299 => Answer::succeeded(&answer.body),
        // Somebody answered, and that is all that a redirect to elsewhere tells.
        300..=399 => {
            let warning = format!("redirect ({}) not followed: ", answer.status);
            Answer::succeeded(&[warning.as_bytes(), &answer.body].concat())
        }
        // The kubelet's words: people search for them.
        status => Answer::failed(&format!("HTTP probe failed with statuscode: {status}")),
    }
}

async fn open(action: &TCPSocketAction, address: Option<&str>) -> Result<Answer, Error> {
    let host = http::host(action.host.as_deref(), address).map_err(Error::Request)?;
    let opened = match http::port(&action.port, &[]) {
        Ok(port) => http::dial(&host, port).await,
        Err(error) => Err(error),
    };
    Ok(match opened {
        Ok(_) => Answer::succeeded(b""),
        Err(error) => Answer::failed(&with_causes(&error).to_string()),
    })
}

#[cfg(test)]
mod tests;
