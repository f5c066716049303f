//! The tower service a `kube::Client` is built on.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;
use tokio::sync::oneshot;
use tower::{BoxError, Service};

use super::{Fate, Link, stream::SimBody};
use crate::{
    seed::Seed,
    serve::Asker,
    server::{Answer, request::ApiRequest, status::Failure, watch::WatchSession, webhooks::Hearing},
    world::{Life, Member, Shared},
};

/// The shortest way there is. Every request made in one instant arrives in a later one, so that all of them can be
/// put in order.
const SHORTEST: Duration = Duration::from_millis(1);

/// One client's connections to one cluster.
#[derive(Clone, Debug)]
pub struct LinkService {
    world: Weak<Shared>,
    member: Arc<Member>,
    link: Arc<Link>,
    life: Option<Life>,
    /// Who asks webhooks about writes; without one they are not asked.
    asker: Option<Asker>,
}

impl LinkService {
    pub(crate) fn new(world: &Arc<Shared>, member: Arc<Member>, link: Arc<Link>, life: Option<Life>) -> Self {
        Self { world: Arc::downgrade(world), member, link, life, asker: None }
    }

    /// The same, where webhooks are asked about writes as their configurations say.
    pub(crate) fn asking(self, asker: Asker) -> Self {
        Self { asker: Some(asker), ..self }
    }
}

impl Service<Request<Body>> for LinkService {
    type Response = Response<SimBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| BoxError::from(error.to_string()))?.to_bytes();
            service.exchange(parts, body).await
        })
    }
}

/// What a request comes back with.
enum Outcome {
    Answer(Answer),
    Broken,
    Silent,
}

impl LinkService {
    async fn exchange(self, parts: Parts, body: Bytes) -> Result<Response<SimBody>, BoxError> {
        let Some(world) = self.world.upgrade() else { return Err(reset()) };
        if self.life.as_ref().is_some_and(Life::is_over) {
            drop(world);
            return never().await;
        }
        let identity = identity(&parts, &body);
        let mut request = match ApiRequest::read(&parts.method, &parts.uri, &parts.headers, body) {
            Ok(Some(mut request)) => {
                if request.agent.is_empty() {
                    request.agent.clone_from(&self.link.client);
                }
                request
            }
            Ok(None) => return Ok(self.describe(&parts)),
            Err(failure) => return Ok(plain(&Answer::json(failure.code, &failure.body()))),
        };
        drop(world);
        request.hearing = self.asker.as_ref().filter(|_| request.is_write()).map(|_| Hearing::default());
        loop {
            let draw = self.link.draw(&identity);
            let question = match self.send(&request, draw).await {
                Ok(Outcome::Answer(Answer::Ask(question))) => question,
                Ok(Outcome::Answer(answer)) => return Ok(self.response(answer, draw)),
                Ok(Outcome::Broken) => return Err(reset()),
                Ok(Outcome::Silent) | Err(_) => return never().await,
            };
            let (Some(asker), Some(hearing)) = (&self.asker, &mut request.hearing) else {
                return Err(reset());
            };
            asker.ask(*question, hearing).await?;
        }
    }

    /// Sends a request on its way.
    async fn send(&self, request: &ApiRequest, draw: Seed) -> Result<Outcome, oneshot::error::RecvError> {
        let Some(world) = self.world.upgrade() else { return Ok(Outcome::Broken) };
        let weather = self.link.weather();
        let way = |name: &str| draw.of(name).between(weather.latency.0, weather.latency.1).max(SHORTEST);
        let fate = self.link.fate(request, draw);
        let (there, back) = (way("there"), way("back"));

        let (sender, receiver) = oneshot::channel();
        let due = world.clock.elapsed() + there;
        let request = request.clone();
        let arrival = Arrival { service: self.clone(), request, fate, back, draw, sender };
        world.agenda.add(due, draw.bits(), Some(self.member.clone()), move |world| arrival.happen(world));
        drop(world);
        receiver.await
    }

    fn describe(&self, parts: &Parts) -> Response<SimBody> {
        let accept = parts.headers.get(http::header::ACCEPT).and_then(|it| it.to_str().ok());
        let page = self.member.server().describe(parts.uri.path(), accept.unwrap_or_default());
        let response = Response::builder().status(page.code).header(http::header::CONTENT_TYPE, page.media);
        response.body(SimBody::full(page.body)).expect("constant headers are valid")
    }

    fn response(&self, answer: Answer, draw: Seed) -> Response<SimBody> {
        match answer {
            Answer::Watch(plan) => {
                let session = WatchSession::begin(self.member.server().clone(), plan);
                let body = SimBody::watch(session, self.link.clone(), self.life.clone(), draw.of("watch"));
                let response = Response::builder().header(http::header::CONTENT_TYPE, "application/json");
                response.body(body).expect("constant headers are valid")
            }
            body => plain(&body),
        }
    }
}

/// A request on its way.
struct Arrival {
    service: LinkService,
    request: ApiRequest,
    fate: Fate,
    back: Duration,
    draw: Seed,
    sender: oneshot::Sender<Outcome>,
}

