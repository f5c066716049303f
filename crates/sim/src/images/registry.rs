//! Registries: how long a download takes, who may have it, and what was downloaded.
//!
//! A registry that nobody has named is perfect and remembers nothing. One that was named with
//! [`World::registry`] keeps a record of every download from it, and can be slow, refuse, lack images, or ask for a login.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Login, full, host};
use crate::world::{World, lock};

/// A handle to a registry. Clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    takes: Option<Duration>,
    refuses: Option<String>,
    needs: Option<Login>,
    lacks: BTreeSet<String>,
    downloads: Vec<Download>,
}

/// One download, or the try to have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Cluster and node: `member-1/node-1`.
    pub node: String,
    /// The full reference.
    pub image: String,
    /// Who logged in.
    pub user: Option<String>,
    /// When it began.
    pub began: Duration,
    /// When it ended, and how.
    pub end: Option<(Duration, Ending)>,
}

/// How a download ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The node has the image.
    Done,
    /// The node had it before: there was nothing to download.
    Unchanged,
    /// The registry said no.
    Refused(String),
    /// The client did not wait for the end.
    GivenUp,
}

/// Why a runtime or a registry did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of refusal, in gRPC's words: `NotFound`, `Unknown` and so on.
    pub code: &'static str,
    /// What is said about it.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl Registry {
    /// Every download that begins from now on takes this long.
    pub fn slow(self, takes: Duration) -> Self {
        self.state().takes = Some(takes);
        self
    }

    /// Downloads take as long as nodes and images say, as they do with registries that nobody has named.
    pub fn usual_pace(self) -> Self {
        self.state().takes = None;
        self
    }

    /// Every download is refused from now on.
    pub fn refuse(self, reason: &str) -> Self {
        self.state().refuses = Some(reason.to_owned());
        self
    }

    /// Downloads are not refused any more.
    pub fn accept(self) -> Self {
        self.state().refuses = None;
        self
    }

    /// Only who logs in like this may download.
    pub fn needs(self, user: &str, password: &str) -> Self {
        self.state().needs = Some(Login::new(user, password));
        self
    }

    /// It does not have this image, until it is [published](Self::publish).
    pub fn lacks(self, image: &str) -> Self {
        self.state().lacks.insert(full(image));
        self
    }

    /// It has this image from now on.
    pub fn publish(self, image: &str) -> Self {
        self.state().lacks.remove(&full(image));
        self
    }

    /// Every download since the registry was named, in the order of their beginnings.
    pub fn downloads(&self) -> Vec<Download> {
        self.state().downloads.clone()
    }

    /// How often nodes got a whole image.
    pub fn done(&self) -> usize {
        let state = self.state();
        state.downloads.iter().filter(|it| matches!(it.end, Some((_, Ending::Done)))).count()
    }

    /// How many downloads there were at the busiest moment. What is answered at once does not count.
    pub fn most_at_once(&self) -> usize {
        let state = self.state();
        let mut steps = Vec::new();
        for it in &state.downloads {
            let end = match &it.end {
                Some((_, Ending::Refused(_) | Ending::Unchanged)) => continue,
                Some((at, _)) => *at,
                None => Duration::MAX,
            };
            // Of what happens in one instant the ends come first.
            steps.extend([(it.began, 1_i8), (end, -1)]);
        }
        steps.sort_unstable();
        let mut now = 0_isize;
        let counts = steps.into_iter().map(|(_, step)| {
            now += isize::from(step);
            now
        });
        counts.max().unwrap_or_default().unsigned_abs()
    }

    /// Begins a download that takes `usual` if the registry does not say otherwise. The number is for [`Self::end`].
    pub(crate) fn begin(
        &self,
        node: &str,
        image: &str,
        login: Option<&Login>,
        now: Duration,
        usual: Duration,
    ) -> Result<(usize, Duration), Refusal> {
        let mut state = self.state();
        let refusal = state.refusal(image, login);
        let end = refusal.as_ref().map(|it| (now, Ending::Refused(it.message.clone())));
        let (node, image) = (node.to_owned(), image.to_owned());
        let user = login.map(|it| it.user.clone());
        state.downloads.push(Download { node, image, user, began: now, end });
        match refusal {
            Some(refusal) => Err(refusal),
            None => Ok((state.downloads.len() - 1, state.takes.unwrap_or(usual))),
        }
    }

    /// Writes down how a download ended.
    pub(crate) fn end(&self, number: usize, at: Duration, ending: Ending) {
        if let Some(download) = self.state().downloads.get_mut(number) {
            download.end = Some((at, ending));
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    fn refusal(&self, image: &str, login: Option<&Login>) -> Option<Refusal> {
        let failed = |why: &str| format!("failed to pull and unpack image {image:?}: {why}");
        if let Some(reason) = &self.refuses {
            return Some(Refusal::new("Unknown", failed(reason)));
        }
        if self.needs.as_ref().is_some_and(|it| login != Some(it)) {
            let why = match login {
                Some(_) => "unexpected status from the registry: 401 Unauthorized",
                None => "pull access denied, repository does not exist or may require authorization",
            };
            return Some(Refusal::new("Unknown", failed(why)));
        }
        let is_lacking = self.lacks.contains(image);
        is_lacking.then(|| Refusal::new("NotFound", failed(&format!("{image}: not found"))))
    }
}

/// The registries that were named, by host.
#[derive(Debug, Default)]
pub(crate) struct Registries(Mutex<BTreeMap<String, Registry>>);

impl Registries {
    fn named(&self, host: &str) -> Registry {
        lock(&self.0).entry(host.to_owned()).or_default().clone()
    }

    /// The registry of a full reference, if it was named.
    pub(crate) fn of(&self, image: &str) -> Option<Registry> {
        lock(&self.0).get(host(image)).cloned()
    }
}

impl World {
    /// The registry of this host: `docker.io` for names without one. Its downloads are recorded from the first call on.
    pub fn registry(&self, host: &str) -> Registry {
        self.shared.registries.named(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "docker.io/library/nginx:1";
    const USUAL: Duration = Duration::from_secs(3);

    fn begin(registry: &Registry, login: Option<&Login>, now: u64) -> Result<(usize, Duration), Refusal> {
        registry.begin("m/n", IMAGE, login, Duration::from_secs(now), USUAL)
    }

    #[test]
    fn a_registry_is_slow_refuses_lacks_and_asks_for_a_login_as_told() {
        let registry = Registry::default();
        assert_eq!(begin(&registry, None, 0), Ok((0, USUAL)));
        let registry = registry.slow(Duration::from_secs(60));
        assert_eq!(begin(&registry, None, 1), Ok((1, Duration::from_secs(60))));
        let registry = registry.lacks("nginx:1");
        assert_eq!(begin(&registry, None, 2).unwrap_err().code, "NotFound");
        let registry = registry.publish("nginx:1").needs("u", "p");
        assert!(begin(&registry, None, 3).unwrap_err().message.contains("may require authorization"));
        let wrong = begin(&registry, Some(&Login::new("u", "x")), 4).unwrap_err();
        assert!(wrong.message.contains("401 Unauthorized"), "{wrong}");
        assert!(begin(&registry, Some(&Login::new("u", "p")), 5).is_ok());
        let registry = registry.refuse("toomanyrequests");
        assert!(begin(&registry, Some(&Login::new("u", "p")), 6).is_err());
        assert!(begin(&registry.accept(), Some(&Login::new("u", "p")), 7).is_ok());
    }

    #[test]
    fn the_busiest_moment_is_counted_without_refusals() {
        let registry = Registry::default();
        let at = Duration::from_secs;
        for (began, ended) in [(0, 10), (10, 20), (15, 30)] {
            let (number, _) = begin(&registry, None, began).unwrap();
            registry.end(number, at(ended), Ending::Done);
        }
        let registry = registry.refuse("no");
        begin(&registry, None, 16).unwrap_err();
        assert_eq!((registry.most_at_once(), registry.done()), (2, 3));
        let registry = registry.accept();
        begin(&registry, None, 19).unwrap();
        assert_eq!(registry.most_at_once(), 3, "what has not ended goes on");
    }
}
