//! Reading: one object, lists with selectors and pages, and the start of a watch.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::server::{
    Answer, ExpiredWatch,
    form::{Form, metadata_only},
    object::{Key, Stored, remove},
    selector::Filter,
    status::Failure,
    table,
    watch::{Start, WatchPlan},
};

const TOO_OLD_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can \
start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder \
of the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
modified, or deleted between the time the first chunk was returned and now may show up in the list.";

pub(super) fn get(call: &mut Call<'_>) -> Result<Answer, Failure> {
    if let Some(version) = call.request.query.resource_version.as_deref() {
        check_not_ahead(call, version)?;
    }
    let stored = match stale_version(call) {
        Some(version) => {
            let then = call.state.store.table(&call.table()).and_then(|it| it.as_of(version));
            let found = then.and_then(|it| it.get(&call.key()).cloned());
            found.ok_or_else(|| Failure::not_found(&call.resource, &call.request.path.name))?
        }
        None => call.existing()?,
    };
    if Form::of(call.request) != Form::Whole {
        return Ok(call.respond(200, call.state.in_version(&call.resource, &stored)?));
    }
    Ok(Answer::Body { code: 200, body: call.state.text(&call.resource, &stored)? })
}

/// What a `continue` token says.
#[derive(serde::Serialize, serde::Deserialize)]
struct Token {
    /// The version the list is of; 0 for "whatever is newest".
    rv: u64,
    /// The last key that was returned.
    start: String,
}

impl Token {
    fn write(&self) -> String {
        let text = json!({"v": "meta.k8s.io/v1", "rv": self.rv, "start": self.start}).to_string();
        text.bytes().map(|it| format!("{it:02x}")).collect()
    }

    fn read(text: &str) -> Option<Self> {
        let digits: Vec<char> = text.chars().collect();
        let bytes: Option<Vec<u8>> =
            digits.chunks(2).map(|it| u8::from_str_radix(&it.iter().collect::<String>(), 16).ok()).collect();
        serde_json::from_slice(&bytes?).ok()
    }
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let query = &call.request.query;
    let filter = filter(call)?;
    let namespace = call.request.path.namespace.as_str();
    let token = match &query.continue_token {
        Some(text) => Some(
            Token::read(text)
                .ok_or_else(|| Failure::bad_request("continue key is not valid: invalid character"))?,
        ),
        None => None,
    };
    let version = list_version(call, token.as_ref())?;
    let after = token.as_ref().map(|it| Key::from_text(&it.start));
    let limit = query.limit.map_or(usize::MAX, |it| it as usize);

    let table = call.table();
    let mut page: Vec<Arc<Stored>> = Vec::new();
    let mut remaining = 0_usize;
    let mut take = |object: &Arc<Stored>| {
        if filter.accepts(object) {
            if page.len() < limit {
                page.push(object.clone());
            } else {
                remaining += 1;
            }
        }
    };
    match (call.state.store.table(&table), version) {
        (None, _) => {}
        (Some(table), None) => table.range(namespace, after.as_ref()).for_each(&mut take),
        (Some(table), Some(version)) => {
            let objects = table.as_of(version).ok_or_else(|| expired_list(&token))?;
            let objects = objects.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
            let inside = |key: &Key| namespace.is_empty() || key.parts().0 == namespace;
            objects.filter(|(key, _)| inside(key)).for_each(|(_, object)| take(object));
        }
    }
    let version = version.unwrap_or_else(|| call.state.store.version());
    let next = (remaining > 0).then(|| {
        let last = page.last().map(|it| it.key().as_str().to_owned()).unwrap_or_default();
        Token { rv: version, start: last }.write()
    });
    let counted = filter.is_open().then_some(remaining);
    write_list(call, &page, version, next, counted)
}

/// Which version the list is of; `None` for the newest.
fn list_version(call: &Call<'_>, token: Option<&Token>) -> Result<Option<u64>, Failure> {
    let query = &call.request.query;
    if let Some(token) = token {
        if query.resource_version.as_deref().is_some_and(|it| it != "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Failure::bad_request(message));
        }
        return Ok((token.rv > 0).then_some(token.rv));
    }
    let Some(version) = query.resource_version.as_deref() else {
        if query.resource_version_match.is_some() {
            let error = crate::server::status::FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
            return Err(Failure::invalid("ListOptions", "meta.k8s.io", "", vec![error]));
        }
        return Ok(None);
    };
    let number = check_not_ahead(call, version)?;
    if let Some(old) = stale_version(call) {
        return Ok(Some(old));
    }
    let exact = query.resource_version_match.as_deref() == Some("Exact");
    // A page of a list "at least as new as" a version is, on the real server, exactly of that version.
    let exact_page = query.resource_version_match.is_none() && query.limit.is_some() && number > 0;
    Ok((exact || exact_page).then_some(number))
}

/// The version of the table that a read from the past sees; a past that is forgotten is the present.
fn stale_version(call: &Call<'_>) -> Option<u64> {
    let then = call.at.checked_sub(call.request.query.staleness?)?;
    let history = call.state.store.table(&call.table())?.history();
    let newest_then = history.since(history.oldest())?.take_while(|it| it.at <= then).last();
    Some(newest_then.map_or(history.oldest(), |it| it.version))
}

fn expired_list(token: &Option<Token>) -> Failure {
    match token {
        Some(token) => {
            let mut failure = Failure::expired(TOO_OLD_TOKEN);
            failure.continue_token = Some(Token { rv: 0, start: token.start.clone() }.write());
            failure
        }
        None => Failure::expired("The resourceVersion for the provided list is too old."),
    }
}

