//! A log that a program is writing.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::Context as _;

/// The path of a log, and how much of it has been read. Each line is read once, because waits look several times a
/// second.
#[derive(Debug)]
pub(crate) struct GrowingLog {
    path: PathBuf,
    read: u64,
}

impl GrowingLog {
    /// A log of which nothing has been read. The file need not exist yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// The lines since the last call. A line that is still being written waits for the next call.
    pub(crate) fn new_lines(&mut self) -> anyhow::Result<String> {
        let mut text = self.rest().with_context(|| format!("read {}", self.path.display()))?;
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        text.truncate(complete);
        self.read += u64::try_from(complete)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn rest(&self) -> std::io::Result<Vec<u8>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        if file.metadata()?.len() < self.read {
            return Err(std::io::Error::other("the log has become shorter"));
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn each_complete_line_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program.log");
        let mut log = GrowingLog::new(path.clone());
        assert_eq!(log.new_lines().unwrap(), "", "before the file exists");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(log.new_lines().unwrap(), "one\ntwo\n");
        assert_eq!(log.new_lines().unwrap(), "");
        file.write_all(b"ee\n").unwrap();
        assert_eq!(log.new_lines().unwrap(), "three\n");
    }

    #[test]
    fn a_log_that_was_replaced_is_not_read_as_if_nothing_had_been_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program.log");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let mut log = GrowingLog::new(path.clone());
        assert_eq!(log.new_lines().unwrap(), "one\ntwo\n");
        std::fs::write(&path, "one\n").unwrap();
        assert!(log.new_lines().is_err());
    }
}
