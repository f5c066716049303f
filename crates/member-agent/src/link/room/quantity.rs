//! Quantities as Kubernetes writes them, in thousandths. Pure.

/// The value of `text` in thousandths, rounded up; nothing if it is no quantity, or too large to count with.
pub(super) fn milli(text: &str) -> Option<i128> {
    let is_number = |it: char| it.is_ascii_digit() || matches!(it, '.' | '+' | '-');
    let split = text.find(|it| !is_number(it)).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    // Nobody means anything by digits beyond these.
    let part = &part[..part.len().min(12)];
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let (up, down) = factor(unit)?;
    let value = digits.checked_mul(up)?.checked_mul(1000)?;
    let parts = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?.checked_mul(down)?;
    Some(value.div_euclid(parts) + i128::from(value.rem_euclid(parts) != 0))
}

/// What a unit multiplies by, and divides by.
fn factor(unit: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    let decimal = |power: u32| Some((10_i128.checked_pow(power)?, 1));
    match unit {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
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
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let size = 10_i128.checked_pow(power.unsigned_abs())?;
            Some(if power < 0 { (1, size) } else { (size, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proto_8_quantities_are_read_in_all_their_forms() {
        let rows = [
            ("0", 0),
            ("100m", 100),
            ("1", 1_000),
            ("+2", 2_000),
            ("0.5", 500),
            ("1.5Gi", 1_610_612_736_000),
            ("2k", 2_000_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("2E", 2_000_000_000_000_000_000_000),
            ("5e-1", 500),
            ("1n", 1),
            ("1500u", 2),
        ];
        for (text, value) in rows {
            assert_eq!(milli(text), Some(value), "{text}");
        }
        for text in ["", "lots", "1.2.3", "1 Gi", "e3", "1e99", "--1"] {
            assert_eq!(milli(text), None, "{text}");
        }
    }
}
