//! The table of Go struct shapes: which members a typed round trip writes, and how.

use std::{collections::HashMap, sync::LazyLock};

/// What a member holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Flag,
    Number,
    Quantity,
    IntOrString,
    Time,
    /// JSON without a type.
    Raw,
    /// A struct held by value, by its place in the table.
    Struct(usize),
    Pointer(Box<Kind>),
    List(Box<Kind>),
    Map(Box<Kind>),
}

/// A member of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Written even if it is empty.
    pub(super) is_always: bool,
}

/// The members of a struct in the order of their declaration.
pub(super) type Shape = Vec<Field>;

/// All shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    list: Vec<Shape>,
    /// The struct that a workload's template is.
    pub(super) pod_template: usize,
    /// The struct that a claim template's spec is.
    pub(super) claim_spec: usize,
}

/// The table, read once.
pub(super) static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    Shapes::read(include_str!("shapes.txt")).expect("the table is part of this build, and a test reads it")
});

impl Shapes {
    fn read(text: &'static str) -> Option<Self> {
        let lines: Vec<_> = text
            .lines()
            .filter(|it| !it.starts_with('#'))
            .map(|it| it.split_once(": "))
            .collect::<Option<_>>()?;
        let places: HashMap<_, _> = lines.iter().enumerate().map(|(place, it)| (it.0, place)).collect();
        let list = lines
            .iter()
            .map(|it| it.1.split(", ").map(|it| field(it, &places)).collect())
            .collect::<Option<_>>()?;
        Some(Self {
            list,
            pod_template: *places.get("PodTemplateSpec")?,
            claim_spec: *places.get("PersistentVolumeClaimSpec")?,
        })
    }

    /// The shape at `place`.
    pub(super) fn get(&self, place: usize) -> &Shape {
        &self.list[place]
    }
}

fn field(text: &'static str, places: &HashMap<&str, usize>) -> Option<Field> {
    let (name, word) = text.split_once(' ')?;
    let (word, is_always) = word.strip_suffix('!').map_or((word, false), |it| (it, true));
    Some(Field { name, kind: kind(word, places)?, is_always })
}

fn kind(word: &str, places: &HashMap<&str, usize>) -> Option<Kind> {
    if let Some(inner) = word.strip_prefix('*') {
        return Some(Kind::Pointer(Box::new(kind(inner, places)?)));
    }
    if let Some(inner) = word.strip_prefix("[]") {
        return Some(Kind::List(Box::new(kind(inner, places)?)));
    }
    if let Some(inner) = word.strip_prefix("{}") {
        return Some(Kind::Map(Box::new(kind(inner, places)?)));
    }
    Some(match word {
        "string" => Kind::Text,
        "bool" => Kind::Flag,
        "int" => Kind::Number,
        "quantity" => Kind::Quantity,
        "intOrString" => Kind::IntOrString,
        "time" => Kind::Time,
        "raw" => Kind::Raw,
        name => Kind::Struct(*places.get(name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(place: usize, name: &str) -> &'static Field {
        SHAPES.get(place).iter().find(|it| it.name == name).unwrap()
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(SHAPES.list.len(), 109);
        let Kind::Struct(spec) = find(SHAPES.pod_template, "spec").kind else { panic!() };
        let containers = find(spec, "containers");
        assert!(containers.is_always);
        let Kind::List(item) = &containers.kind else { panic!() };
        let Kind::Struct(container) = **item else { panic!() };
        assert!(find(container, "name").is_always && !find(container, "image").is_always);
        assert!(matches!(find(container, "resources").kind, Kind::Struct(_)));
        assert_eq!(SHAPES.get(SHAPES.claim_spec)[0].name, "accessModes");
    }

    #[test]
    fn a_table_with_a_dangling_name_is_refused() {
        assert!(Shapes::read("PodTemplateSpec: spec Nothing\nPersistentVolumeClaimSpec: a int").is_none());
        assert!(Shapes::read("PodTemplateSpec: spec\nPersistentVolumeClaimSpec: a int").is_none());
        assert!(Shapes::read("PodTemplateSpec: a int\nPersistentVolumeClaimSpec: a *[]{}int!").is_some());
    }
}
