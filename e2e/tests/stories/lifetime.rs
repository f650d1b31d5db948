//! No program outlives the test process that started it, however the process ends.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use capa_e2e::{
    Directory, Supervised,
    detached::{self, Part},
    eventually, eventually_by_polling,
};
use rustix::process::{Pid, Signal, kill_process};

/// The variable with the way in which the victim ends by itself; without it the victim waits for its end.
const ENDING: &str = "CAPA_E2E_VICTIM_ENDING";

/// The variable with the file in which the victim reports the programs that it has started.
const REPORT: &str = "CAPA_E2E_VICTIM_REPORT";

/// The limit for the end of all programs: much more than the grace periods of supervisor and sweeper together.
const GONE_WITHIN: Duration = Duration::from_mins(2);

/// A program that ends on SIGTERM.
const POLITE: &[&str] = &["sleep", "1000"];
/// A program with a child process; both ignore SIGTERM.
const STUBBORN: &[&str] = &["sh", "-c", "trap '' TERM; sleep 1000; sleep 1000"];

#[tokio::test]
async fn nothing_outlives_a_test_process_that_is_killed() -> anyhow::Result<()> {
    let mut victim = Victim::start("wait").await?;
    kill_process(Pid::from_child(&victim.process), Signal::KILL)?;
    victim.leaves_nothing().await
}

#[tokio::test]
async fn nothing_outlives_a_test_process_that_gets_ctrl_c() -> anyhow::Result<()> {
    let mut victim = Victim::start("wait").await?;
    kill_process(Pid::from_child(&victim.process), Signal::INT)?;
    victim.leaves_nothing().await
}

#[tokio::test]
async fn nothing_outlives_a_test_process_whose_test_panics() -> anyhow::Result<()> {
    Victim::start("panic").await?.leaves_nothing().await
}

