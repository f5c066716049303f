//! Dialling a runtime, verifying it, and calling it.

use std::{
    collections::HashMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::http::{Uri, uri::PathAndQuery};
use futures::{FutureExt, future::BoxFuture};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::{
    Code, Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{Container, Environment, Error, Filter, Image, Images, Pull, Runtime, keys, newest_first, proto};
use crate::{causes::with_causes, daemon::metrics::DaemonMetrics, runtime::clock::Clock};

/// How long a unary call may take.
const CALL: Duration = Duration::from_secs(5);

/// How long the runtime may take to tell about its image file systems: the first call after its start is slow.
const FIRST_CALL: Duration = Duration::from_secs(10);

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);

/// What a call may take beyond the grace period or time limit that it carries itself.
const SLACK: Duration = Duration::from_secs(5);

/// The largest answer that is read; nodes have thousands of images.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// Why a socket is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Nobody listens, or we may not ask.
    #[error("cannot connect to {path}{hint}", hint = hint(source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Whoever listens does not speak CRI v1.
    #[error("unable to determine image API version of {path}: it must serve CRI runtime.v1")]
    Version {
        /// The socket.
        path: PathBuf,
        /// What it answered.
        source: Error,
    },
    /// It speaks CRI v1 and does not answer what every runtime answers.
    #[error("the runtime behind {path} does not answer")]
    Answer {
        /// The socket.
        path: PathBuf,
        /// What it answered.
        source: Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (permission denied: the daemon must run as a user who may write to the socket)"
        }
        _ => "",
    }
}

/// A runtime behind one socket. Cheap to clone; connects again by itself when the runtime was restarted.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    name: Arc<str>,
    clock: Clock,
    metrics: DaemonMetrics,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("cri::Client").field(&self.name).finish()
    }
}

impl Client {
    /// Connects to the socket and makes sure that a usable runtime listens there.
    pub async fn connect(path: &Path, clock: Clock, metrics: DaemonMetrics) -> Result<Self, Unusable> {
        // A first connection of our own: tonic would not say why it fails.
        UnixStream::connect(path)
            .await
            .map_err(|source| Unusable::Connect { path: path.to_owned(), source })?;
        let mut it = Self { channel: channel(path), name: "".into(), clock, metrics };
        let version = |source| Unusable::Version { path: path.to_owned(), source };
        let answer = |source| Unusable::Answer { path: path.to_owned(), source };
        it.call::<_, proto::Empty>(calls::IMAGE_FS_INFO, proto::Empty {}, Some(FIRST_CALL))
            .await
            .map_err(version)?;
        it.list_images(FIRST_CALL).await.map_err(answer)?;
        it.name = it.version().await.map_err(answer)?.into();
        Ok(it)
    }

    async fn version(&self) -> Result<String, Error> {
        let request = proto::VersionRequest { version: "0.1.0".into() };
        let it: proto::VersionResponse = self.call(calls::VERSION, request, Some(CALL)).await?;
        let proto::VersionResponse { version, runtime_name, runtime_version, runtime_api_version } = it;
        let all = [&version, &runtime_name, &runtime_version, &runtime_api_version];
        if all.iter().any(|it| it.is_empty()) {
            return Err(Error::Incomplete("the runtime does not tell its name and versions"));
        }
        Ok(runtime_name)
    }

    async fn list_images(&self, timeout: Duration) -> Result<Vec<Image>, Error> {
        let request = proto::ListImagesRequest {};
        let answer: proto::ListImagesResponse = self.call(calls::LIST_IMAGES, request, Some(timeout)).await?;
        let read =
            |it: proto::Image| Image { id: it.id, repo_tags: it.repo_tags, repo_digests: it.repo_digests };
        Ok(answer.images.into_iter().map(read).collect())
    }

