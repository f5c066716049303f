//! Numbers that may be percentages, as admission judges them.

use scheduling::numbers::{IntOrPercent, Rounding};
use serde_json::Value;

use crate::runtime::webhook::FieldError;

/// The number that `value` stands for on `total`, rounded up where it is a percentage. A text without `%` is refused:
/// nobody could tell whether 5 or 5 % is meant.
pub fn resolve(path: &str, value: &Value, total: u64) -> Result<u64, FieldError> {
    Ok(read(path, value)?.resolve(total, Rounding::Up))
}

/// A number or a percentage, whatever its total.
pub fn read(path: &str, value: &Value) -> Result<IntOrPercent, FieldError> {
    // The path is named by the error we make; the one from below is static.
    let read = match value {
        Value::Number(number) => number.as_i64().map(|it| IntOrPercent::int("it", it)),
        Value::String(text) => Some(IntOrPercent::parse("it", text)),
        _ => None,
    };
    match read {
        Some(Ok(number)) => Ok(number),
        Some(Err(error)) => Err(FieldError::invalid(path, value.clone(), error.to_string())),
        None => {
            let detail = "must be an integer or a percentage such as \"30%\"";
            Err(FieldError::invalid(path, value.clone(), detail))
        }
    }
}

/// Refuses a number below zero. Nothing there is no fault.
pub fn not_negative(path: &str, value: Option<&Value>) -> Option<FieldError> {
    let number = value.and_then(Value::as_i64)?;
    (number < 0).then(|| FieldError::invalid(path, number.into(), "must be greater than or equal to 0"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_stand_for_themselves_and_percentages_for_a_part_rounded_up() {
        let number = |value, total| resolve("f", &value, total).unwrap();
        assert_eq!((number(json!(3), 10), number(json!("33.3%"), 10), number(json!("0%"), 10)), (3, 4, 0));
        assert_eq!((number(json!("120%"), 10), number(json!("1%"), 0)), (12, 0));
    }

    #[test]
    fn a_bare_number_as_text_is_refused_and_the_field_is_named() {
        for value in
            [json!("5"), json!(""), json!("x%"), json!("%"), json!(true), json!(1.5), json!(-1), json!("-1%")]
        {
            let error = resolve("spec.f", &value, 10).unwrap_err();
            assert_eq!(error.path, "spec.f", "{value}");
        }
        let error = resolve("spec.f", &json!("5"), 10).unwrap_err().to_string();
        assert_eq!(error, "spec.f: Invalid value: \"5\": it must be an integer or a percent such as `30%`");
    }
}
