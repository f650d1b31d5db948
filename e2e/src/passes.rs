//! The finished passes of a manager over objects, from its log: metrics name no objects.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::Context as _;

/// The passes in a log so far. A look reads on where the last one ended, because waits look several times a second.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    read: u64,
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
    /// Reads the lines that the log has got since the last look.
    pub(crate) fn read_on(&mut self, log: &Path) -> anyhow::Result<()> {
        let mut file = File::open(log).with_context(|| format!("open {}", log.display()))?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        text.truncate(complete);
        self.read += u64::try_from(complete)?;
        self.found
            .extend(String::from_utf8_lossy(&text).lines().filter_map(Pass::parse));
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_look_reads_on_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manager.log");
        let mut log = File::create(&path).unwrap();
        let mut passes = Passes::default();
        let line = |name: &str, version: u64| {
            format!(
                "INFO object{{controller=\"awsmachine\" name=\"{name}\"}}: reconciled version=\"{version}\" took=1\n"
            )
        };
        let second = line("one", 8);
        let (begun, rest) = second.split_at(30);
        write!(
            log,
            "a line of another kind\n{}{}{begun}",
            line("one", 7),
            line("two", 9)
        )
        .unwrap();
        passes.read_on(&path).unwrap();
        assert_eq!(passes.versions("awsmachine", "one"), [7]);
        log.write_all(rest.as_bytes()).unwrap();
        passes.read_on(&path).unwrap();
        assert_eq!(passes.versions("awsmachine", "one"), [7, 8]);
        assert_eq!(passes.versions("awsmachine", "two"), [9]);
        assert!(passes.versions("awscluster", "one").is_empty());
        let object = |name: &str| ("awsmachine".to_owned(), name.to_owned());
        let counts = BTreeMap::from([(object("one"), 2), (object("two"), 1)]);
        assert_eq!(passes.by_object(), counts);
    }
}
