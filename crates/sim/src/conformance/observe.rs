//! Running a sequence and writing down what comes back.

use std::collections::BTreeMap;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::Step;

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
    let mut run =
        Run { client, namespace, uids: BTreeMap::new(), seen: BTreeMap::new(), observations: Vec::new() };
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    run.send(&Method::POST, "/api/v1/namespaces", "application/json", &body).await?;
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

struct Run<'a> {
    client: &'a Client,
    namespace: &'a str,
    uids: BTreeMap<String, String>,
    /// uid and version last seen of each path.
    seen: BTreeMap<String, (String, String)>,
    observations: Vec<Observation>,
}

impl Run<'_> {
    async fn step(&mut self, index: usize, step: &Step) -> Result<(), kube::Error> {
        let path = step.path.replace("{ns}", self.namespace);
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
            self.observations.push(Observation {
                step: format!("watch {kind}"),
                code,
                answer: json!(events),
            });
        }
        Ok(())
    }

    async fn send(
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
        let text = body.to_string().replace("$rv", &version).replace("$uid", &uid);
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn normal(&mut self, value: Value) -> Value {
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
                        "message" => json!(self.plain(value.as_str().unwrap_or_default())),
                        _ => self.normal(value),
                    };
                    result.insert(name, value);
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

    /// A message without what differs between any two runs.
    fn plain(&self, text: &str) -> String {
        let mut text = text.replace(self.namespace, "<namespace>");
        for (uid, ordinal) in &self.uids {
            text = text.replace(uid, ordinal);
        }
        // Versions in preconditions.
        let words = text.split(' ').map(|it| {
            let digits = it.trim_matches(|it: char| "().,:".contains(it));
            // The first versions of a simulated server have one digit, and so have numbers that must not differ.
            let is_long = digits.len() > 1 || (it.starts_with('(') && !digits.is_empty());
            if is_long && digits.bytes().all(|it| it.is_ascii_digit()) {
                it.replace(digits, "<version>")
            } else {
                it.to_owned()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}
