//! Support for a program that starts a world, shows its progress, and leaves the world running in the background.
//!
//! A process cannot leave the terminal after it has used it, so the program runs itself a second time: the first
//! process shows the output of the second process until that has [settled](Detached::settle) or has ended.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::directory::ProcessGroup as _;

/// The environment variable of the second process: the file that it creates when it has settled.
const SETTLED_FILE: &str = "CAPA_E2E_SETTLED_FILE";

/// The interval at which the second process checks whether it shall stop.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The part of the current process.
pub enum Part {
    /// The first process, which has completed its work: `main` returns this exit code.
    First(ExitCode),
    /// The second process, which does the program's work.
    Second(Detached),
}

/// The second process. Until it has settled, it ends together with the first process, as a foreground program on
/// Ctrl-C.
pub struct Detached {
    settled: Arc<AtomicBool>,
    settled_file: PathBuf,
}

/// Runs this program again with the same arguments; `main` does this before anything else. In the first process this
/// returns when the second has settled or ended, in the second at once.
pub fn run() -> anyhow::Result<Part> {
    if let Some(settled_file) = std::env::var_os(SETTLED_FILE) {
        return Ok(Part::Second(Detached::new(settled_file.into())));
    }
    let settled = tempfile::TempDir::new()?;
    let settled_file = settled.path().join("settled");
    let mut second = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(SETTLED_FILE, &settled_file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group_of_its_own()
        .spawn()
        .context("run this program in the background")?;
    show_all(&mut second)?;
    if settled_file.exists() {
        return Ok(Part::First(ExitCode::SUCCESS));
    }
    let code = second.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(Part::First(code.map_or(ExitCode::FAILURE, ExitCode::from)))
}

/// Copies both outputs until both are closed.
fn show_all(second: &mut Child) -> anyhow::Result<()> {
    let (output, error) = (second.stdout.take(), second.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| error.map(|mut error| io::copy(&mut error, &mut io::stderr())));
        output.map_or(Ok(0), |mut output| io::copy(&mut output, &mut io::stdout()))
    })
    .context("show what the background process says")?;
    Ok(())
}

impl Detached {
    fn new(settled_file: PathBuf) -> Self {
        let settled = Arc::new(AtomicBool::new(false));
        let known = settled.clone();
        std::thread::spawn(move || {
            let mut ignored = [0; 64];
            while matches!(io::stdin().read(&mut ignored), Ok(read) if read > 0) {}
            if !known.load(Ordering::SeqCst) {
                std::process::exit(130);
            }
        });
        Self { settled, settled_file }
    }

    /// Lets the first process end with success. The later output of this process goes to `log`.
    pub fn settle(&self, log: &Path) -> anyhow::Result<()> {
        let log = File::create(log).with_context(|| format!("create {}", log.display()))?;
        self.settled.store(true, Ordering::SeqCst);
        File::create(&self.settled_file).context("report that the background process has settled")?;
        rustix::stdio::dup2_stdout(&log)?;
        rustix::stdio::dup2_stderr(&log)?;
        Ok(())
    }

    /// Returns when the file `stop` exists or the process is asked to end by a signal.
    pub async fn until_stopped(&self, stop: &Path) -> anyhow::Result<()> {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let look = async {
            while !stop.exists() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = look => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }
}