impl Arrival {
    fn happen(self, world: &Arc<Shared>) {
        let Self { service, mut request, fate, back, draw, sender } = self;
        let link = &service.link;
        if link.is_cut().to_server || fate == Fate::Silence {
            log(world, link, &request, "silence");
            let _ = sender.send(Outcome::Silent);
            return;
        }
        if fate == Fate::LoseRequest {
            log(world, link, &request, "lost");
            answer_later(world, back, draw, sender, Outcome::Broken);
            return;
        }
        if let Fate::Refuse(code) = fate {
            log(world, link, &request, &format!("refused {code}"));
            answer_later(world, back, draw, sender, Outcome::Answer(refusal(code, &request)));
            return;
        }
        if let Fate::Stale(age) = fate {
            request.query.staleness = Some(age);
        }
        let server = service.member.server();
        if fate == Fate::Duplicate {
            server.handle(&request);
        }
        let answer = server.handle(&request);
        if let Answer::Ask(question) = &answer {
            log(world, link, &request, &format!("asks {}", question.name));
            answer_later(world, back, draw, sender, Outcome::Answer(answer));
            return;
        }
        let code = answer.code();
        let took_effect = request.is_write() && code < 300 && !request.query.dry_run;
        log(world, link, &request, &format!("{code} @{}", server.version()));

        let last_write = took_effect && service.life.as_ref().is_some_and(Life::count_write);
        if last_write || fate == Fate::SilenceAfter || link.is_cut().to_client {
            let _ = sender.send(Outcome::Silent);
            return;
        }
        let outcome = match fate {
            Fate::LoseAnswer => Outcome::Broken,
            Fate::RefuseAfter(code) => Outcome::Answer(refusal(code, &request)),
            _ => Outcome::Answer(answer),
        };
        answer_later(world, back, draw, sender, outcome);
    }
}

fn answer_later(
    world: &Arc<Shared>,
    back: Duration,
    draw: Seed,
    sender: oneshot::Sender<Outcome>,
    outcome: Outcome,
) {
    let due = world.clock.elapsed() + back;
    world.agenda.add(due, draw.bits(), None, move |_| {
        // A client that no longer waits has been dropped or has given up.
        let _ = sender.send(outcome);
    });
}

fn log(world: &Shared, link: &Link, request: &ApiRequest, what: &str) {
    let path = &request.path;
    let verb = if request.query.watch { "WATCH" } else { request.method.as_str() };
    let mut target = path.plural.clone();
    for part in [&path.namespace, &path.name, &path.subresource] {
        if !part.is_empty() {
            target.push('/');
            target.push_str(part);
        }
    }
    world.write_log(format_args!("{} {} {verb} {target} {what}", link.cluster, link.client));
}

/// What a request is, as far as two runs of one seed have it in common. Bodies may hold real times and are left out,
/// but for the name of what is created.
fn identity(parts: &Parts, body: &Bytes) -> String {
    let mut identity = format!("{} {}", parts.method, parts.uri);
    if parts.method == http::Method::POST {
        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct Named {
            metadata: Metadata,
        }
        #[derive(serde::Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            name: String,
            generate_name: String,
        }
        let named: Named = serde_json::from_slice(body).unwrap_or_default();
        identity.push_str(&format!(" {} {}", named.metadata.name, named.metadata.generate_name));
    }
    identity
}

fn refusal(code: u16, request: &ApiRequest) -> Answer {
    let failure = match code {
        409 => {
            let path = &request.path;
            let kind = if path.group.is_empty() {
                path.plural.clone()
            } else {
                format!("{}.{}", path.plural, path.group)
            };
            let message = format!(
                "Operation cannot be fulfilled on {kind} {:?}: the object has been modified; please apply your \
                 changes to the latest version and try again",
                path.name
            );
            let details = json!({"name": path.name, "group": path.group, "kind": path.plural});
            Failure { details, ..Failure::plain(409, "Conflict", message) }
        }
        429 => {
            let message = "Too many requests, please try again later.";
            let details = json!({"retryAfterSeconds": 1});
            Failure { details, ..Failure::plain(429, "TooManyRequests", message) }
        }
        403 => {
            let message =
                format!("{} {:?} is forbidden: no rule allows this", request.path.plural, request.path.name);
            Failure::plain(403, "Forbidden", message)
        }
        503 => Failure::plain(503, "ServiceUnavailable", "apiserver not ready"),
        504 => Failure::plain(
            504,
            "Timeout",
            "request did not complete within requested timeout - context deadline exceeded",
        ),
        _ => Failure::internal("etcdserver: request timed out"),
    };
    Answer::json(code, &failure.body())
}

fn plain(answer: &Answer) -> Response<SimBody> {
    let (code, body) = match answer {
        Answer::Body { code, body } => (*code, body.clone()),
        Answer::Object { .. } | Answer::Watch(_) | Answer::Ask(_) => (500, Bytes::new()),
    };
    let mut response =
        Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    if code == 429 {
        response = response.header(http::header::RETRY_AFTER, "1");
    }
    response.body(SimBody::full(body)).expect("constant headers are valid")
}

fn reset() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer").into()
}

async fn never() -> Result<Response<SimBody>, BoxError> {
    let forever: Result<Response<SimBody>, Infallible> = std::future::pending().await;
    forever.map_err(|it| match it {})
}
