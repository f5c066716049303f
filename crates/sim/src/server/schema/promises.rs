//! Rules of a schema that are written in CEL (`x-kubernetes-validations`).
//!
//! Which value a rule is about, and which older one belongs to it, is worked out here as the API server does it; kube-cel
//! evaluates the rule. What kube-cel cannot evaluate is not checked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled};
use serde_json::{Map, Value, json};

use crate::server::status::FieldError;

const RULES: &str = "x-kubernetes-validations";

/// Faults that keep a server from looking at rules.
const BLOCKING: [&str; 5] = [
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// The rules of one schema, compiled when an object is written for the first time.
#[derive(Debug, Clone, Default)]
pub struct Promises(OnceLock<Option<Arc<Place>>>);

impl Promises {
    /// Adds to `errors` what an object of this schema breaks; `old` is what was there before.
    pub fn check(&self, schema: &Value, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let Some(place) = self.0.get_or_init(|| shared(schema)) else { return };
        if errors.iter().any(|it| BLOCKING.contains(&it.reason)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the \
                          existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", &Value::Null, detail));
            return;
        }
        let (object, old) = (visible(object), old.map(visible));
        let around = Pair { new: &object, old: old.as_ref() };
        place.check(around, around, "", errors);
    }
}

/// The rules of a schema that are not checked here, each with the reason.
pub fn unchecked(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(place) = Place::read(schema) {
        place.list_unchecked(&mut found);
    }
    list_unplaced(schema, &mut found);
    found
}

/// One place in a schema with rules at it or below.
#[derive(Debug)]
struct Place {
    /// The type that a refusal shows in place of the value.
    kind: String,
    rules: Option<CompiledSchema>,
    members: BTreeMap<String, Place>,
    /// The place of members that have no name in the schema.
    others: Option<Box<Place>>,
    items: Option<Box<Place>>,
    /// What identifies an item of a list. Items of other lists have no older self.
    keys: Option<Vec<String>>,
}

/// A value and what it was before.
#[derive(Clone, Copy)]
struct Pair<'a> {
    new: &'a Value,
    old: Option<&'a Value>,
}

impl Place {
    fn read(schema: &Value) -> Option<Self> {
        let schema = &with_branches(schema);
        let has_rules = schema[RULES].as_array().is_some_and(|it| !it.is_empty());
        let below = |name: &str| schema.get(name).and_then(Self::read).map(Box::new);
        let properties = schema["properties"].as_object().into_iter().flatten();
        let members = properties.filter_map(|(name, it)| Some((name.clone(), Self::read(it)?)));
        let place = Self {
            kind: schema["type"].as_str().unwrap_or_default().to_owned(),
            rules: has_rules.then(|| compile_schema(&alone(schema))),
            members: members.collect(),
            others: below("additionalProperties"),
            items: below("items"),
            keys: (schema["x-kubernetes-list-type"] == "map").then(|| {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                keys.filter_map(Value::as_str).map(str::to_owned).collect()
            }),
        };
        let empty = !has_rules && place.members.is_empty() && place.others.is_none() && place.items.is_none();
        (!empty).then_some(place)
    }

    fn list_unchecked(&self, found: &mut Vec<String>) {
        let rules = self.rules.iter().flat_map(|it| &it.validations);
        found.extend(rules.filter_map(|it| it.as_ref().err()).map(|it| format!("{it:?}")));
        let below = self.others.iter().chain(&self.items).map(|it| &**it);
        below.chain(self.members.values()).for_each(|it| it.list_unchecked(found));
    }

