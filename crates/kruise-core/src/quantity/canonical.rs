//! Quantities as Kubernetes prints them after reading: `1000m` is `1`, `1024Mi` is `1Gi`, and what was already in
//! order is left as it was written, down to a leading `+`.

/// Which family of suffixes a quantity was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `m`, `k`, `M`.
    Decimal,
    /// `e3`.
    Exponent,
    /// `Ki`, `Mi`.
    Binary,
}

/// An exact decimal: `digits` times ten to the power of `exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount {
    digits: i128,
    exponent: i32,
}

/// A quantity taken apart.
#[derive(Debug)]
struct Parts<'a> {
    is_negative: bool,
    /// Digits before the point without leading zeros, at least `0`.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

/// The smallest power of ten that is kept.
const NANO: i32 = -9;

/// How many decimal digits always fit into 64 bits.
const FAST_DIGITS: usize = 18;

/// Far beyond any sense, and far from where sums of exponents would overflow.
const MAX_POWER: i32 = 1_000_000;

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

const BINARY_SUFFIXES: [(&str, i32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// How Kubernetes prints the quantity `text` after reading it; nothing if it is none, or is beyond 38 digits.
pub fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let parts = take_apart(text)?;
    let (format, power) = interpret(parts.suffix)?;
    if let Some((amount, is_in_order)) = fast(&parts, format, power) {
        return Some(if is_in_order { text.to_owned() } else { print(amount, format) });
    }
    let (amount, format) = exact(&parts, format, power)?;
    Some(print(amount, format))
}

fn take_apart(text: &str) -> Option<Parts<'_>> {
    let is_negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let (whole, rest) = digits(rest);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);

    let after = suffix.trim_start_matches(|it| "eEinumkKMGTP".contains(it));
    let (_, end) = digits(after.strip_prefix(['-', '+']).unwrap_or(after));
    end.is_empty().then_some(Parts {
        is_negative,
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix,
    })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len()))
}

/// The family and the power (of ten, or of two) that a suffix stands for.
fn interpret(suffix: &str) -> Option<(Format, i32)> {
    let find = |list: &[(&str, i32)]| list.iter().find(|it| it.0 == suffix).map(|it| it.1);
    if let Some(power) = find(&DECIMAL_SUFFIXES) {
        return Some((Format::Decimal, power));
    }
    if let Some(power) = find(&BINARY_SUFFIXES) {
        return Some((Format::Binary, power));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-MAX_POWER..=MAX_POWER).contains(&power).then_some((Format::Exponent, power))
}

/// Amounts of few digits, and whether they are printed the way they were written. Kubernetes decides the latter from
/// the text alone, so a few forms survive that an exact rule would change: `+5`, `005`, `1.500`, `1E3`.
fn fast(parts: &Parts<'_>, format: Format, power: i32) -> Option<(Amount, bool)> {
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let (exponent, factor) = match format {
        Format::Binary => {
            let room = 14 - i64::try_from(parts.whole.len()).ok()? - i64::from(power) * 3 / 10;
            if !parts.fraction.is_empty() || room < 0 {
                return None;
            }
            (0, 1_i64 << power)
        }
        Format::Decimal | Format::Exponent => {
            if shifted.len() > FAST_DIGITS {
                return None;
            }
            (power.checked_sub(i32::try_from(parts.fraction.len()).ok()?)?, 1)
        }
    };
    if exponent < NANO {
        return None;
    }
    let value: i64 = shifted.parse().ok()?;
    let product = value.checked_mul(factor)?;
    let is_in_order = match format {
        Format::Binary => value & 7 != 0,
        Format::Decimal | Format::Exponent => {
            exponent % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
        }
    };
    let digits = i128::from(if parts.is_negative { -product } else { product });
    Some((Amount { digits, exponent }, is_in_order))
}

