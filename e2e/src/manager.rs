//! A running manager, and what a story sees of it.

use std::{collections::BTreeMap, path::PathBuf, process::ExitStatus, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    metrics::Metrics,
    passes::Passes,
    programs,
    supervised::{Memory, Supervised, last_words},
    wait::http_get,
};

/// The error of a call to a manager that has ended.
const ENDED: &str = "this manager has been ended before";

/// The controllers that a manager runs, each with a ServiceAccount of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controllers {
    /// `capa-rs manager`.
    OfProvider,
    /// `capa-rs fleet`, which has no AWS credentials.
    OfFleet,
}

/// A running manager. Clones are handles of the same manager: the environment keeps one, and stops the manager when the
/// environment is finished.
#[derive(Clone)]
pub struct Manager {
    /// The process; `None` once the manager has ended.
    process: Arc<Mutex<Option<Supervised>>>,
    log: PathBuf,
    passes: Arc<Mutex<Passes>>,
    health: String,
    diagnostics: String,
}

impl Manager {
    /// A manager that has been started.
    pub(crate) fn new(process: Supervised, health: String, diagnostics: String) -> Self {
        Self {
            log: process.log().to_owned(),
            passes: Arc::new(Mutex::new(Passes::of(process.log().to_owned()))),
            process: Arc::new(Mutex::new(Some(process))),
            health,
            diagnostics,
        }
    }

    /// The program of managers: `CAPA_RS_BINARY`, or the binary that cargo built beside the running program.
    pub fn program() -> anyhow::Result<PathBuf> {
        programs::provider_program()
    }

    /// The manager's metrics.
    pub async fn metrics(&self) -> anyhow::Result<Metrics> {
        Ok(Metrics::parse(&self.scrape().await?))
    }

    /// The manager's metrics as text.
    pub async fn scrape(&self) -> anyhow::Result<String> {
        http_get(&format!("http://{}/metrics", self.diagnostics)).await
    }

    /// The host and port of the manager's diagnostics server.
    pub fn diagnostics(&self) -> &str {
        &self.diagnostics
    }

    /// The number of passes that one of the manager's controllers, e.g. `awscluster`, has finished.
    pub async fn passes(&self, controller: &str) -> anyhow::Result<f64> {
        let metrics = self.metrics().await?;
        let passes = metrics.sum("controller_runtime_reconcile_total", &[("controller", controller)]);
        Ok(passes.unwrap_or_default())
    }

    /// The resource versions of an object in the finished passes of one controller, e.g. `awsmachine`. The versions
    /// come from the log in its text format at `-v=4` or more, because metrics name no objects.
    pub fn looked_at(&self, controller: &str, name: &str) -> anyhow::Result<Vec<u64>> {
        let mut passes = self.passes.lock();
        passes.read_on()?;
        Ok(passes.versions(controller, name))
    }

    /// The number of finished passes over each object, by controller and name, from the same log.
    pub fn passes_by_object(&self) -> anyhow::Result<BTreeMap<(String, String), usize>> {
        let mut passes = self.passes.lock();
        passes.read_on()?;
        Ok(passes.by_object())
    }

    /// Whether the manager is ready; the error contains the readiness answer.
    pub async fn ready(&self) -> anyhow::Result<()> {
        http_get(&format!("http://{}/readyz", self.health)).await?;
        Ok(())
    }

    /// The manager's complete log.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// The current and the peak memory of the manager.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        self.running(Supervised::memory)
    }

    /// The CPU time of the manager.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.running(Supervised::cpu_time)
    }

    /// The exit status of a manager that has ended by itself. The caller then judges the exit, because finishing the
    /// environment does not.
    pub fn ended(&self) -> anyhow::Result<Option<ExitStatus>> {
        let mut process = self.lock();
        let ended = process.as_mut().context(ENDED)?.try_wait()?;
        if ended.is_some() {
            *process = None;
        }
        Ok(ended)
    }

    /// Asks the manager to end, as Kubernetes would, and waits for its end.
    pub async fn terminate(&self) -> anyhow::Result<ExitStatus> {
        self.take()?.terminate().await
    }

    /// Asks the manager to end, as Kubernetes would, and fails unless it ends with success.
    pub async fn stop(&self) -> anyhow::Result<()> {
        end_with_success(self.take()?).await
    }

    /// Stops the manager unless [`stop`](Self::stop), [`terminate`](Self::terminate), [`kill`](Self::kill) or
    /// [`ended`](Self::ended) has ended it before.
    pub(crate) async fn stop_if_running(&self) -> anyhow::Result<()> {
        let process = self.lock().take();
        match process {
            Some(process) => end_with_success(process).await,
            None => Ok(()),
        }
    }

    /// Pauses the manager's process, as if its computer hung.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.running(Supervised::pause)
    }

    /// Resumes the manager's process after [`Manager::pause`].
    pub fn resume(&self) -> anyhow::Result<()> {
        self.running(Supervised::resume)
    }

    /// Ends the manager with SIGKILL and waits for its end.
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.take()?.kill().await
    }

    fn running<T>(&self, look: impl FnOnce(&Supervised) -> anyhow::Result<T>) -> anyhow::Result<T> {
        look(self.lock().as_ref().context(ENDED)?)
    }

    fn take(&self) -> anyhow::Result<Supervised> {
        self.lock().take().context(ENDED)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Supervised>> {
        self.process.lock()
    }
}

async fn end_with_success(mut process: Supervised) -> anyhow::Result<()> {
    process.ensure_running()?;
    let (name, log) = (process.name().to_owned(), process.log().to_owned());
    let status = process.terminate().await?;
    ensure!(status.success(), "{name} was asked to end and ended with {status}; {}", last_words(&log));
    Ok(())
}