    /// `around` is the nearest pair of which both halves are known.
    fn check<'a>(&self, here: Pair<'a>, around: Pair<'a>, path: &str, errors: &mut Vec<FieldError>) {
        let around = if here.old.is_some() { here } else { around };
        if let Some(rules) = self.rules.as_ref().filter(|_| !here.new.is_null()) {
            self.judge(rules, here, around, path, errors);
        }
        match here.new {
            Value::Object(members) => {
                for (name, new) in members {
                    let pair = Pair { new, old: here.old.and_then(|it| it.get(name)) };
                    if let Some(place) = self.members.get(name) {
                        let dot = if path.is_empty() { "" } else { "." };
                        place.check(pair, around, &format!("{path}{dot}{name}"), errors);
                    } else if let Some(place) = &self.others {
                        place.check(pair, around, &format!("{path}[{name}]"), errors);
                    }
                }
            }
            Value::Array(items) => {
                let Some(place) = &self.items else { return };
                for (index, new) in items.iter().enumerate() {
                    let pair = Pair { new, old: self.former(new, here.old) };
                    place.check(pair, around, &format!("{path}[{index}]"), errors);
                }
            }
            _ => {}
        }
    }

    /// The item of a list that `item` was before.
    fn former<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let keys = self.keys.as_ref()?;
        let same = |it: &&Value| keys.iter().all(|key| it[key] == item[key]);
        old?.as_array()?.iter().find(same)
    }

    fn judge(
        &self,
        rules: &CompiledSchema,
        here: Pair<'_>,
        around: Pair<'_>,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let Err(broken) = validate_compiled(rules, here.new, here.old) else { return };
        for error in broken {
            // What was wrong before and has not been touched is left alone, unless the rule is about the change.
            let untouched = around.old == Some(around.new);
            if !untouched || is_about_change(rules, &error.rule) {
                errors.extend(self.refusal(path, &error));
            }
        }
    }

    fn refusal(&self, path: &str, error: &ValidationError) -> Option<FieldError> {
        let detail = match error.kind {
            ErrorKind::ValidationFailure => error.message.trim().to_owned(),
            ErrorKind::EvaluationError | ErrorKind::InvalidResult => {
                let cause = error.message.trim_start_matches("rule evaluation error: ");
                format!("{cause} evaluating rule: {}", error.rule.trim())
            }
            _ => {
                tracing::warn!(rule = error.rule, cause = error.message, "a CEL rule cannot be checked");
                return None;
            }
        };
        let field = format!("{path}{}", error.field_path);
        let field = match field.trim_start_matches('.') {
            "" => "<nil>",
            field => field,
        };
        Some(match error.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(field, &detail),
            Some("FieldValueRequired") => FieldError::required(field, &detail),
            Some("FieldValueDuplicate") => {
                let message = format!("Duplicate value: {:?}", self.kind);
                FieldError { reason: "FieldValueDuplicate", message, field: field.to_owned() }
            }
            _ => FieldError::invalid(field, &json!(self.kind), &detail),
        })
    }
}

/// Many clusters have the same kinds: each schema is compiled once in a process.
fn shared(schema: &Value) -> Option<Arc<Place>> {
    static KNOWN: Mutex<Option<HashMap<String, Option<Arc<Place>>>>> = Mutex::new(None);
    let text = schema.to_string();
    if !text.contains(RULES) {
        return None;
    }
    let mut unplaced = Vec::new();
    list_unplaced(schema, &mut unplaced);
    if !unplaced.is_empty() {
        tracing::warn!(?unplaced, "CEL rules are not checked");
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.entry(text).or_insert_with(|| Place::read(schema).map(Arc::new)).clone()
}

/// A schema with the rules of its `allOf` in their places: each of its branches is about the same value.
fn with_branches(schema: &Value) -> Value {
    let mut whole = schema.clone();
    for branch in schema["allOf"].as_array().into_iter().flatten() {
        take_in(&mut whole, branch);
    }
    whole
}

fn take_in(schema: &mut Value, branch: &Value) {
    let branch = with_branches(branch);
    if !schema.is_object() {
        *schema = json!({});
    }
    if let Some(rules) = branch[RULES].as_array().filter(|it| !it.is_empty()) {
        let own = schema[RULES].as_array().into_iter().flatten();
        let all: Vec<Value> = own.chain(rules).cloned().collect();
        schema[RULES] = all.into();
    }
    for (name, below) in branch["properties"].as_object().into_iter().flatten() {
        if below.to_string().contains(RULES) {
            take_in(&mut schema["properties"][name], below);
        }
    }
    for name in ["items", "additionalProperties"] {
        if branch[name].to_string().contains(RULES) {
            take_in(&mut schema[name], &branch[name]);
        }
    }
}

/// Rules where no server looks for them.
fn list_unplaced(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (name, below) in members {
                let is_choice = matches!(name.as_str(), "anyOf" | "oneOf" | "not");
                // A property may have such a name too; its schema is no list and says what it is.
                if is_choice && below["type"].is_null() && below.to_string().contains(RULES) {
                    found.push(format!("rules below {name}: {below}"));
                } else {
                    list_unplaced(below, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|it| list_unplaced(it, found)),
        _ => {}
    }
}

/// A schema with its own rules and none of those below, which have places of their own.
fn alone(schema: &Value) -> Value {
    let mut bare = schema.clone();
    take_rules(&mut bare);
    bare[RULES] = schema[RULES].clone();
    bare
}

fn take_rules(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove(RULES);
            members.values_mut().for_each(take_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(take_rules),
        _ => {}
    }
}

fn is_about_change(rules: &CompiledSchema, rule: &str) -> bool {
    let mut known = rules.validations.iter().flatten();
    known.any(|it| it.rule.rule == rule && it.is_transition_rule)
}

/// What rules see of an object: of its metadata only the names.
fn visible(object: &Value) -> Value {
    let mut object = object.clone();
    let names = ["name", "generateName"].into_iter().filter_map(|it| {
        let value = object["metadata"].get(it)?;
        Some((it.to_owned(), value.clone()))
    });
    let names: Map<String, Value> = names.collect();
    object["metadata"] = names.into();
    object
}
