//! Running a sequence and writing down what comes back.

use std::collections::BTreeMap;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{Step, owners::nobody};

/// One answer, normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// What was asked.
    pub step: String,
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub answer: Value,
}

/// Runs a sequence in a namespace, then looks at everything that is left and at what watches saw.
pub async fn observe(
    client: &Client,
    namespace: &str,
    steps: &[Step],
) -> Result<Vec<Observation>, kube::Error> {
    let mut run = Run::start(client, namespace).await?;
    let (_, start) = run
        .send(
            &Method::GET,
            &format!("/api/v1/namespaces/{namespace}/configmaps"),
            "application/json",
            &Value::Null,
        )
        .await?;
    let start = start["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();

    for (index, step) in steps.iter().enumerate() {
        run.step(index, step).await?;
    }
    let mut watches = Vec::new();
    for root in ["/api/v1", "/apis/conformance.example.com/v1", "/apis/coordination.k8s.io/v1"] {
        let kinds: &[&str] = match root {
            "/api/v1" => &["configmaps", "secrets", "pods"],
            "/apis/conformance.example.com/v1" => &["widgets"],
            _ => &["leases"],
        };
        for kind in kinds {
            let path = format!(
                "{root}/namespaces/{namespace}/{kind}?watch=true&resourceVersion={start}&timeoutSeconds=1"
            );
            watches.push((*kind, path));
        }
    }
    run.watch(&watches).await?;
    Ok(run.observations)
}

pub(super) struct Run<'a> {
    client: &'a Client,
    namespace: &'a str,
    uids: BTreeMap<String, String>,
    /// uid and version last seen of each path.
    seen: BTreeMap<String, (String, String)>,
    pub(super) observations: Vec<Observation>,
}

impl<'a> Run<'a> {
    /// Makes the namespace.
    pub(super) async fn start(client: &'a Client, namespace: &'a str) -> Result<Self, kube::Error> {
        let run = Self {
            client,
            namespace,
            uids: BTreeMap::new(),
            seen: BTreeMap::new(),
            observations: Vec::new(),
        };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        run.send(&Method::POST, "/api/v1/namespaces", "application/json", &body).await?;
        Ok(run)
    }

    pub(super) async fn step(&mut self, index: usize, step: &Step) -> Result<(), kube::Error> {
        let path = self.placed(&step.path);
        let bare = path.split('?').next().unwrap_or_default();
        let object = bare.trim_end_matches("/status").trim_end_matches("/scale").to_owned();
        let body = self.filled(&object, &step.body);
        let (code, answer) = self.send(&step.method, &path, step.media, &body).await?;
        self.remember(&object, &step.method, &answer);
        let shown = format!("{index}: {} {} {} {}", step.method, step.path, step.media, step.body);
        let answer = self.normal(answer);
        self.observations.push(Observation { step: shown, code, answer });
        Ok(())
    }

    /// A path with the namespace in its place.
    pub(super) fn placed(&self, path: &str) -> String {
        path.replace("{ns}", self.namespace)
    }

    /// All watches at once: each lasts until its time is over.
    async fn watch(&mut self, watches: &[(&str, String)]) -> Result<(), kube::Error> {
        let open = |path: &str| {
            let (client, request) = (self.client, Request::get(path).body(Body::empty()));
            async move {
                let response = client.send(request.map_err(kube::Error::HttpError)?).await?;
                let code = response.status().as_u16();
                let bytes = response.into_body().collect().await.map(|it| it.to_bytes()).unwrap_or_default();
                Ok::<_, kube::Error>((code, String::from_utf8_lossy(&bytes).into_owned()))
            }
        };
        let answers = futures::future::join_all(watches.iter().map(|(_, path)| open(path))).await;
        for ((kind, _), answer) in watches.iter().zip(answers) {
            let (code, text) = answer?;
            let events: Vec<Value> = text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
            let events: Vec<Value> = events.into_iter().map(|it| self.normal(it)).collect();
            // A watch that could not begin is no list of events.
            let answer = match events.as_slice() {
                [only] if only["object"]["code"] == 410 => only.clone(),
                _ => json!(events),
            };
            self.observations.push(Observation { step: format!("watch {kind}"), code, answer });
        }
        Ok(())
    }

