//! Objects: how they are kept, and small readers and writers over their JSON.

use std::sync::Arc;

use serde_json::{Map, Value, json};

/// One version of one object, shared by the store, its history and every watch.
#[derive(Debug)]
pub struct Stored {
    /// Its resourceVersion.
    pub version: u64,
    /// Its uid.
    pub uid: Box<str>,
    /// Its namespace, empty for cluster-wide kinds.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids of its owners.
    pub owners: Box<[Box<str>]>,
    /// `apiVersion` and `kind` as JSON members, shared by all objects of a table.
    pub head: Arc<str>,
    /// The rest of the object as JSON text: a third of what a parsed tree takes, and ready to be sent.
    pub body: Box<[u8]>,
}

impl Stored {
    /// Takes an object whose metadata is complete, and gives it back with its version. `head` is that of its neighbours,
    /// and is used again if it fits.
    pub fn keep(version: u64, mut object: Value, head: &Arc<str>) -> (Self, Value) {
        let member = |name: &str| format!("{}:{}", json!(name), object[name]);
        let own_head = format!("{},{}", member("apiVersion"), member("kind"));
        let head = if **head == *own_head { head.clone() } else { own_head.into() };
        let envelope = ["apiVersion", "kind"].map(|it| remove(&mut object, &[it]));
        set(&mut object, &["metadata", "resourceVersion"], json!(version.to_string()));
        let text = |name: &str| -> Box<str> { meta_str(&object, name).into() };
        let labels = string_map(&object, "labels").map(|(key, value)| (key.into(), value.into())).collect();
        let owners = owner_references(&object)
            .filter_map(|it| it.get("uid").and_then(Value::as_str).map(Into::into))
            .collect();
        let stored = Self {
            version,
            uid: text("uid"),
            namespace: text("namespace"),
            name: text("name"),
            labels,
            owners,
            head,
            body: object.to_string().into_bytes().into_boxed_slice(),
        };
        for (name, value) in ["apiVersion", "kind"].into_iter().zip(envelope) {
            object[name] = value.unwrap_or_default();
        }
        (stored, object)
    }

    /// The whole object as JSON text.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.head.len() + self.body.len() + 1);
        text.push(b'{');
        text.extend_from_slice(self.head.as_bytes());
        text.push(b',');
        // Metadata is always there, so that the rest is never empty.
        text.extend_from_slice(&self.body[1..]);
        text
    }

    /// The object as a tree.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.text()).expect("the store holds only JSON it wrote itself")
    }

    /// The object, or the part of it that `T` names.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.text())
    }

    /// Where it is kept.
    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }
}

/// Namespace and name, ordered as etcd orders its keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// The key of an object; `namespace` is empty for cluster-wide kinds.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self(name.into()) } else { Self(format!("{namespace}/{name}").into()) }
    }

    /// The text, as `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A key from its text.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Namespace and name.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }
}

/// `metadata.NAME` as text, or empty.
pub fn meta_str<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"][name].as_str().unwrap_or_default()
}

/// The value at a path of member names.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(object, |value, name| &value[*name])
}

/// Whether something other than null is at a path.
pub fn has(object: &Value, path: &[&str]) -> bool {
    !at(object, path).is_null()
}

/// Puts a value at a path, making objects on the way.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for name in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = place
            .as_object_mut()
            .expect("it was made an object just above")
            .entry(*name)
            .or_insert(Value::Null);
    }
    *place = value;
}

/// The items of a list member; nothing when there is no such list. Indexing would put a null there.
pub fn items_mut<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Puts a value at a path unless there is one.
pub fn set_default(object: &mut Value, path: &[&str], value: Value) {
    if !has(object, path) {
        set(object, path, value);
    }
}

/// Takes out what is at a path.
pub fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut place = object;
    for name in parents {
        place = place.get_mut(*name)?;
    }
    place.as_object_mut()?.remove(*last)
}

/// Copies what is at a path from one object to another; absent there means absent here.
pub fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let value = at(from, path);
    if value.is_null() {
        remove(to, path);
    } else {
        set(to, path, value.clone());
    }
}

/// The entries of `metadata.NAME`, a map of strings.
pub fn string_map<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = object["metadata"][name].as_object();
    entries.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// The entries of `metadata.ownerReferences`.
pub fn owner_references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// The finalizers.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Writes the finalizers; none means no member at all.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        remove(object, &["metadata", "finalizers"]);
    } else {
        set(object, &["metadata", "finalizers"], json!(finalizers));
    }
}

/// Whether the object is on its way out.
pub fn is_deleting(object: &Value) -> bool {
    has(object, &["metadata", "deletionTimestamp"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_etcd_orders_them() {
        let mut keys = [Key::new("a", "x"), Key::new("a-b", "x"), Key::new("a", "b")];
        keys.sort();
        let texts: Vec<&str> = keys.iter().map(Key::as_str).collect();
        assert_eq!(texts, ["a-b/x", "a/b", "a/x"]);
    }

    #[test]
    fn paths_are_made_read_and_removed() {
        let mut object = json!({"metadata": {"name": "a"}});
        set(&mut object, &["status", "phase"], json!("Running"));
        set_default(&mut object, &["status", "phase"], json!("Pending"));
        assert_eq!(at(&object, &["status", "phase"]), "Running");
        remove(&mut object, &["status", "phase"]);
        assert_eq!(object, json!({"metadata": {"name": "a"}, "status": {}}));
    }
}
