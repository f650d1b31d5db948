//! Runs a program that must not outlive the process that started it.
//!
//! `supervise run REGISTER PROGRAM [ARGUMENT…]` starts the program in a process group of its own, prints its process id
//! and waits. When standard input ends, which the kernel causes however the starter ends, the supervisor sends SIGTERM
//! to the group and, after a grace period, SIGKILL. The supervisor exits with the program's exit code. While the
//! program runs, REGISTER (a folder) contains a file named by its process id.
//!
//! `supervise sweep DIRECTORY REGISTER` also waits for the end of standard input, then for REGISTER to become empty,
//! and removes DIRECTORY. After a deadline the sweeper first kills the programs that are still registered.
//!
//! A pipe rather than `PR_SET_PDEATHSIG`, because that signal fires when the *thread* that forked ends.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, timeout},
};

/// The time that a program has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(4);

/// The time that the sweeper waits for the programs: longer than any of them may take to end.
const SWEEP_AFTER: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", register, program, arguments @ ..] => run(Path::new(register), program, arguments).await,
        ["sweep", directory, register] => sweep(Path::new(directory), Path::new(register)).await,
        _ => bail!("usage: supervise run REGISTER PROGRAM [ARGUMENT…] | supervise sweep DIRECTORY REGISTER"),
    }
}

async fn run(register: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    // Standard output carries the process id to the starter, so the program writes both its streams to standard error.
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::from(std::io::stderr()))
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {program}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).context("read the process id")?;
    let entry = register.join(group.to_string());
    std::fs::write(&entry, program).with_context(|| format!("register in {}", register.display()))?;
    writeln!(std::io::stdout(), "{group}")?;

    let status = tokio::select! {
        status = child.wait() => status?,
        ended = end_of_starter() => { ended?; end(&mut child, group).await? }
    };
    // Child processes that the program left behind belong to its group.
    let _nobody_left = kill_process_group(group, Signal::KILL);
    std::fs::remove_file(&entry)?;
    Ok(exit_code(status))
}

/// Ends the group of the child, with SIGKILL if it ignores SIGTERM.
async fn end(child: &mut Child, group: Pid) -> anyhow::Result<ExitStatus> {
    let _already_gone = kill_process_group(group, Signal::TERM);
    if let Ok(status) = timeout(GRACE, child.wait()).await {
        return Ok(status?);
    }
    kill_process_group(group, Signal::KILL)?;
    Ok(child.wait().await?)
}

async fn sweep(directory: &Path, register: &Path) -> anyhow::Result<ExitCode> {
    end_of_starter().await?;
    let deadline = Instant::now() + SWEEP_AFTER;
    while !registered(register)?.is_empty() {
        if Instant::now() > deadline {
            for group in registered(register)? {
                let _already_gone = kill_process_group(group, Signal::KILL);
            }
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    std::fs::remove_dir_all(directory).with_context(|| format!("remove {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The process groups that are still registered.
fn registered(register: &Path) -> anyhow::Result<Vec<Pid>> {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(register)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    Ok(entries.iter().filter_map(|entry| Pid::from_raw(entry.file_name()?.to_str()?.parse().ok()?)).collect())
}

/// Returns when standard input ends, or when SIGTERM or SIGINT arrives.
async fn end_of_starter() -> anyhow::Result<()> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A plain thread: the runtime would wait for a blocking read of its own when the process wants to end.
    std::thread::spawn(move || {
        let mut ignored = [0; 64];
        while matches!(std::io::stdin().read(&mut ignored), Ok(read) if read > 0) {}
        let _main_has_ended = sender.send(());
    });
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = receiver => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// The exit code of a program that exited, or 128 plus the signal that ended it, as in shells.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
