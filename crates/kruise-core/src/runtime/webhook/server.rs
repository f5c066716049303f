//! The server and how it is put together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use jiff::Timestamp;
use kube::Client;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    Error, Handle, Host,
    certs::{DEFAULT_RENEW_BEFORE, Directory, Store},
    keeper::{Keeper, Now},
    presenter::Presenter,
    registration::{self, ConfigurationNames, Registration},
    review::AdmissionRequest,
    routes::{Event, Observer, Routes},
    settings::PORT,
    sync::{self, Pace},
    verdict::Verdict,
};

/// How long running requests may take to end once the server is told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// An admission and conversion webhook server that looks after its own certificate and registrations.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    presenter: Presenter,
    plan: Plan,
}

/// Everything a [`Server`] has been told.
struct Plan {
    host: Host,
    storage: Storage,
    own_namespace: String,
    names: ConfigurationNames,
    table: Vec<Registration>,
    converted: Vec<String>,
    routes: Routes,
    now: Now,
    renew_before: Duration,
    overlap: Duration,
    pace: Pace,
}

/// Where certificates are kept; the client comes later.
#[derive(Debug)]
enum Storage {
    Secret { namespace: String, name: String },
    External { namespace: String, name: String },
    Directory(PathBuf),
}

impl Server {
    /// Starts with nothing but defaults.
    pub fn builder() -> Builder {
        Builder {
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)),
            host: None,
            storage: None,
            own_namespace: None,
            names: ConfigurationNames::default(),
            table: Vec::new(),
            converted: Vec::new(),
            routes: Routes { reviews: BTreeMap::new(), converter: None, observer: Arc::new(|_| {}) },
            now: None,
            renew_before: DEFAULT_RENEW_BEFORE,
            overlap: Duration::from_secs(24 * 60 * 60),
            pace: Pace { initialize_within: Duration::from_secs(60), settle: Duration::from_secs(10) },
        }
    }

    /// Where the server listens. Connections wait there until [`Self::run`] serves them.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells how the server is doing while it runs.
    pub fn handle(&self) -> Handle {
        self.presenter.handle(self.address, self.plan.host.dns_name())
    }

    /// Serves and looks after itself until `token` is cancelled; then lets running requests end.
    ///
    /// Fails if the certificate, the configurations and the CRDs cannot be set up once in time. Later failures of
    /// upkeep are retried for ever: what is served stays good meanwhile.
    pub async fn run(self, client: Client, token: CancellationToken) -> Result<(), Error> {
        let Self { listener, address, presenter, plan } = self;
        let observer = Arc::clone(&plan.routes.observer);
        let pace = plan.pace;
        let router = plan.routes.router();
        let keeper = plan.keeper(client);

        // Whichever of the two ends first ends the other: neither is of use alone.
        let stop = token.child_token();
        let upkeep = async {
            let ended = sync::run(keeper, &presenter, pace, &observer, &stop).await;
            stop.cancel();
            ended
        };
        let serving = async {
            let served = serve(listener, address, router, &presenter, &stop).await;
            stop.cancel();
            served
        };
        let (upkeep, serving) = tokio::join!(upkeep, serving);
        upkeep.and(serving)
    }
}

async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    router: axum::Router,
    presenter: &Presenter,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let config = tokio::select! {
        biased;
        config = presenter.config() => config,
        () = stop.cancelled() => return Ok(()),
    };
    let failed = |source| Error::Serve { source };
    let handle = axum_server::Handle::new();
    let server = axum_server::from_tcp_rustls(listener, config).map_err(failed)?;
    let mut serving = std::pin::pin!(server.handle(handle.clone()).serve(router.into_make_service()));
    info!(%address, "serving webhooks");
    tokio::select! {
        biased;
        served = &mut serving => return served.map_err(failed),
        () = stop.cancelled() => handle.graceful_shutdown(Some(GRACE)),
    }
    serving.await.map_err(failed)
}

