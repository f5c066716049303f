//! Asks webhooks, as an API server does: over TLS, trusting the authorities in their configurations alone.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Request, Uri, header};
use kube::{Client, Config};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use tower::BoxError;

use crate::{
    server::webhooks::{Hearing, Question, Said},
    world::lock,
};

/// How many answers one request may need. An object that others keep changing needs new ones each time.
const MOST: usize = 100;

/// Where webhooks are asked, and whom they are trusted by.
type Clients = HashMap<(String, Vec<u8>), Client>;

/// Asks questions; its clones share their connections.
#[derive(Clone, Default)]
pub(crate) struct Asker {
    clients: Arc<Mutex<Clients>>,
    asked: Arc<AtomicU64>,
}

impl Asker {
    /// Asks, and adds what was said to the hearing.
    pub(crate) async fn ask(&self, question: Question, hearing: &mut Hearing) -> Result<(), BoxError> {
        if hearing.len() >= MOST {
            return Err(format!("webhook {:?} was asked too often about one request", question.name).into());
        }
        let said = match tokio::time::timeout(question.timeout, self.response(&question)).await {
            Ok(Ok(response)) => Said::Response(response),
            Ok(Err(cause)) => Said::Nothing(cause),
            Err(_) => Said::Nothing("context deadline exceeded".to_owned()),
        };
        hearing.hear(question, said);
        Ok(())
    }

    async fn response(&self, question: &Question) -> Result<Value, String> {
        let url = question
            .url
            .as_deref()
            .ok_or("simulated clusters reach webhooks by URL, not through Services")?;
        let url: Uri = url.parse().map_err(|_| format!("{url:?} is no URL"))?;
        let client = self.client(&url, question)?;
        let mut request = question.request.clone();
        request["uid"] = json!(format!("question-{}", self.asked.fetch_add(1, Ordering::Relaxed)));
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let path = url.path_and_query().map_or("/", |it| it.as_str());
        let asked = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let asked = asked.body(review.to_string().into_bytes()).map_err(|it| it.to_string())?;
        let text = client.request_text(asked).await.map_err(|it| causes(&it))?;
        let review: Value = serde_json::from_str(&text).map_err(|it| it.to_string())?;
        if review["response"]["uid"] != request["uid"] {
            return Err("it answered another question".to_owned());
        }
        Ok(review["response"].clone())
    }

    fn client(&self, url: &Uri, question: &Question) -> Result<Client, String> {
        let base = format!(
            "{}://{}",
            url.scheme_str().unwrap_or("https"),
            url.authority().ok_or("the URL names no host")?
        );
        let key = (base, question.authorities.clone());
        if let Some(client) = lock(&self.clients).get(&key) {
            return Ok(client.clone());
        }
        let mut config = Config::new(key.0.parse().map_err(|_| "the URL names no host")?);
        let roots = CertificateDer::pem_slice_iter(&question.authorities).filter_map(Result::ok);
        config.root_cert = Some(roots.map(|it| it.to_vec()).collect());
        config.connect_timeout = Some(Duration::from_secs(10));
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|it| it.to_string())?;
        lock(&self.clients).insert(key, client.clone());
        Ok(client)
    }
}

/// An error with everything behind it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

impl fmt::Debug for Asker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asker").field("asked", &self.asked).finish_non_exhaustive()
    }
}
