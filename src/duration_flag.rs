//! Durations on the command line, in the syntax of Go's flags.

use std::str::FromStr;
use std::time::Duration;

/// A duration in the syntax of Go's flags: `90s`, `10m`, `1h30m`, `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoDuration(Duration);

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unsigned: jiff::SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
        Duration::try_from(unsigned).map(Self).map_err(|_| "a duration cannot be negative".to_owned())
    }
}

/// A period of repeated work. It has a minimum, because a period near zero would mean work without a pause.
pub(crate) fn period(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text.parse()?;
    if duration.0 < Duration::from_secs(1) {
        return Err("the period must be at least 1s".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [("90s", 90_000), ("10m", 600_000), ("1h30m", 5_400_000), ("250ms", 250)] {
            assert_eq!(text.parse::<GoDuration>().unwrap().0.as_millis(), expected, "{text}");
        }
        assert!("-5s".parse::<GoDuration>().is_err());
        assert!("soon".parse::<GoDuration>().is_err());
    }
}