impl Plan {
    fn keeper(self, client: Client) -> Keeper {
        let store = match &self.storage {
            Storage::Secret { namespace, name } => Store::secret(client.clone(), namespace, name),
            Storage::External { namespace, name } => Store::external(client.clone(), namespace, name),
            Storage::Directory(path) => Store::Directory(Directory::new(path)),
        };
        Keeper {
            client,
            store,
            host: self.host,
            own_namespace: self.own_namespace,
            names: self.names,
            table: self.table,
            served: self.routes.reviews.into_keys().collect(),
            converted: self.converted,
            renew_before: self.renew_before,
            overlap: self.overlap,
            now: self.now,
            in_order: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("host", &self.host)
            .field("storage", &self.storage)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// Puts a [`Server`] together.
#[must_use]
pub struct Builder {
    listen: SocketAddr,
    host: Option<Host>,
    storage: Option<Storage>,
    own_namespace: Option<String>,
    names: ConfigurationNames,
    table: Vec<Registration>,
    converted: Vec<String>,
    routes: Routes,
    now: Option<Now>,
    renew_before: Duration,
    overlap: Duration,
    pace: Pace,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("listen", &self.listen)
            .field("host", &self.host)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Where to listen; port 9876 on every interface unless told otherwise. Port 0 takes any free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// How the API server reaches us. Required.
    pub fn host(mut self, host: Host) -> Self {
        self.host = Some(host);
        self
    }

    /// Keeps the certificate in a Secret that all replicas share, and makes it when it is missing. One of this,
    /// [`Self::external`] and [`Self::directory`] is required.
    pub fn secret(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace = namespace.into();
        self.own_namespace.get_or_insert_with(|| namespace.clone());
        self.storage = Some(Storage::Secret { namespace, name: name.into() });
        self
    }

    /// Takes the certificate from a Secret that somebody else fills (`ca.crt`, `tls.crt`, `tls.key`), and only checks
    /// that configurations and CRDs trust it.
    pub fn external(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace = namespace.into();
        self.own_namespace.get_or_insert_with(|| namespace.clone());
        self.storage = Some(Storage::External { namespace, name: name.into() });
        self
    }

    /// Keeps the certificate in files. Replicas must share the directory, or each trusts only itself. Changes made by
    /// others are noticed within a minute.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.storage = Some(Storage::Directory(path.into()));
        self
    }

    /// The namespace we run in, which no webhook may cover; that of the Secret unless told otherwise.
    pub fn own_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.own_namespace = Some(namespace.into());
        self
    }

    /// The names of the webhook configurations; OpenKruise's unless told otherwise.
    pub fn configurations(mut self, names: ConfigurationNames) -> Self {
        self.names = names;
        self
    }

    /// Which requests are to be sent to the paths served. A configuration with a row here must exist when we are
    /// reached through a Service; otherwise it is made. Rows whose path is not served are left out.
    pub fn registrations(mut self, table: &[Registration]) -> Self {
        self.table.extend_from_slice(table);
        self
    }

    /// Answers the reviews at `path` with a plain function.
    pub fn review(
        self,
        path: impl Into<String>,
        review: impl Fn(&AdmissionRequest) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let review = Arc::new(review);
        self.review_async(path, move |request| {
            let review = Arc::clone(&review);
            async move { review(&request) }
        })
    }

    /// Answers the reviews at `path` with a function that may wait: for a cache, or for another object.
    pub fn review_async<F>(
        mut self,
        path: impl Into<String>,
        review: impl Fn(Arc<AdmissionRequest>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Verdict> + Send + 'static,
    {
        let reviewer = Arc::new(move |request| review(request).boxed());
        self.routes.reviews.insert(path.into(), reviewer);
        self
    }

    /// Converts the objects of the CRDs named in `crds` (as in `clonesets.apps.kruise.io`) with `convert`, which gets
    /// an object and the group and version wanted.
    pub fn conversion<S: Into<String>>(
        mut self,
        crds: impl IntoIterator<Item = S>,
        convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        self.converted = crds.into_iter().map(Into::into).collect();
        self.routes.converter = Some(Arc::new(convert));
        self
    }

    /// Tells the time. Required.
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.now = Some(Arc::new(now));
        self
    }

    /// Hears what the server does, for metrics.
    pub fn observer(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        let observer: Observer = Arc::new(observer);
        self.routes.observer = observer;
        self
    }

    /// How long before its end a certificate is replaced; 180 days unless told otherwise.
    pub fn renew_before(mut self, period: Duration) -> Self {
        self.renew_before = period;
        self
    }

    /// How long a former authority stays trusted; a day unless told otherwise.
    pub fn overlap(mut self, period: Duration) -> Self {
        self.overlap = period;
        self
    }

    /// How long API servers get to learn of a new authority before its certificate is presented; 10 s unless told
    /// otherwise.
    pub fn settle(mut self, period: Duration) -> Self {
        self.pace.settle = period;
        self
    }

    /// How soon everything must have been set up once; 60 s unless told otherwise.
    pub fn initialize_within(mut self, period: Duration) -> Self {
        self.pace.initialize_within = period;
        self
    }

    /// Takes the port. Nothing is served before [`Server::run`].
    pub fn bind(self) -> Result<Server, Error> {
        let host = self.host.ok_or(Error::Incomplete("a host"))?;
        ServerName::try_from(host.dns_name())
            .map_err(|_| Error::Incomplete("a host that is a DNS name or an address"))?;
        let storage = self.storage.ok_or(Error::Incomplete("a place for its certificate"))?;
        let own_namespace = self.own_namespace.ok_or(Error::Incomplete("its own namespace"))?;
        let now = self.now.ok_or(Error::Incomplete("a clock"))?;
        let faults = registration::check(&self.table);
        if !faults.is_empty() {
            return Err(Error::Registrations(faults));
        }

        let failed = |source| Error::Listen { address: self.listen, source };
        let listener = TcpListener::bind(self.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let served: BTreeSet<_> = self.routes.reviews.keys().map(String::as_str).collect();
        let table = self.table.into_iter().filter(|it| served.contains(it.path)).collect();
        Ok(Server {
            listener,
            address,
            presenter: Presenter::new(Arc::clone(&self.routes.observer)),
            plan: Plan {
                host: host.at_port(address.port()),
                storage,
                own_namespace,
                names: self.names,
                table,
                converted: self.converted,
                routes: self.routes,
                now,
                renew_before: self.renew_before,
                overlap: self.overlap,
                pace: self.pace,
            },
        })
    }
}