#[tokio::test]
async fn nothing_outlives_a_test_process_that_exits_at_once() -> anyhow::Result<()> {
    Victim::start("exit").await?.leaves_nothing().await
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_with_its_children() -> anyhow::Result<()> {
    let directory = Directory::new()?;
    let stubborn = supervised(&directory, "stubborn", STUBBORN)?;
    let (id, child) = (stubborn.process_id(), child_of(stubborn.process_id()).await?);
    let status = stubborn.end().await?;
    assert_eq!(status.code(), Some(128 + 9), "SIGKILL after SIGTERM was ignored");
    assert!(is_gone(id) && is_gone(child));

    let mut failing = supervised(&directory, "failing", &["sh", "-c", "echo the reason; exit 7"])?;
    let error = eventually_by_polling(GONE_WITHIN, "an error that tells the reason", async || {
        failing.ensure_running().err().context("the process still runs")
    });
    let error = format!("{:#}", error.await?);
    assert!(error.contains('7') && error.contains("the reason"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_killed_program_gets_no_sigterm_first() -> anyhow::Result<()> {
    let directory = Directory::new()?;
    let program = supervised(&directory, "polite", &["sh", "-c", "trap 'echo goodbye' TERM EXIT; sleep 1000"])?;
    let log = program.log().to_owned();
    program.kill().await?;
    assert_eq!(std::fs::read_to_string(log)?, "");
    Ok(())
}

/// The victim: the tests above start this test as a process, through this test binary.
#[test]
#[ignore = "a process for its neighbours to end"]
fn victim() -> anyhow::Result<()> {
    let directory = Directory::new()?;
    let programs = [supervised(&directory, "polite", POLITE)?, supervised(&directory, "stubborn", STUBBORN)?];
    let ids = programs.each_ref().map(|program| program.process_id().to_string()).join(" ");
    std::fs::write(std::env::var(REPORT)?, format!("{} {ids} end", directory.path().display()))?;
    // The values are not dropped, like the world of a test binary, which is a static.
    std::mem::forget((directory, programs));
    match std::env::var(ENDING)?.as_str() {
        "panic" => panic!("as a failed test does"),
        "exit" => std::process::exit(3),
        _ => loop {
            std::thread::park();
        },
    }
}

#[tokio::test]
async fn a_kept_world_outlives_the_program_until_its_stop_file() -> anyhow::Result<()> {
    let mut victim = Victim::run("kept_victim", "settle").await?;
    let status = eventually_by_polling(GONE_WITHIN, "the program to end", async || {
        victim.process.try_wait()?.context("the process still runs")
    });
    assert!(status.await?.success());
    assert!(!victim.programs.iter().any(|id| is_gone(*id)), "a program of the settled process has ended");
    std::fs::write(victim.directory.join("stop"), "")?;
    victim.leaves_nothing().await
}

#[tokio::test]
async fn a_world_to_be_kept_ends_with_the_program_until_it_settles() -> anyhow::Result<()> {
    let mut victim = Victim::run("kept_victim", "wait").await?;
    kill_process(Pid::from_child(&victim.process), Signal::KILL)?;
    victim.leaves_nothing().await
}

/// A process that deliberately leaves a program running.
#[test]
#[ignore = "a process for its neighbours to end"]
fn kept_victim() -> anyhow::Result<()> {
    let Part::Second(detached) = detached::run()? else {
        return Ok(());
    };
    let directory = Directory::new()?;
    let program = supervised(&directory, "polite", POLITE)?;
    let report = format!("{} {} end", directory.path().display(), program.process_id());
    if std::env::var(ENDING)? == "settle" {
        detached.settle(&directory.path().join("background.log"))?;
    }
    std::fs::write(std::env::var(REPORT)?, report)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(detached.until_stopped(&directory.path().join("stop")))
}

/// A test process with supervised programs.
struct Victim {
    process: Child,
    directory: PathBuf,
    programs: Vec<i32>,
}

impl Victim {
    /// A process with a polite and a stubborn program.
    async fn start(ending: &str) -> anyhow::Result<Self> {
        let mut victim = Self::run("victim", ending).await?;
        if ending == "wait" {
            let stubborn = *victim.programs.last().context("no programs in the report")?;
            victim.programs.push(child_of(stubborn).await?);
        }
        Ok(victim)
    }

    /// Runs the test with this name as a process, and reads its report.
    async fn run(test: &str, ending: &str) -> anyhow::Result<Self> {
        let report = tempfile::NamedTempFile::new()?;
        // A test run in the background of a shell ignores SIGINT, and so would its child processes.
        let process = Command::new("env")
            .arg("--default-signal=INT")
            .arg(std::env::current_exe()?)
            .args(["--ignored", "--exact", &format!("stories::lifetime::{test}")])
            .env(ENDING, ending)
            .env(REPORT, report.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // From here on, a failure ends the process.
        let mut victim = Self { process, directory: PathBuf::new(), programs: Vec::new() };
        let report = eventually(GONE_WITHIN, "the victim's report", async || {
            let report = std::fs::read_to_string(report.path())?;
            ensure!(report.ends_with(" end"), "the victim reports {report:?}");
            Ok(report)
        });
        let report = report.await?;
        let mut words = report.split(' ');
        victim.directory = PathBuf::from(words.next().context("an empty report")?);
        victim.programs = words.filter_map(|word| word.parse().ok()).collect();
        if ending == "wait" {
            let runs = !victim.programs.iter().any(|id| is_gone(*id));
            ensure!(victim.directory.exists() && runs, "the victim started nothing");
        }
        Ok(victim)
    }

    async fn leaves_nothing(&mut self) -> anyhow::Result<()> {
        eventually_by_polling(GONE_WITHIN, "all that the victim started to be gone", async || {
            self.process.try_wait()?.context("the victim still runs")?;
            let left: Vec<_> = self.programs.iter().filter(|id| !is_gone(**id)).collect();
            ensure!(left.is_empty(), "processes {left:?} are left");
            ensure!(!self.directory.exists(), "{} is left", self.directory.display());
            Ok(())
        })
        .await
    }
}

impl Drop for Victim {
    /// A failed test does not leave the process behind either.
    fn drop(&mut self) {
        let _already_gone = std::fs::write(self.directory.join("stop"), "");
        let _already_ended = self.process.kill();
    }
}

fn supervised(directory: &Directory, name: &str, words: &[&str]) -> anyhow::Result<Supervised> {
    let (program, arguments) = words.split_first().context("no program")?;
    Supervised::start(directory, directory.path(), name, Command::new(program).args(arguments))
}

/// The child process of a process.
async fn child_of(id: i32) -> anyhow::Result<i32> {
    eventually(GONE_WITHIN, "the program to start its child", async || {
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(children.split_whitespace().next().context("no child yet")?.parse()?)
    })
    .await
}

/// Whether a process has ended; a zombie counts as ended.
fn is_gone(id: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, |stat| stat.contains(") Z "))
}
