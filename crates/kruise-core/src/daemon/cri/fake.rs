//! A runtime for tests: it remembers what it was asked and answers what it was told.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};

use super::{Container, Environment, Error, Filter, Image, Images, Pull, Runtime};

/// How the next download ends; well if nothing is said.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    Fail(&'static str),
    Hang,
    Take(Duration),
}

#[derive(Debug, Default)]
pub(crate) struct FakeImages {
    outcomes: Mutex<VecDeque<Outcome>>,
    pulls: Mutex<Vec<Pull>>,
    images: Mutex<Vec<Image>>,
}

impl FakeImages {
    pub(crate) fn with(outcomes: Vec<Outcome>) -> Self {
        Self { outcomes: Mutex::new(outcomes.into()), ..Self::default() }
    }

    pub(crate) fn pulls(&self) -> Vec<Pull> {
        lock(&self.pulls).clone()
    }

    pub(crate) fn put(&self, reference: &str) {
        let id = format!("sha256:config-of-{reference}");
        let image = match reference.contains('@') {
            true => Image { id, repo_digests: vec![reference.into()], ..Image::default() },
            false => Image { id, repo_tags: vec![reference.into()], ..Image::default() },
        };
        lock(&self.images).push(image);
    }
}

impl Images for FakeImages {
    fn images(&self, _: Duration) -> BoxFuture<'_, Result<Vec<Image>, Error>> {
        async { Ok(lock(&self.images).clone()) }.boxed()
    }

    fn pull(&self, pull: Pull) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let outcome = lock(&self.outcomes).pop_front();
            let image = pull.image.clone();
            lock(&self.pulls).push(pull);
            match outcome {
                Some(Outcome::Fail(message)) => {
                    return Err(Error::Refused {
                        call: "PullImage",
                        code: "Unknown".into(),
                        message: message.into(),
                    });
                }
                Some(Outcome::Hang) => std::future::pending().await,
                Some(Outcome::Take(time)) => tokio::time::sleep(time).await,
                None => {}
            }
            self.put(&image);
            Ok(())
        }
        .boxed()
    }
}

/// What a fake runtime was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Exec(String, Vec<String>),
    Stop(String, u32),
}

#[derive(Debug, Default)]
pub(crate) struct FakeRuntime {
    pub(crate) containers: Mutex<Vec<Container>>,
    pub(crate) containers_fail: Mutex<Option<Error>>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    pub(crate) exec_takes: Mutex<Duration>,
    pub(crate) exec_answer: Mutex<Option<Result<Vec<u8>, Error>>>,
    pub(crate) stop_fails: Mutex<Option<Error>>,
    pub(crate) environment: Mutex<Option<Environment>>,
}

impl FakeRuntime {
    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }
}

impl Runtime for FakeRuntime {
    fn name(&self) -> &str {
        "containerd"
    }

    fn containers(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Container>, Error>> {
        async move {
            if let Some(error) = lock(&self.containers_fail).clone() {
                return Err(error);
            }
            let all = lock(&self.containers).clone();
            let fits = |it: &Container| match &filter {
                Filter::Pod(uid) => it.labels.get(super::keys::POD_UID) == Some(uid),
                Filter::Named { pod, container } => {
                    it.labels.get(super::keys::POD_UID) == Some(pod) && it.name == *container
                }
                Filter::Id(id) => it.id == *id,
            };
            Ok(all.into_iter().filter(fits).collect())
        }
        .boxed()
    }

    fn stop(&self, id: &str, grace: u32) -> BoxFuture<'_, Result<(), Error>> {
        let id = id.to_owned();
        async move {
            lock(&self.asked).push(Asked::Stop(id, grace));
            lock(&self.stop_fails).clone().map_or(Ok(()), Err)
        }
        .boxed()
    }

    fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        _: Option<Duration>,
    ) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        let id = id.to_owned();
        async move {
            lock(&self.asked).push(Asked::Exec(id, command));
            let takes = *lock(&self.exec_takes);
            tokio::time::sleep(takes).await;
            lock(&self.exec_answer).clone().unwrap_or(Ok(Vec::new()))
        }
        .boxed()
    }

    fn address(&self, _: &str) -> BoxFuture<'_, Result<Option<String>, Error>> {
        async { Ok(Some("127.0.0.1".into())) }.boxed()
    }

    fn environment(&self, _: &str) -> BoxFuture<'_, Result<Option<Environment>, Error>> {
        async { Ok(lock(&self.environment).clone()) }.boxed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
