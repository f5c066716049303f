//! What `kubectl get` prints, one table per kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    /// Shown only by `kubectl get -o wide`.
    wide: bool,
}

/// How long ago the object was made.
pub(crate) const AGE: Column = date("AGE", ".metadata.creationTimestamp");

/// A column of whole numbers.
pub(crate) const fn integer(name: &'static str, path: &'static str) -> Column {
    Column { name, type_: "integer", path, wide: false }
}

/// A column of text.
pub(crate) const fn text(name: &'static str, path: &'static str) -> Column {
    Column { name, type_: "string", path, wide: false }
}

/// A column of text that is shown only on request.
pub(crate) const fn wide(name: &'static str, path: &'static str) -> Column {
    Column { name, type_: "string", path, wide: true }
}

/// A column that shows the time since a moment.
pub(crate) const fn date(name: &'static str, path: &'static str) -> Column {
    Column { name, type_: "date", path, wide: false }
}

impl From<&Column> for CustomResourceColumnDefinition {
    fn from(column: &Column) -> Self {
        Self {
            name: column.name.to_owned(),
            type_: column.type_.to_owned(),
            json_path: column.path.to_owned(),
            priority: column.wide.then_some(1),
            ..Self::default()
        }
    }
}
