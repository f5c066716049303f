//! One client's way to one cluster.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Mutex,
};

use tokio::sync::watch;

use super::{Fate, Weather};
use crate::{seed::Seed, server::request::ApiRequest, world::lock};

/// Which way a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Direction {
    /// Requests do not arrive.
    pub to_server: bool,
    /// Answers and events do not arrive.
    pub to_client: bool,
}

impl Direction {
    /// Nothing gets through.
    pub const BOTH: Self = Self { to_server: true, to_client: true };
    /// The server never hears of requests.
    pub const TO_SERVER: Self = Self { to_server: true, to_client: false };
    /// Requests are carried out, and the client never learns of it.
    pub const TO_CLIENT: Self = Self { to_server: false, to_client: true };
    /// Everything gets through.
    pub const OPEN: Self = Self { to_server: false, to_client: false };
}

type Matcher = Box<dyn Fn(&ApiRequest) -> bool + Send>;

/// One client's way to one cluster. Shared by all connections between the two.
pub struct Link {
    /// The client's name.
    pub client: String,
    /// The cluster's name.
    pub cluster: String,
    seed: Seed,
    weather: Mutex<Weather>,
    cut: watch::Sender<Direction>,
    script: Mutex<VecDeque<(Matcher, Fate)>>,
    counts: Mutex<HashMap<u64, u64>>,
}

impl Link {
    pub(crate) fn new(client: &str, cluster: &str, seed: Seed, weather: Weather) -> Self {
        Self {
            client: client.to_owned(),
            cluster: cluster.to_owned(),
            seed: seed.of("link").of(client).of(cluster),
            weather: Mutex::new(weather),
            cut: watch::Sender::new(Direction::OPEN),
            script: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// Sets the weather.
    pub fn set_weather(&self, weather: Weather) {
        *lock(&self.weather) = weather;
    }

    /// The weather.
    pub fn weather(&self) -> Weather {
        lock(&self.weather).clone()
    }

    /// Cuts the link. Requests hang, and watches stand still, until [`Self::heal`].
    pub fn cut(&self, direction: Direction) {
        self.cut.send_replace(direction);
    }

    /// Opens the link again. What was on its way before the cut is lost; watches go on.
    pub fn heal(&self) {
        self.cut.send_replace(Direction::OPEN);
    }

    /// What is cut now.
    pub fn is_cut(&self) -> Direction {
        *self.cut.borrow()
    }

    /// Decides about the next request that fits, once, whatever the weather.
    pub fn next(&self, fits: impl Fn(&ApiRequest) -> bool + Send + 'static, fate: Fate) {
        lock(&self.script).push_back((Box::new(fits), fate));
    }

    pub(super) fn cut_changes(&self) -> watch::Receiver<Direction> {
        self.cut.subscribe()
    }

    /// The draw for a request: the same for the n-th request of its kind, whenever it is made.
    pub(super) fn draw(&self, identity: &str) -> Seed {
        let seed = self.seed.of(identity);
        let mut counts = lock(&self.counts);
        let count = counts.entry(seed.bits()).or_insert(0);
        *count += 1;
        seed.at(*count)
    }

    pub(super) fn fate(&self, request: &ApiRequest, seed: Seed) -> Fate {
        let mut script = lock(&self.script);
        if let Some(index) = script.iter().position(|(fits, _)| fits(request))
            && let Some((_, fate)) = script.remove(index)
        {
            return fate;
        }
        drop(script);
        lock(&self.weather).fate(request, seed)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Link")
            .field("client", &self.client)
            .field("cluster", &self.cluster)
            .field("cut", &self.is_cut())
            .finish_non_exhaustive()
    }
}