/// Nobody can read a version that was not written yet.
fn check_not_ahead(call: &Call<'_>, version: &str) -> Result<u64, Failure> {
    let number: u64 = version.parse().map_err(|_| {
        let error = crate::server::status::FieldError::invalid(
            "resourceVersion",
            &json!(version),
            &format!("strconv.ParseUint: parsing {version:?}: invalid syntax"),
        );
        Failure::bad_request(format!("{}: {}", error.field, error.message))
    })?;
    let newest = call.state.store.version();
    if number <= newest {
        return Ok(number);
    }
    let message = format!("Too large resource version: {number}, current: {newest}");
    let details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    });
    Err(Failure { details, ..Failure::plain(504, "Timeout", message) })
}

fn filter(call: &Call<'_>) -> Result<Filter, Failure> {
    let query = &call.request.query;
    let mut filter = Filter::parse(query.label_selector.as_deref(), query.field_selector.as_deref())?;
    if let Some(field) = filter.unsupported_field(&call.resource.selectable) {
        let message = format!("field label not supported: {field}");
        return Err(Failure::bad_request(message));
    }
    filter = filter.on_kept(&call.resource);
    let name = &call.request.path.name;
    if !name.is_empty() {
        filter.fields.push(crate::server::selector::FieldRequirement {
            path: "metadata.name".to_owned(),
            value: name.clone(),
            equal: true,
        });
    }
    Ok(filter)
}

fn write_list(
    call: &Call<'_>,
    page: &[Arc<Stored>],
    version: u64,
    next: Option<String>,
    remaining: Option<usize>,
) -> Result<Answer, Failure> {
    let form = Form::of(call.request);
    let metadata = form == Form::Metadata;
    let (kind, api_version) = if metadata {
        ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
    } else {
        (format!("{}List", call.resource.kind), call.resource.api_version())
    };
    let mut meta = json!({"resourceVersion": version.to_string()});
    if call.resource.traits.custom && form == Form::Whole {
        meta["continue"] = json!("");
    }
    if let Some(next) = next {
        meta["continue"] = json!(next);
        if let Some(remaining) = remaining.filter(|it| *it > 0) {
            meta["remainingItemCount"] = json!(remaining);
        }
    }
    if let Form::Table(include) = form {
        let columns = &call.resource.columns;
        let mut table = table::empty(columns, meta);
        let rows: Result<Vec<Value>, Failure> = page
            .iter()
            .map(|it| {
                Ok(table::row(columns, &call.state.in_version(&call.resource, it)?, include, call.time()))
            })
            .collect();
        table["rows"] = rows?.into();
        return Ok(Answer::json(200, &table));
    }
    // The items are pasted in as text: a list of thousands costs no parsing.
    let mut body = format!("{{\"kind\":{},\"apiVersion\":{},", json!(kind), json!(api_version)).into_bytes();
    body.extend_from_slice(format!("\"metadata\":{meta},\"items\":[").as_bytes());
    for (index, stored) in page.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        if metadata {
            body.extend_from_slice(metadata_only(&stored.value()).to_string().as_bytes());
        } else if call.resource.traits.custom {
            body.extend_from_slice(&call.state.text(&call.resource, stored)?);
        } else if call.resource.is_other_face() {
            let mut object = call.state.in_version(&call.resource, stored)?;
            remove(&mut object, &["apiVersion"]);
            remove(&mut object, &["kind"]);
            body.extend_from_slice(object.to_string().as_bytes());
        } else {
            // Items of built-in lists do not repeat their kind.
            body.extend_from_slice(&stored.body);
        }
    }
    body.extend_from_slice(b"]}");
    Ok(Answer::Body { code: 200, body: Bytes::from(body) })
}

pub(super) fn watch(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let filter = filter(call)?;
    let query = &call.request.query;
    let table = call.table();
    let newest = call.state.store.version();
    if query.send_initial_events.is_some() && query.resource_version_match.as_deref() != Some("NotOlderThan")
    {
        let error = crate::server::status::FieldError::forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
        return Err(Failure::invalid("ListOptions", "meta.k8s.io", "", vec![error]));
    }
    let from = match query.resource_version.as_deref() {
        None | Some("0") => None,
        Some(text) => Some(text.parse::<u64>().map_err(|_| {
            Failure::bad_request(format!("Invalid value: {text:?}: strconv.ParseUint: invalid syntax"))
        })?),
    };
    let start = match (query.send_initial_events, from) {
        (Some(true), _) => Start::Everything { bookmark: query.bookmarks },
        (Some(false), None) => Start::After(newest),
        (_, Some(version)) => Start::After(version),
        (None, None) => Start::Everything { bookmark: false },
    };
    let oldest = call.state.store.table_mut(&table).history().oldest();
    if let Start::After(version) = start
        && version < oldest
        && call.state.settings.expired_watch == ExpiredWatch::Code
    {
        return Err(Failure::expired(format!("too old resource version: {version} ({oldest})")));
    }
    let seconds = match query.timeout_seconds {
        // Less than nothing is over at once.
        Some(asked) => asked.max(0).unsigned_abs(),
        None => 1_800 + call.seed.of("watch-timeout").below(1_800),
    };
    let subscription = call.state.store.table_mut(&table).subscribe();
    Ok(Answer::Watch(WatchPlan {
        table,
        resource: call.resource.clone(),
        namespace: call.request.path.namespace.clone(),
        filter,
        start,
        bookmarks: query.bookmarks,
        form: Form::of(call.request),
        timeout: std::time::Duration::from_secs(seconds),
        subscription,
    }))
}
