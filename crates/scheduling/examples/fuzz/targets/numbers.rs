//! Numbers as users write them.

use scheduling::numbers::{self, IntOrPercent, Pace, Percent, Rounding};

use super::Bytes;

pub(crate) fn parse_any(bytes: &mut Bytes) {
    let letters = ['0', '1', '9', '5', '.', '%', '-', '+', 'e', ' ', 'x', '\u{663}'];
    let text: String = (0..bytes.below(14)).map(|_| bytes.pick(&letters)).chain(['%'; 1]).collect();
    let text = if bytes.below(8) == 0 { text.trim_end_matches('%') } else { &text };
    let total = if bytes.below(3) == 0 { bytes.word() } else { u64::from(bytes.number()) };
    match IntOrPercent::parse("field", text) {
        Err(error) => assert!(error.to_string().starts_with("field ")),
        Ok(value) => {
            let (up, down) = (value.resolve(total, Rounding::Up), value.resolve(total, Rounding::Down));
            assert!(down <= up && up - down <= 1, "{text} of {total}");
            // What is printed reads as the same number.
            let again = IntOrPercent::parse("field", &value.to_string()).expect("what we print");
            assert_eq!(again.resolve(total, Rounding::Up), up);
            let kept = numbers::partition(Some(value), total);
            assert!(kept <= total);
            numbers::max_unavailable(
                Some(value),
                total,
                numbers::max_surge(Some(value), total, Pace::Rolling),
            );
            assert!(numbers::concurrency(Some(value), total) >= 1);
            let other = IntOrPercent::Percent(Percent::whole(bytes.number() % 150));
            if let Ok((more, less)) = numbers::rebalance(value, other, total) {
                assert!(total == 0 || more > 0 || less > 0, "{text} {other} of {total}");
            }
        }
    }
}