/// All other amounts: rounded away from zero to nano-units; binary ones end at 2^63 - 1.
fn exact(parts: &Parts<'_>, format: Format, power: i32) -> Option<(Amount, Format)> {
    let mut digits: i128 = format!("{}{}", parts.whole, parts.fraction).parse().ok()?;
    let mut exponent = i32::try_from(parts.fraction.len()).ok()?.checked_neg()?;
    match format {
        Format::Binary => match digits.checked_mul(1 << power) {
            Some(it) => digits = it,
            None => {
                let whole: i128 = parts.whole.parse().ok()?;
                if whole < i128::from(i64::MAX) >> power {
                    return None;
                }
                (digits, exponent) = (i128::from(i64::MAX), 0);
            }
        },
        Format::Decimal | Format::Exponent => exponent = exponent.checked_add(power)?,
    }
    if exponent < NANO {
        let divisor = u32::try_from(NANO - exponent).ok().and_then(|it| 10_i128.checked_pow(it));
        digits = match divisor {
            Some(divisor) => digits / divisor + i128::from(digits % divisor != 0),
            None => digits.signum(),
        };
        exponent = NANO;
    }
    let mut format = format;
    if format == Format::Binary {
        // A binary amount has no positive exponent, so the unit is a power of ten between 1 and 10^9.
        let unit = 10_i128.pow(exponent.unsigned_abs());
        if digits / unit >= i128::from(i64::MAX) {
            (digits, exponent) = (i128::from(i64::MAX), 0);
        } else if digits > 0 && digits < unit {
            format = Format::Decimal;
        }
    }
    Some((Amount { digits: if parts.is_negative { -digits } else { digits }, exponent }, format))
}

fn print(amount: Amount, format: Format) -> String {
    let Amount { mut digits, mut exponent } = amount;
    if digits == 0 {
        return "0".to_owned();
    }
    if format == Format::Binary
        && let Some(text) = print_binary(amount)
    {
        return text;
    }
    while digits % 10 == 0 {
        digits /= 10;
        exponent += 1;
    }
    let even = exponent.div_euclid(3) * 3;
    // What is left over of the exponent is at most two zeros; they go in as text, which cannot overflow.
    let zeros = &"00"[..usize::try_from(exponent - even).unwrap_or(0)];
    if format == Format::Exponent {
        return if even == 0 { format!("{digits}{zeros}") } else { format!("{digits}{zeros}e{even}") };
    }
    // Beyond exa there is no suffix, and Kubernetes prints none.
    let suffix = DECIMAL_SUFFIXES.iter().find(|it| it.1 == even).map_or("", |it| it.0);
    format!("{digits}{zeros}{suffix}")
}

/// Whole amounts from 1024 on; all others are printed with decimal suffixes.
fn print_binary(amount: Amount) -> Option<String> {
    let unit = 10_i128.pow(amount.exponent.unsigned_abs());
    let mut value = amount.digits / unit;
    if amount.digits % unit != 0 || value.abs() < 1024 {
        return None;
    }
    let mut power = 0;
    while value % 1024 == 0 {
        value /= 1024;
        power += 10;
    }
    let suffix = BINARY_SUFFIXES.iter().find(|it| it.1 == power).map_or("", |it| it.0);
    Some(format!("{value}{suffix}"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::revision::gojson;

    /// Pairs of what was read and what Kubernetes prints, `null` where it reads none. Made by Kubernetes itself.
    #[test]
    fn quantities_are_printed_as_kubernetes_prints_them() {
        let vectors: Vec<(Value, Option<String>)> =
            serde_json::from_str(include_str!("vectors/quantities.json")).unwrap();
        assert!(vectors.len() > 250);
        for (input, want) in vectors {
            let got = match &input {
                Value::Null => Some("0".to_owned()),
                Value::Number(it) => canonical(&gojson::number(it)),
                it => canonical(it.as_str().unwrap()),
            };
            assert_eq!(got, want, "{input}");
        }
    }

    #[test]
    fn any_text_is_safe() {
        for text in [
            "",
            " ",
            "-",
            "+",
            ".",
            "e",
            "1e999999999999",
            "é",
            "1e-2147483648",
            "1e2147483647",
            &"9".repeat(60),
            &format!("0.{}", "1".repeat(60)),
        ] {
            let _ = canonical(text);
        }
        assert_eq!(canonical(&"9".repeat(60)), None);
    }
}
