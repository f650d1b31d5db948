//! Durations in Go's notation, as CAPA's API has them. Pure.

use std::time::Duration;

/// The units, in nanoseconds. If one unit is a prefix of another, the longer unit comes first.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Maximum number of digits before or after a decimal point: more than any duration needs.
const MAX_DIGITS: usize = 18;

/// A duration such as `30m`, `1h30m` or `1.5h`. `None` for any other text, including negative durations.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanoseconds: u128 = 0;
    loop {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        let (unit, after) =
            UNITS.iter().find_map(|(name, unit)| after.strip_prefix(name).map(|after| (*unit, after)))?;
        nanoseconds = nanoseconds.checked_add(amount(whole, fraction, unit)?)?;
        if after.is_empty() {
            return Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?));
        }
        rest = after;
    }
}

/// A decimal number of a unit.
fn amount(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    if whole.len() + fraction.len() == 0 || whole.len() > MAX_DIGITS || fraction.len() > MAX_DIGITS {
        return None;
    }
    let number = |digits: &str| digits.bytes().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    let scale = fraction.bytes().fold(1, |scale: u128, _| scale * 10);
    number(whole).checked_mul(unit)?.checked_add(number(fraction) * unit / scale)
}

/// The digits at the beginning of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let seconds = Duration::from_secs;
        for (text, expected) in [
            ("0", Some(Duration::ZERO)),
            ("0s", Some(Duration::ZERO)),
            ("30m", Some(seconds(1_800))),
            ("1h30m", Some(seconds(5_400))),
            ("+1h", Some(seconds(3_600))),
            ("1.5h", Some(seconds(5_400))),
            (".5m", Some(seconds(30))),
            ("1.m", Some(seconds(60))),
            ("90m0s", Some(seconds(5_400))),
            ("168h", Some(seconds(604_800))),
            ("1500ms", Some(Duration::from_millis(1_500))),
            ("1s1ms1us1ns", Some(Duration::from_nanos(1_001_001_001))),
            ("2µs3μs", Some(Duration::from_nanos(5_000))),
            ("30m1h", Some(seconds(5_400))),
            ("", None),
            ("+", None),
            ("30", None),
            ("m", None),
            (".m", None),
            ("-1h", None),
            ("1h ", None),
            ("1 h", None),
            ("1d", None),
            ("1hm", None),
            ("1h30", None),
            ("1,5h", None),
            ("99999999h", None),
            ("9999999999999999999h", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
