//! The finished passes of a manager over objects, from its log: metrics name no objects.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::growing_log::GrowingLog;

/// The passes in a log so far.
#[derive(Debug)]
pub(crate) struct Passes {
    log: GrowingLog,
    found: Vec<Pass>,
}

#[derive(Debug)]
struct Pass {
    controller: String,
    name: String,
    /// Absent where the object could not be read.
    version: Option<u64>,
}

impl Passes {
    /// The passes in this log.
    pub(crate) fn of(log: PathBuf) -> Self {
        Self { log: GrowingLog::new(log), found: Vec::new() }
    }

    /// Reads the lines that the log has got since the last look.
    pub(crate) fn read_on(&mut self) -> anyhow::Result<()> {
        let lines = self.log.new_lines()?;
        self.found.extend(lines.lines().filter_map(Pass::parse));
        Ok(())
    }

    /// The resource versions that one controller has seen of an object, in the order of its passes.
    pub(crate) fn versions(&self, controller: &str, name: &str) -> Vec<u64> {
        let passes = self.found.iter();
        passes
            .filter(|pass| pass.controller == controller && pass.name == name)
            .filter_map(|pass| pass.version)
            .collect()
    }

    /// The number of passes over each object, by controller and name.
    pub(crate) fn by_object(&self) -> BTreeMap<(String, String), usize> {
        let mut passes = BTreeMap::new();
        for pass in &self.found {
            *passes.entry((pass.controller.clone(), pass.name.clone())).or_default() += 1;
        }
        passes
    }
}

impl Pass {
    /// The pass that a line of the log in its text format tells of:
    /// `…{controller="…" name="…" …}: … reconciled version="…"`.
    fn parse(line: &str) -> Option<Self> {
        let (span, fields) = line.split_once(": reconciled ")?;
        let span = span.replace('{', " ");
        Some(Self {
            controller: quoted(&span, " controller=\"")?.to_owned(),
            name: quoted(&span, " name=\"")?.to_owned(),
            version: quoted(fields, "version=\"").and_then(|version| version.parse().ok()),
        })
    }
}

/// The text between `start` and the next quotation mark.
fn quoted<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once('"').map(|(value, _)| value)
}