    async fn list_containers(&self, filter: Filter) -> Result<Vec<Container>, Error> {
        let filter = match filter {
            Filter::Pod(uid) => proto::ContainerFilter {
                label_selector: HashMap::from([(keys::POD_UID.to_owned(), uid)]),
                ..proto::ContainerFilter::default()
            },
            Filter::Named { pod, container } => proto::ContainerFilter {
                label_selector: HashMap::from([
                    (keys::POD_UID.to_owned(), pod),
                    (keys::CONTAINER_NAME.to_owned(), container),
                ]),
                ..proto::ContainerFilter::default()
            },
            Filter::Id(id) => proto::ContainerFilter { id, ..proto::ContainerFilter::default() },
        };
        let request = proto::ListContainersRequest { filter: Some(filter) };
        let listed: proto::ListContainersResponse =
            self.call(calls::LIST_CONTAINERS, request, Some(CALL)).await?;
        let mut containers = Vec::with_capacity(listed.containers.len());
        for it in listed.containers {
            let answer = match self.status(&it.id, false).await {
                // Removed between the two calls: the same as not listed.
                Err(error) if error.is_not_found() => continue,
                answer => answer?,
            };
            let status = answer.status.ok_or(Error::Incomplete("a container has no status"))?;
            containers.push(super::read_container(status, it.pod_sandbox_id));
        }
        newest_first(&mut containers);
        Ok(containers)
    }

    async fn status(&self, id: &str, verbose: bool) -> Result<proto::ContainerStatusResponse, Error> {
        let request = proto::ContainerStatusRequest { container_id: id.to_owned(), verbose };
        self.call(calls::CONTAINER_STATUS, request, Some(CALL)).await
    }

    /// One unary call, counted.
    async fn call<Q, R>(&self, call: Call, message: Q, deadline: Option<Duration>) -> Result<R, Error>
    where
        Q: prost::Message + Default + 'static,
        R: prost::Message + Default + 'static,
    {
        let begun = self.clock.instant();
        let answer = self.send(call, message, deadline).await;
        self.metrics.called(call.name, answer.as_ref().err().map(Error::label), self.clock.since(begun));
        answer
    }

    /// The deadline goes along and is also kept here: a server may ignore it.
    async fn send<Q, R>(&self, call: Call, message: Q, deadline: Option<Duration>) -> Result<R, Error>
    where
        Q: prost::Message + Default + 'static,
        R: prost::Message + Default + 'static,
    {
        let mut request = Request::new(message);
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        let answer = async {
            grpc.ready().await.map_err(|error| Error::Refused {
                call: call.name,
                code: "Unavailable".into(),
                message: format!("the runtime cannot be reached: {}", with_causes(&error)),
            })?;
            let answer = grpc.unary(request, call.path(), ProstCodec::<Q, R>::default()).await;
            answer
                .map(tonic::Response::into_inner)
                .map_err(|status| read_status(call.name, deadline, &status))
        };
        match deadline {
            None => answer.await,
            Some(after) => match tokio::time::timeout(after, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::Timeout { call: call.name, after }),
            },
        }
    }
}

impl Runtime for Client {
    fn name(&self) -> &str {
        &self.name
    }

    fn containers(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Container>, Error>> {
        self.list_containers(filter).boxed()
    }

    fn stop(&self, id: &str, grace: u32) -> BoxFuture<'_, Result<(), Error>> {
        let request = proto::StopContainerRequest { container_id: id.to_owned(), timeout: i64::from(grace) };
        let deadline = Duration::from_secs(u64::from(grace)) + SLACK;
        async move {
            self.call::<_, proto::Empty>(calls::STOP_CONTAINER, request, Some(deadline)).await.map(drop)
        }
        .boxed()
    }

    fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Option<Duration>,
    ) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        let seconds = timeout.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX));
        let request = proto::ExecSyncRequest { container_id: id.to_owned(), cmd: command, timeout: seconds };
        async move {
            let deadline = timeout.map(|it| it + SLACK);
            let answer = self.call::<_, proto::ExecSyncResponse>(calls::EXEC_SYNC, request, deadline).await;
            let answer = match answer {
                Err(Error::Timeout { .. }) => return Err(Error::CommandTimedOut),
                Err(Error::Refused { code, .. }) if code == "DeadlineExceeded" => {
                    return Err(Error::CommandTimedOut);
                }
                answer => answer?,
            };
            match answer.exit_code {
                0 => Ok(answer.stdout),
                code => Err(Error::CommandFailed {
                    code,
                    stderr: String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
                }),
            }
        }
        .boxed()
    }

    fn address(&self, sandbox: &str) -> BoxFuture<'_, Result<Option<String>, Error>> {
        let request = proto::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned() };
        async move {
            let answer: proto::PodSandboxStatusResponse =
                self.call(calls::POD_SANDBOX_STATUS, request, Some(CALL)).await?;
            let network = answer.status.and_then(|it| it.network);
            Ok(network.map(|it| it.ip).filter(|it| !it.is_empty()))
        }
        .boxed()
    }

    fn environment(&self, id: &str) -> BoxFuture<'_, Result<Option<Environment>, Error>> {
        let id = id.to_owned();
        async move {
            let answer = self.status(&id, true).await?;
            Ok(answer.info.get("info").and_then(|it| super::read_environment(it)))
        }
        .boxed()
    }
}

