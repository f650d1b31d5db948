//! Programs that end with the process that started them.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::{
    directory::{Directory, ProcessGroup as _},
    programs,
    turn::{Place, Program, Turn},
    wait::eventually_by_polling,
};

/// The number of log lines in an error.
const LAST_LINES: usize = 10;

/// The limit for the end of a program: Kubernetes' default grace period, which is longer than the supervisor's.
const END_WITHIN: Duration = Duration::from_secs(30);

/// How much the memory of a Go program may grow between two collections of garbage, in percent. The default of Go, 100,
/// costs a fifth of kube-apiserver's time.
const GARBAGE: &str = "300";

/// A running program under a supervisor. Dropping the value ends the program too, without waiting for its end.
pub struct Supervised {
    name: String,
    log: PathBuf,
    recipe: Recipe,
    program: Pid,
    supervisor: Child,
    /// The share of the test that runs the program; `None` for the programs of the shared world.
    share: Option<Program>,
}

/// The data for the first and every later start of a program.
#[derive(Clone, Debug)]
struct Recipe {
    directory: PathBuf,
    register: PathBuf,
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Supervised {
    /// Starts the program of `command` with its arguments and exactly its environment (plus `PATH` and Go's `GOGC`), so
    /// that the developer's own AWS and Kubernetes settings do not reach it. Its output goes to `<name>.log` in `logs`.
    pub fn start(directory: &Directory, logs: &Path, name: &str, command: &Command) -> anyhow::Result<Self> {
        let environment = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let recipe = Recipe {
            directory: directory.path().to_owned(),
            register: directory.register(),
            program: command.get_program().to_owned(),
            arguments: command.get_args().map(OsStr::to_owned).collect(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        Self::run(name.to_owned(), logs.join(format!("{name}.log")), recipe)
    }

    fn run(name: String, log: PathBuf, recipe: Recipe) -> anyhow::Result<Self> {
        let output = File::options().create(true).append(true).open(&log);
        let mut supervisor = Command::new(programs::supervisor()?)
            .arg("run")
            .args([recipe.register.as_os_str(), &recipe.program])
            .args(&recipe.arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("GOGC", GARBAGE)
            .envs(recipe.environment.clone())
            .current_dir(&recipe.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output.with_context(|| format!("open {}", log.display()))?)
            .process_group_of_its_own()
            .spawn()
            .with_context(|| format!("start the supervisor of {name}"))?;
        let program =
            read_process_id(&mut supervisor).with_context(|| format!("{name} did not start; {}", last_words(&log)))?;
        Ok(Self { name, log, recipe, program, supervisor, share: None })
    }

    /// Counts the program among those of the test with this turn; `None` for the shared world, which belongs to no
    /// test.
    pub(crate) fn of_test(mut self, turn: Option<&Turn>) -> Self {
        self.share = turn.map(Place::program);
        self
    }

    /// Ends the program with SIGKILL, and returns a value that starts it again in the same way and with the same log.
    pub(crate) async fn kill_to_restart(mut self) -> anyhow::Result<Stopped> {
        let stopped = Stopped {
            name: self.name.clone(),
            log: self.log.clone(),
            recipe: self.recipe.clone(),
            share: self.share.take(),
        };
        self.kill().await?;
        Ok(stopped)
    }

    /// The rest of the program's argument that begins with `prefix`.
    pub(crate) fn argument(&self, prefix: &str) -> Option<&str> {
        let mut arguments = self.recipe.arguments.iter().filter_map(|argument| argument.to_str());
        arguments.find_map(|argument| argument.strip_prefix(prefix))
    }

    /// The process id of the program itself, not of its supervisor.
    pub fn process_id(&self) -> i32 {
        self.program.as_raw_pid()
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the program's log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// An error with the end of the log if the program has ended.
    pub fn ensure_running(&mut self) -> anyhow::Result<()> {
        match self.supervisor.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}; {}", self.name, self.last_words()),
        }
    }

    /// The last lines of the program's log, for messages.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.log)
    }

    /// Waits until `probe` succeeds or the program ends. The error contains the last lines of the log.
    pub(crate) async fn ready(
        &mut self,
        within: Duration,
        mut probe: impl AsyncFnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let what = format!("{} to be ready", self.name);
        let outcome = eventually_by_polling(within, &what, async || match self.ensure_running() {
            Ok(()) => probe().await.map(Ok),
            Err(ended) => Ok(Err(ended)),
        });
        outcome.await.with_context(|| last_words(&self.log))?
    }

    /// The current and the peak memory of the program. Linux only.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let path = format!("/proc/{}/status", self.program.as_raw_pid());
        let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let bytes = |field: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
            let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
            anyhow::Ok(kibibytes * 1024)
        };
        Ok(Memory { resident: bytes("VmRSS:")?, anonymous: bytes("RssAnon:")?, peak: bytes("VmHWM:")? })
    }

