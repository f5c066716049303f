//! The part of JSONPath that print columns use: members, indices, all items, and items with a certain member.

use serde_json::Value;

/// A path into an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `.name` or `['name']`
    Member(String),
    /// `[0]`, or `[-1]` from the end
    Index(i64),
    /// `[*]`
    Every,
    /// `[?(@.type=="Ready")]`
    Where { path: Box<Query>, equals: String },
    /// Something else: it finds nothing.
    Unknown,
}

impl Query {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        while let Some(first) = rest.chars().next() {
            rest = match first {
                '.' => {
                    let (name, after) = member(&rest[1..]);
                    if !name.is_empty() {
                        steps.push(if name == "*" { Step::Every } else { Step::Member(name) });
                    }
                    after
                }
                '[' => {
                    let (inside, after) = bracket(&rest[1..]);
                    steps.push(step(inside));
                    after
                }
                _ => {
                    let (name, after) = member(rest);
                    steps.push(Step::Member(name));
                    after
                }
            };
        }
        Self(steps)
    }

    /// Everything the path leads to.
    pub fn all<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.0 {
            found = found.into_iter().flat_map(|it| step.follow(it)).collect();
        }
        found
    }

    /// The first thing the path leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.all(object).into_iter().next()
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Member(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let index = if *index < 0 { *index + items.len() as i64 } else { *index };
                usize::try_from(index).ok().and_then(|it| items.get(it)).into_iter().collect()
            }
            Self::Every => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(members) => members.values().collect(),
                _ => Vec::new(),
            },
            Self::Where { path, equals } => {
                let fits = |item: &&Value| {
                    path.first(item).is_some_and(|it| match it {
                        Value::String(text) => text == equals,
                        other => {
                            let text = other.to_string();
                            text == *equals
                        }
                    })
                };
                value.as_array().into_iter().flatten().filter(fits).collect()
            }
            Self::Unknown => Vec::new(),
        }
    }
}

/// A member's name up to the next `.` or `[`; a backslash keeps a dot inside the name.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|it| it.1)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// What is inside a bracket, and what comes after it. Quoted brackets do not count.
fn bracket(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ']') => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

fn step(inside: &str) -> Step {
    let inside = inside.trim();
    if inside == "*" {
        return Step::Every;
    }
    if let Ok(index) = inside.parse() {
        return Step::Index(index);
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|it| it.strip_suffix(')')) {
        let Some((path, value)) = condition.split_once("==") else { return Step::Unknown };
        let path = Box::new(Query::parse(path.trim().trim_start_matches('@')));
        return Step::Where { path, equals: unquoted(value).to_owned() };
    }
    let name = unquoted(inside);
    if name.len() == inside.len() { Step::Unknown } else { Step::Member(name.replace("\\.", ".")) }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let bare = |quote: char| text.strip_prefix(quote).and_then(|it| it.strip_suffix(quote));
    bare('\'').or_else(|| bare('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_print_columns_find_what_they_name() {
        let object = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
        });
        let find =
            |path: &str| -> Vec<Value> { Query::parse(path).all(&object).into_iter().cloned().collect() };
        assert_eq!(find(".spec.items[1].n"), [json!(2)]);
        assert_eq!(find("spec.items[-1].name"), [json!("b")]);
        assert_eq!(find(".spec.items[*].n"), [json!(1), json!(2)]);
        assert_eq!(find(".spec.items[?(@.name==\"b\")].n"), [json!(2)]);
        assert_eq!(find(".spec.items[?(@.name == 'a')].n"), [json!(1)]);
        assert_eq!(find(r".metadata.labels.app\.kubernetes\.io/name"), [json!("web")]);
        assert_eq!(find(".metadata.labels['app.kubernetes.io/name']"), [json!("web")]);
        assert_eq!(find(".status.nothing"), Vec::<Value>::new());
        assert_eq!(find(".spec.items[nonsense]"), Vec::<Value>::new());
    }
}
