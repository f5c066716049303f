//! How `CERTS_RENEW_BEFORE` is written.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long before its end a certificate is replaced, unless told otherwise.
pub const DEFAULT_RENEW_BEFORE: Duration = Duration::from_secs(180 * DAY.as_secs());

/// Reads a number of days (`10d`), months of 30 days (`2m`) or years of 365 days (`1y`). Anything else means the
/// default, as in OpenKruise: a typing error must not stop the server.
pub fn renew_before(text: &str) -> Duration {
    parse(text.trim()).unwrap_or(DEFAULT_RENEW_BEFORE)
}

fn parse(text: &str) -> Option<Duration> {
    let unit = match text.chars().last()? {
        'd' => 1,
        'm' => 30,
        'y' => 365,
        _ => return None,
    };
    let count: u32 = text[..text.len() - 1].parse().ok()?;
    DAY.checked_mul(count.checked_mul(unit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_months_and_years_are_understood_and_anything_else_is_the_default() {
        for (text, days) in [
            ("10d", 10),
            ("2m", 60),
            ("1y", 365),
            ("0d", 0),
            ("5x", 180),
            ("oops", 180),
            ("", 180),
            ("-1d", 180),
            ("99999999y", 180),
            ("1µ", 180),
        ] {
            assert_eq!(renew_before(text), DAY * days, "{text}");
        }
    }
}
