//! How much a quantity is.

/// Billionths in a thousandth.
const MILLI: i128 = 1_000_000;

/// The quantity in thousandths, rounded up.
pub fn milli(text: &str) -> Option<i128> {
    nano(text).map(|it| it.div_euclid(MILLI) + i128::from(it.rem_euclid(MILLI) != 0))
}

/// The quantity rounded up to a thousandth, in the way Kubernetes writes it, if it is finer than that. `None` if there
/// is nothing to round, and for texts that are no quantities: validation speaks about those.
pub fn round_up_to_milli(text: &str) -> Option<String> {
    if nano(text)? % MILLI == 0 {
        return None;
    }
    let milli = milli(text)?;
    Some(if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") })
}

/// The quantity in billionths, what is finer rounded up, as Kubernetes does when it reads a quantity.
pub fn nano(text: &str) -> Option<i128> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 24 || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;

    let (exponent, factor) = scale(suffix)?;
    let exponent = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let scaled = digits.checked_mul(factor)?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    let value = if exponent >= 0 {
        scaled.checked_mul(power)?
    } else {
        let rest = i128::from(scaled % power != 0);
        scaled / power + rest
    };
    Some(sign * value)
}

/// The power of ten and the factor that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, i128)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(step) = decimal.iter().position(|it| *it == suffix) {
        return Some((i32::try_from(step).ok()? * 3 - 9, 1));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(step) = binary.iter().position(|it| *it == suffix) {
        return Some((0, 1024_i128.pow(u32::try_from(step).ok()? + 1)));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (exponent.abs() <= 20).then_some((exponent, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_finer_than_a_thousandth_is_rounded() {
        for same in ["1", "500m", "0.5", "1.5Ki", "1Gi", "1e3", "1E", "0", "-1", "x", "", ".", "1Zi", "1.1.1"]
        {
            assert_eq!(round_up_to_milli(same), None, "{same}");
        }
        for (from, to) in [
            ("1000n", "1m"),
            ("1n", "1m"),
            ("0.0001", "1m"),
            ("1.0001", "1001m"),
            ("0.9999", "1"),
            ("1e-5", "1m"),
            ("0.0001Ki", "103m"),
            ("1001u", "2m"),
        ] {
            assert_eq!(round_up_to_milli(from).as_deref(), Some(to), "{from}");
        }
    }

    #[test]
    fn thousandths_are_rounded_up() {
        for (text, value) in [
            ("0", 0),
            ("100m", 100),
            ("+2", 2_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2E", 2_000_000_000_000_000_000_000),
            ("5e-1", 500),
            ("1n", 1),
            ("1500u", 2),
            ("-1500u", -1),
        ] {
            assert_eq!(milli(text), Some(value), "{text}");
        }
        assert_eq!(milli("lots"), None);
    }

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
            assert!(nano(a).is_some(), "{a}");
            assert_eq!(nano(a), nano(b), "{a} {b}");
        }
        assert_ne!(nano("1G"), nano("1Gi"));
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
            assert_eq!(nano(text), None, "{text}");
        }
    }
}
