//! The folder of a world. It is removed when the world, or the process that runs it, has ended.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::Context;

use crate::programs;

/// A temporary folder with a register of the supervised programs. The sweeper removes it when this value is dropped or
/// the process ends in whatever way, after the last registered program has ended.
pub struct Directory {
    root: PathBuf,
    sweeper: Child,
}

impl Directory {
    /// Creates the folder, under the system's folder for temporary files.
    pub fn new() -> anyhow::Result<Self> {
        let root = tempfile::Builder::new().prefix("capa-world-").tempdir().context("make a temporary folder")?.keep();
        let register = root.join("running");
        std::fs::create_dir(&register)?;
        let sweeper = Command::new(programs::supervisor()?)
            .arg("sweep")
            .args([&root, &register])
            .stdin(Stdio::piped())
            // The sweeper outlives this process, and the reader of this process's output waits for the last writer.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group_of_its_own()
            .spawn()
            .context("start the sweeper")?;
        Ok(Self { root, sweeper })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The folder in which supervisors register their programs.
    pub(crate) fn register(&self) -> PathBuf {
        self.root.join("running")
    }

    /// A file in the folder, written.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
        let path = self.root.join(name);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// A subfolder, created if it does not exist.
    pub(crate) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The end of its input starts the sweeper's work.
        drop(self.sweeper.stdin.take());
    }
}

/// Process groups of child processes: Ctrl-C in a terminal goes to the whole foreground process group, and the
/// processes that clean up must not belong to it.
pub(crate) trait ProcessGroup {
    /// Puts the program that will be started into a process group of its own.
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl ProcessGroup for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}