impl Images for Client {
    fn images(&self, timeout: Duration) -> BoxFuture<'_, Result<Vec<Image>, Error>> {
        self.list_images(timeout).boxed()
    }

    fn pull(&self, pull: Pull) -> BoxFuture<'_, Result<(), Error>> {
        let Pull { image, credential, labels, annotations, timeout } = pull;
        let auth = credential
            .map(|it| proto::AuthConfig { username: it.username, password: it.password.reveal().to_owned() });
        let request = proto::PullImageRequest {
            image: Some(proto::ImageSpec { image }),
            auth,
            // Some runtimes fall over without one.
            sandbox_config: Some(proto::PodSandboxConfig {
                metadata: Some(proto::PodSandboxMetadata::default()),
                labels: labels.into_iter().collect(),
                annotations: annotations.into_iter().collect(),
            }),
        };
        async move {
            let pulled = self.call::<_, proto::PullImageResponse>(calls::PULL_IMAGE, request, Some(timeout));
            pulled.await.map(drop)
        }
        .boxed()
    }
}

/// A lazy channel: each call connects if the connection is gone.
fn channel(path: &Path) -> Channel {
    let path: Arc<Path> = path.into();
    // The address is never resolved; it gives requests the authority that runtimes expect.
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_timeout(CONNECT).connect_with_connector_lazy(connector)
}

fn read_status(call: &'static str, deadline: Option<Duration>, status: &tonic::Status) -> Error {
    match (status.code(), deadline) {
        // What tonic says when the deadline that we sent along has passed.
        (Code::DeadlineExceeded | Code::Cancelled, Some(after))
            if status.message().contains("Timeout expired") =>
        {
            Error::Timeout { call, after }
        }
        (code, _) => Error::Refused { call, code: format!("{code:?}"), message: status.message().to_owned() },
    }
}

/// One method of the interface.
#[derive(Debug, Clone, Copy)]
struct Call {
    name: &'static str,
    path: &'static str,
}

impl Call {
    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(self.path)
    }
}

mod calls {
    use super::Call;

    macro_rules! calls {
        ($($constant:ident $service:literal $name:literal,)*) => {
            $(pub(super) const $constant: Call =
                Call { name: $name, path: concat!("/runtime.v1.", $service, "/", $name) };)*
        };
    }

    calls! {
        VERSION "RuntimeService" "Version",
        LIST_CONTAINERS "RuntimeService" "ListContainers",
        CONTAINER_STATUS "RuntimeService" "ContainerStatus",
        STOP_CONTAINER "RuntimeService" "StopContainer",
        EXEC_SYNC "RuntimeService" "ExecSync",
        POD_SANDBOX_STATUS "RuntimeService" "PodSandboxStatus",
        IMAGE_FS_INFO "ImageService" "ImageFsInfo",
        LIST_IMAGES "ImageService" "ListImages",
        PULL_IMAGE "ImageService" "PullImage",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_socket_is_named() {
        let (clock, metrics) = (Clock::system(), DaemonMetrics::new());
        let error = Client::connect(Path::new("/nonexistent/cri.sock"), clock, metrics).await.unwrap_err();
        assert!(matches!(error, Unusable::Connect { .. }));
        assert_eq!(error.to_string(), "cannot connect to /nonexistent/cri.sock");
        let told = with_causes(&error).to_string();
        assert!(
            told.starts_with("cannot connect to /nonexistent/cri.sock: No such file or directory"),
            "{told}"
        );
    }

    #[test]
    fn a_forbidden_socket_says_what_to_do() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Unusable::Connect { path: "/run/x.sock".into(), source };
        assert!(error.to_string().contains("must run as a user who may write to the socket"), "{error}");
    }

    #[test]
    fn calls_have_the_paths_of_the_interface() {
        assert_eq!(calls::PULL_IMAGE.path, "/runtime.v1.ImageService/PullImage");
        assert_eq!(calls::EXEC_SYNC.path, "/runtime.v1.RuntimeService/ExecSync");
    }
}