    /// The CPU time of the program, in user and kernel mode. Linux only.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.program.as_raw_pid());
        let stat = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        // The name may contain any character. Counted after it, utime and stime are the 12th and the 13th field.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = ticks.sum::<Result<u64, _>>().with_context(|| format!("read {path}"))?;
        Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
    }

    /// The exit status of a program that has ended; a signal is 128 plus its number.
    pub fn try_wait(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.supervisor.try_wait()?)
    }

    /// Lets the supervisor end the program: SIGTERM, and SIGKILL after a grace period. Waits for the end.
    pub async fn end(mut self) -> anyhow::Result<ExitStatus> {
        drop(self.supervisor.stdin.take());
        self.ended().await
    }

    /// Sends SIGTERM to the program and waits for its end, as long as Kubernetes would.
    pub async fn terminate(mut self) -> anyhow::Result<ExitStatus> {
        kill_process(self.program, Signal::TERM).with_context(|| format!("terminate {}", self.name))?;
        self.ended().await
    }

    /// Pauses the program (SIGSTOP), as if its computer hung.
    pub fn pause(&self) -> anyhow::Result<()> {
        kill_process(self.program, Signal::STOP).with_context(|| format!("pause {}", self.name))
    }

    /// Resumes a paused program.
    pub fn resume(&self) -> anyhow::Result<()> {
        kill_process(self.program, Signal::CONT).with_context(|| format!("resume {}", self.name))
    }

    /// Ends the program with SIGKILL, like a crash of its computer, and waits for its end.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        kill_process(self.program, Signal::KILL).with_context(|| format!("kill {}", self.name))?;
        self.ended().await?;
        Ok(())
    }

    /// Waits for the program to end by itself or by a signal sent to it.
    async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        let name = self.name.clone();
        eventually_by_polling(END_WITHIN, &format!("end of {name}"), async || {
            self.supervisor.try_wait()?.context("still running")
        })
        .await
    }
}

/// A program that has ended and can be started again.
pub(crate) struct Stopped {
    name: String,
    log: PathBuf,
    recipe: Recipe,
    share: Option<Program>,
}

impl Stopped {
    pub(crate) fn start(self) -> anyhow::Result<Supervised> {
        let share = self.share;
        let started = Supervised::run(self.name, self.log, self.recipe)?;
        Ok(Supervised { share, ..started })
    }
}

/// The memory of a process in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// The resident memory now.
    pub resident: u64,
    /// The part of the resident memory that is no file: data, and not the program.
    pub anonymous: u64,
    /// The peak of the resident memory.
    pub peak: u64,
}

/// The last lines of a log, for messages.
pub(crate) fn last_words(log: &Path) -> String {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let content = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = content.lines().collect();
    let end = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    format!("{name} ends with:\n{}", end.join("\n"))
}

/// The process id on the first line of the supervisor's output.
fn read_process_id(supervisor: &mut Child) -> anyhow::Result<Pid> {
    let output = supervisor.stdout.take().context("the supervisor has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let id = line.trim().parse().context("the supervisor reported no process id")?;
    Pid::from_raw(id).context("the supervisor reported process id 0")
}