    pub(super) async fn send(
        &self,
        method: &Method,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<(u16, Value), kube::Error> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(http::header::CONTENT_TYPE, media)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, "conformance/1")
            .body(Body::from(bytes))
            .map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map(|it| it.to_bytes()).unwrap_or_default();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    fn remember(&mut self, path: &str, method: &Method, answer: &Value) {
        let metadata = &answer["metadata"];
        if let (Some(name), Some(uid), Some(version)) =
            (metadata["name"].as_str(), metadata["uid"].as_str(), metadata["resourceVersion"].as_str())
        {
            let key = if *method == Method::POST { format!("{path}/{name}") } else { path.to_owned() };
            self.seen.insert(key, (uid.to_owned(), version.to_owned()));
        }
    }

    fn filled(&self, path: &str, body: &Value) -> Value {
        if body.is_null() {
            return Value::Null;
        }
        let (uid, version) = self.seen.get(path).cloned().unwrap_or_default();
        let text = self.with_owners(body.to_string()).replace("$rv", &version).replace("$uid", &uid);
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Puts the uids of other objects where they are asked for.
    fn with_owners(&self, mut text: String) -> String {
        const MARK: &str = "$uid(";
        while let Some((before, rest)) = text.split_once(MARK) {
            let (named, after) = rest.split_once(')').unwrap_or((rest, ""));
            let seen = self.seen.iter().find(|(path, _)| path.ends_with(&format!("/{named}")));
            let uid = seen.map_or_else(|| nobody(named), |(_, (uid, _))| uid.clone());
            text = format!("{before}{uid}{after}");
        }
        text
    }

    pub(super) fn normal(&mut self, value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut result = serde_json::Map::new();
                for (name, value) in members {
                    let value = match name.as_str() {
                        "resourceVersion" | "creationTimestamp" | "deletionTimestamp" | "time"
                        | "continue"
                            if !value.is_null() =>
                        {
                            json!("<there>")
                        }
                        "uid" if value.is_string() => json!(self.ordinal(value.as_str().unwrap_or_default())),
                        // The fields of faults name owners by their uids too.
                        "field" if value.is_string() => {
                            json!(self.named(value.as_str().unwrap_or_default().to_owned()))
                        }
                        "message" => json!(self.plain(value.as_str().unwrap_or_default())),
                        _ => self.normal(value),
                    };
                    // Managed fields name owners by their uids.
                    result.insert(self.named(name), value);
                }
                Value::Object(result)
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.into_iter().map(|it| self.normal(it)).collect();
                // Entries of managed fields are ordered by the second in which they were made.
                if items.iter().any(|it| it["fieldsType"] == "FieldsV1") {
                    items.sort_by_key(|it| {
                        [&it["operation"], &it["manager"], &it["subresource"]].map(Value::to_string)
                    });
                }
                // The real server checks some fields several times and says so several times.
                if items.iter().any(|it| it["reason"].is_string() && it["field"].is_string()) {
                    items.sort_by_key(Value::to_string);
                    items.dedup();
                }
                Value::Array(items)
            }
            Value::String(text) if text == self.namespace => json!("<namespace>"),
            other => other,
        }
    }

    fn ordinal(&mut self, uid: &str) -> String {
        let next = format!("uid-{}", self.uids.len());
        self.uids.entry(uid.to_owned()).or_insert(next).clone()
    }

    /// A text in which known uids are ordinals.
    fn named(&self, mut text: String) -> String {
        for (uid, ordinal) in self.uids.iter().filter(|it| !it.0.is_empty()) {
            text = text.replace(uid, ordinal);
        }
        text
    }

    /// A message without what differs between any two runs.
    fn plain(&self, text: &str) -> String {
        let text = self.named(text.replace(self.namespace, "<namespace>"));
        let mut before = "";
        // Versions in preconditions.
        let words = text.split(' ').map(|it| {
            let digits = it.trim_matches(|it: char| "().,:".contains(it));
            // The first versions of a simulated server have one digit, and so have numbers that must not differ.
            let is_version = digits.len() > 1 || it.starts_with('(') || before == "meta:";
            before = it;
            if is_version && !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) {
                it.replace(digits, "<version>")
            } else {
                it.to_owned()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}
