//! HTTP requests, read as Kubernetes reads them.

use std::num::{IntErrorKind, ParseIntError};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;

use crate::server::{status::Failure, webhooks::Hearing};

/// One request, with its body.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// The HTTP method.
    pub method: Method,
    /// What the path names.
    pub path: ApiPath,
    /// The query.
    pub query: Query,
    /// The media type of the body, without parameters.
    pub content_type: String,
    /// What the client wants back.
    pub accept: String,
    /// The client's name for managed fields, cut from its user agent.
    pub agent: String,
    /// The body.
    pub body: Bytes,
    /// What webhooks outside said about it; nothing where nobody is to be asked.
    pub hearing: Option<Hearing>,
}

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiPath {
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, empty when the path has none.
    pub namespace: String,
    /// The plural name of the kind.
    pub plural: String,
    /// The object's name, empty for collections.
    pub name: String,
    /// The subresource, empty for the object itself.
    pub subresource: String,
}

/// The query parameters that the API knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// `labelSelector`
    pub label_selector: Option<String>,
    /// `fieldSelector`
    pub field_selector: Option<String>,
    /// `resourceVersion`
    pub resource_version: Option<String>,
    /// `resourceVersionMatch`
    pub resource_version_match: Option<String>,
    /// `limit`
    pub limit: Option<u64>,
    /// `continue`
    pub continue_token: Option<String>,
    /// `watch`
    pub watch: bool,
    /// `allowWatchBookmarks`
    pub bookmarks: bool,
    /// `sendInitialEvents`
    pub send_initial_events: Option<bool>,
    /// `timeoutSeconds`; zero is none
    pub timeout_seconds: Option<i64>,
    /// `dryRun=All`
    pub dry_run: bool,
    /// `fieldManager`
    pub field_manager: Option<String>,
    /// `force`
    pub force: bool,
    /// `gracePeriodSeconds`
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`
    pub propagation_policy: Option<String>,
    /// `includeObject`, for tables
    pub include_object: Option<String>,
    /// `fieldValidation=Strict`
    pub strict: bool,
    /// No parameter of the API: how old a read that may be old is to be.
    pub staleness: Option<std::time::Duration>,
}

impl ApiRequest {
    /// Reads a request; `None` when the path is not below `/api` or `/apis`.
    pub fn read(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = ApiPath::parse(uri.path()) else { return Ok(None) };
        let text = |name: header::HeaderName| -> String {
            headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned()
        };
        let content_type = text(header::CONTENT_TYPE);
        let agent = text(header::USER_AGENT);
        Ok(Some(Self {
            method: method.clone(),
            path,
            query: Query::parse(uri.query().unwrap_or_default())?,
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_owned(),
            accept: text(header::ACCEPT),
            agent: agent.split('/').next().unwrap_or_default().to_owned(),
            body,
            hearing: None,
        }))
    }

    /// Whether the request can change something.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && self.method != Method::HEAD
    }

    /// The name under which written fields are tracked.
    pub fn manager(&self) -> &str {
        match &self.query.field_manager {
            Some(name) if !name.is_empty() => name,
            _ if self.agent.is_empty() => "unknown",
            _ => &self.agent,
        }
    }
}

impl ApiPath {
    /// Reads a path below `/api/VERSION` or `/apis/GROUP/VERSION`.
    pub fn parse(path: &str) -> Option<Self> {
        let decode = |it: &str| percent_decode_str(it).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.split('/').filter(|it| !it.is_empty()).map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // `namespaces/x/status` and `namespaces/x/finalize` are about the namespace itself.
            ["namespaces", name, sub @ ("status" | "finalize")] => ("", ["namespaces", *name, *sub].to_vec()),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest.to_vec()),
            rest => ("", rest.to_vec()),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        if rest.is_empty() || rest.len() > 3 {
            return None;
        }
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: part(0),
            name: part(1),
            subresource: part(2),
        })
    }
}

impl Query {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut query = Self::default();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            let value = value.into_owned();
            let truth = || matches!(value.as_str(), "true" | "1");
            let filled = || Some(value.clone()).filter(|it| !it.is_empty());
            let number = || -> Result<Option<i64>, Failure> {
                if value.is_empty() {
                    return Ok(None);
                }
                let refused = |error: ParseIntError| {
                    let cause = match error.kind() {
                        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                        _ => "invalid syntax",
                    };
                    Failure::bad_request(format!("strconv.ParseInt: parsing {value:?}: {cause}"))
                };
                value.parse().map(Some).map_err(refused)
            };
            match key.as_ref() {
                "labelSelector" => query.label_selector = filled(),
                "fieldSelector" => query.field_selector = filled(),
                "resourceVersion" => query.resource_version = filled(),
                "resourceVersionMatch" => query.resource_version_match = filled(),
                "limit" => query.limit = number()?.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0),
                "continue" => query.continue_token = filled(),
                "watch" => query.watch = truth(),
                "allowWatchBookmarks" => query.bookmarks = truth(),
                "sendInitialEvents" => query.send_initial_events = Some(truth()),
                "timeoutSeconds" => query.timeout_seconds = number()?.filter(|it| *it != 0),
                "dryRun" => query.dry_run = value == "All",
                "fieldManager" => query.field_manager = filled(),
                "force" => query.force = truth(),
                "gracePeriodSeconds" => query.grace_period_seconds = number()?,
                "propagationPolicy" => query.propagation_policy = filled(),
                "includeObject" => query.include_object = filled(),
                "fieldValidation" => query.strict = value == "Strict",
                _ => {}
            }
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_namespace_object_and_subresource() {
        let parts = |path: &str| {
            let it = ApiPath::parse(path).unwrap();
            [it.group, it.version, it.namespace, it.plural, it.name, it.subresource].join("|")
        };
        assert_eq!(parts("/api/v1/namespaces/a/pods/b/status"), "|v1|a|pods|b|status");
        assert_eq!(parts("/apis/apps/v1/deployments"), "apps|v1||deployments||");
        assert_eq!(parts("/api/v1/namespaces/a"), "|v1||namespaces|a|");
        assert_eq!(parts("/api/v1/namespaces/a/finalize"), "|v1||namespaces|a|finalize");
        assert_eq!(parts("/api/v1/nodes/n%20x"), "|v1||nodes|n x|");
        assert_eq!(ApiPath::parse("/healthz"), None);
        assert_eq!(ApiPath::parse("/apis/apps/v1"), None);
    }
}
