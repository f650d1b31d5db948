//! The trace of a history, line by line.

use jiff::Timestamp;

use crate::outside::since_start;

/// Lines with their simulated time. No line is made unless the trace is kept.
#[derive(Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(kept: bool) -> Self {
        Self {
            lines: kept.then(Vec::new),
        }
    }

    /// Adds a line that is made only if somebody reads.
    pub(crate) fn note(&mut self, now: Timestamp, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let time = since_start(now);
            let (seconds, millis) = (time.as_secs(), time.subsec_millis());
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            lines.push(format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03} {}", line()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
