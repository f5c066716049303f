//! JSON text as Go's encoder writes it: compact, keys sorted bytewise, `<`, `>`, `&` and the two line separators
//! escaped, numbers as float64 in plain decimal.

use std::fmt::Write;

use serde_json::{Number, Value};

/// What the largest integer of Kubernetes, which has 64 bits and a sign, is as a float.
const MAX_INTEGER: f64 = 9_223_372_036_854_775_808.0;

/// Writes `value` as Go does for a value without a type.
pub(super) fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(it) => out.push_str(if *it { "true" } else { "false" }),
        Value::Number(it) => out.push_str(&number(it)),
        Value::String(it) => write_text(out, it),
        Value::Array(items) => write_list(out, items, write_value),
        Value::Object(map) => write_map(out, map, write_value),
    }
}

/// Writes a list, each item with `item`.
pub(super) fn write_list(out: &mut String, items: &[Value], mut item: impl FnMut(&mut String, &Value)) {
    out.push('[');
    for (index, it) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item(out, it);
    }
    out.push(']');
}

/// Writes a map by sorted keys, each value with `value`.
pub(super) fn write_map(
    out: &mut String,
    map: &serde_json::Map<String, Value>,
    mut value: impl FnMut(&mut String, &Value),
) {
    // Sorted here, because serde_json's order depends on a feature that any crate of the build may turn on.
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|it| it.0);
    out.push('{');
    for (index, (key, it)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        value(out, it);
    }
    out.push('}');
}

/// Writes a text with its quotes.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for it in text.chars() {
        match it {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(it)).expect("writing to a String cannot fail");
            }
            _ => out.push(it),
        }
    }
    out.push('"');
}

/// The text of a number. Go reads numbers without a type as float64, so large integers lose their last digits, and
/// prints the shortest digits that read back the same, with an exponent only below 1e-6 and from 1e21 on.
///
/// No type of Kubernetes has a fraction, so only members newer than this build can. serde_json may be off by a digit
/// when it reads more than 15; cutting them there keeps a number the same however often it is stored and read.
pub(crate) fn number(number: &Number) -> String {
    let Some(mut value) = number.as_f64() else { return number.to_string() };
    if number.is_f64() || value.abs() > MAX_INTEGER {
        value = format!("{value:.14e}").parse().unwrap_or(value);
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn go(value: &Value) -> String {
        let mut out = String::new();
        write_value(&mut out, value);
        out
    }

    #[test]
    fn what_is_special_in_html_is_escaped() {
        assert_eq!(go(&json!("a<b>&c\u{2028}\u{2029}")), r#""a\u003cb\u003e\u0026c\u2028\u2029""#);
        assert_eq!(
            go(&json!("\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}\"\\/é😀")),
            "\"\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}\\\"\\\\/é😀\""
        );
    }

    #[test]
    fn keys_are_sorted_by_bytes_and_nothing_is_padded() {
        assert_eq!(
            go(&json!({"b": [1, {}], "Z": null, "é": [], "$p": true})),
            r#"{"$p":true,"Z":null,"b":[1,{}],"é":[]}"#
        );
    }

    #[test]
    fn numbers_are_floats_in_plain_decimal() {
        for (text, want) in [
            ("8080", "8080"),
            ("-1", "-1"),
            ("1.50", "1.5"),
            ("1e3", "1000"),
            ("9007199254740993", "9007199254740992"),
            ("9223372036854775807", "9223372036854776000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("0.000001", "0.000001"),
            ("0.00000015", "1.5e-7"),
            ("580557545250635560000000000000", "5.80557545250636e+29"),
            ("18446744073709551615", "18446744073709600000"),
        ] {
            assert_eq!(go(&serde_json::from_str(text).unwrap()), want, "{text}");
        }
    }
}
