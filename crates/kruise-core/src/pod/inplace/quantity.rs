//! Quantities of cpu and memory, as far as two of them are compared.

/// Reads a quantity such as `500m`, `1.5Gi` or `1e3`, in billionths. `None` if it is none, or beyond all reason.
pub(super) fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty())
        || fraction.contains('.')
        || whole.len() > 18
        || fraction.len() > 9
    {
        return None;
    }
    let (factor, divisor) = scale(suffix)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let value = digits.checked_mul(factor)? / (divisor * 10_i128.pow(u32::try_from(fraction.len()).ok()?));
    Some(if negative { -value } else { value })
}

/// What one unit of a suffix is in billionths: a factor and what to divide by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    const UNIT: i128 = 1_000_000_000;
    let binary = |power: u32| Some((UNIT.checked_mul(1024_i128.checked_pow(power)?)?, 1));
    let decimal = |power: i32| match u32::try_from(power) {
        Ok(power) => Some((UNIT.checked_mul(10_i128.checked_pow(power)?)?, 1)),
        Err(_) => Some((UNIT, 10_i128.checked_pow(power.unsigned_abs())?)),
    };
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok().filter(|it: &i32| it.abs() <= 18)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_same_amount_in_other_words_is_the_same() {
        for (a, b) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E", "1000P"),
            ("+2", "2"),
            ("100E-2", "1"),
            ("-1", "-1000m"),
        ] {
            assert!(parse(a).is_some(), "{a}");
            assert_eq!(parse(a), parse(b), "{a} {b}");
        }
        assert_ne!(parse("1G"), parse("1Gi"));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            "-",
            "abc",
            "1x",
            "1.2.3",
            "1 ",
            "e3",
            "1e99999999",
            "1KiB",
            "9999999999999999999999999E",
            ".",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
