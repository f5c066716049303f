//! How long something took, as `kubectl` writes it.

use jiff::SignedDuration;

/// A length of time in two units at most: `45s`, `3m20s`, `7h`, `2d5h`, `400d`, `3y10d`.
pub fn human(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2_920 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_as_kubectl_writes_them() {
        let rows = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (10_799, "179m"),
            (11_000, "3h3m"),
            (30_000, "8h"),
            (190_800, "2d5h"),
            (34_560_000, "400d"),
            (95_472_000, "3y10d"),
            (3_153_600_000, "100y"),
        ];
        for (seconds, text) in rows {
            assert_eq!(human(SignedDuration::from_secs(seconds)), text);
        }
    }
}
