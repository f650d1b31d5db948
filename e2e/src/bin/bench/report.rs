//! All measurements of a run.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::existing::Existing;
use crate::life::Life;
use crate::troubles::{Buckets, ThrottledMinute, WrongImage};

/// The measurements of a run, as `--json` writes them.
#[derive(Default, Serialize)]
pub(crate) struct Report {
    pub(crate) program: PathBuf,
    /// The folder of the program, which cargo names after the profile: `release`, or `debug`.
    pub(crate) profile: String,
    /// The size of the program in bytes.
    pub(crate) program_bytes: u64,
    pub(crate) cores: usize,
    /// The load of the computer in the last minute before the run.
    pub(crate) load: String,
    pub(crate) lives: Vec<Life>,
    pub(crate) existing: Vec<Existing>,
    pub(crate) buckets: Vec<Buckets>,
    pub(crate) throttled_minutes: Vec<ThrottledMinute>,
    pub(crate) wrong_images: Vec<WrongImage>,
}

impl Report {
    /// A report about a program, without measurements.
    pub(crate) fn new(program: PathBuf) -> anyhow::Result<Self> {
        let file = std::fs::metadata(&program).with_context(|| format!("look at {}", program.display()))?;
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Ok(Self {
            profile: profile(&program),
            program,
            program_bytes: file.len(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            load: load.split_whitespace().next().unwrap_or("unknown").to_owned(),
            ..Self::default()
        })
    }
}

fn profile(program: &Path) -> String {
    let folder = program.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_the_folder_of_the_program() {
        assert_eq!(profile(Path::new("/a/target/release/capa-rs")), "release");
        assert_eq!(profile(Path::new("capa-rs")), "");
    }
}
