//! A simulated runtime, as the daemon sees runtimes.

use std::{future::Future, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use kruise_core::daemon::cri::{
    Container, ContainerState, Environment, Error, Filter, Image, Images, Pull, Runtime, keys, newest_first,
};
use sim::{
    images::{Login, Refusal},
    nodes::runtime,
};
use tokio_util::sync::CancellationToken;

/// The runtime of one node, for one life of its daemon.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) runtime: runtime::Runtime,
    pub(super) life: CancellationToken,
}

impl Node {
    /// What a call comes to; a daemon that was killed does not hear of it, and what it asked for is given up.
    async fn alive<T>(&self, call: impl Future<Output = T>) -> T {
        match self.life.run_until_cancelled(call).await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

impl Runtime for Node {
    fn name(&self) -> &str {
        "containerd"
    }

    fn containers(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Container>, Error>> {
        let is_meant = move |it: &Container| match &filter {
            Filter::Pod(uid) => it.labels.get(keys::POD_UID) == Some(uid),
            Filter::Named { pod, container } => {
                it.labels.get(keys::POD_UID) == Some(pod) && it.name == *container
            }
            Filter::Id(id) => it.id == *id,
        };
        async move {
            let all = self.alive(self.runtime.containers()).await;
            let mut all: Vec<_> = all.into_iter().map(read).filter(is_meant).collect();
            newest_first(&mut all);
            Ok(all)
        }
        .boxed()
    }

    fn stop(&self, id: &str, grace: u32) -> BoxFuture<'_, Result<(), Error>> {
        let (id, grace) = (id.to_owned(), Duration::from_secs(u64::from(grace)));
        async move {
            let stopped = self.alive(self.runtime.stop(&id, grace)).await;
            stopped.map_err(|it| refused("StopContainer", it))
        }
        .boxed()
    }

    fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Option<Duration>,
    ) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        let id = id.to_owned();
        async move {
            let limit = timeout.unwrap_or(Duration::MAX);
            let ran = tokio::time::timeout(limit, self.alive(self.runtime.exec(&id, command))).await;
            let ran = ran.map_err(|_| Error::CommandTimedOut)?.map_err(|it| refused("ExecSync", it))?;
            match ran.code {
                0 => Ok(ran.stdout.into_bytes()),
                code => Err(Error::CommandFailed { code, stderr: ran.stderr }),
            }
        }
        .boxed()
    }

    fn address(&self, sandbox: &str) -> BoxFuture<'_, Result<Option<String>, Error>> {
        let sandbox = sandbox.to_owned();
        async move {
            let address = self.alive(self.runtime.address(&sandbox)).await;
            address.map_err(|it| refused("PodSandboxStatus", it))
        }
        .boxed()
    }

    fn environment(&self, _: &str) -> BoxFuture<'_, Result<Option<Environment>, Error>> {
        async { Ok(None) }.boxed()
    }
}

impl Images for Node {
    fn images(&self, _: Duration) -> BoxFuture<'_, Result<Vec<Image>, Error>> {
        let read = |it: runtime::Image| Image { id: it.id, repo_tags: it.tags, repo_digests: it.digests };
        async move { Ok(self.alive(self.runtime.images()).await.into_iter().map(read).collect()) }.boxed()
    }

    fn pull(&self, pull: Pull) -> BoxFuture<'_, Result<(), Error>> {
        let Pull { image, credential, timeout, labels: _, annotations: _ } = pull;
        let login = credential.map(|it| Login::new(&it.username, it.password.reveal()));
        async move {
            let pulled = tokio::time::timeout(timeout, self.alive(self.runtime.pull(&image, login))).await;
            let late = |_| Error::Timeout { call: "PullImage", after: timeout };
            pulled.map_err(late)?.map_err(|it| refused("PullImage", it))
        }
        .boxed()
    }
}

fn refused(call: &'static str, refusal: Refusal) -> Error {
    Error::Refused { call, code: refusal.code.to_owned(), message: refusal.message }
}

fn read(it: runtime::Container) -> Container {
    let runtime::Container { id, sandbox, name, state, restarts, created, labels, annotations } = it;
    let hash = annotations.get(keys::CONTAINER_HASH).and_then(|it| u64::from_str_radix(it, 16).ok());
    Container {
        id,
        sandbox_id: sandbox,
        name,
        state: match state {
            runtime::ContainerState::Running => ContainerState::Running,
            runtime::ContainerState::Exited => ContainerState::Exited,
        },
        created_at: created,
        started_at: Some(created),
        hash: hash.unwrap_or_default(),
        restart_count: i32::try_from(restarts).unwrap_or(i32::MAX),
        labels,
        annotations,
    }
}
