//! The tasks of a process. The process exits when the first task ends unexpectedly.

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use thiserror::Error;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// The error of a task of [`Tasks`].
pub type TaskFailure = Box<dyn Error + Send + Sync>;

/// The reasons why [`Tasks::run`] ends early. The process then exits with a non-zero exit code.
#[derive(Debug, Error)]
pub enum TaskError {
    /// A task ended before it was asked to.
    #[error("{name} ended unexpectedly")]
    Ended {
        /// The task.
        name: String,
    },
    /// A task failed.
    #[error("{name} failed")]
    Failed {
        /// The task.
        name: String,
        /// The error of the task.
        source: TaskFailure,
    },
    /// A task panicked.
    #[error("{name} panicked")]
    Panicked {
        /// The task.
        name: String,
        /// The error of the runtime about the panic.
        source: JoinError,
    },
    /// The shutdown took too long; the remaining tasks were aborted.
    #[error("shutdown took longer than {grace:?}; aborted: {names}")]
    Aborted {
        /// The time that was given.
        grace: Duration,
        /// The tasks that were still running.
        names: String,
    },
}

/// A set of tasks that live and end together.
pub struct Tasks {
    set: JoinSet<Result<(), TaskFailure>>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
    grace: Duration,
}

impl Tasks {
    /// A set of tasks that end within `grace` after `stop` is cancelled. A nested set needs a shorter grace than the
    /// outer set.
    pub fn new(stop: CancellationToken, grace: Duration) -> Self {
        Self { set: JoinSet::new(), names: HashMap::new(), stop, grace }
    }

    /// The token that asks the tasks to end. The caller of [`Self::spawn`] passes it to the task.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task, which must not end before `stop`.
    pub fn spawn<E: Into<TaskFailure>>(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self.set.spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), name.into());
    }

    /// Runs until `stop` is cancelled and all tasks have ended, or until the first task fails or ends early. In the
    /// second case, the other tasks are aborted.
    pub async fn run(mut self) -> Result<(), TaskError> {
        let stop = self.stop.clone();
        let result = tokio::select! {
            () = stop.cancelled() => Ok(()),
            early = self.first_end() => Err(early),
        };
        let result = match result {
            Ok(()) => self.drain().await,
            Err(early) => Err(early),
        };
        self.set.shutdown().await;
        result
    }

    async fn first_end(&mut self) -> TaskError {
        match self.set.join_next_with_id().await {
            // A task may end between the cancellation of `stop` and this check.
            Some(Ok((id, Ok(())))) if self.stop.is_cancelled() => {
                debug!(task = self.names.remove(&id), "ended");
                std::future::pending().await
            }
            Some(joined) => match self.judge(joined) {
                Ok(name) => TaskError::Ended { name },
                Err(error) => error,
            },
            None => std::future::pending().await,
        }
    }

    async fn drain(&mut self) -> Result<(), TaskError> {
        let grace = self.grace;
        let drained = timeout(grace, async {
            while let Some(joined) = self.set.join_next_with_id().await {
                let name = self.judge(joined)?;
                debug!(task = name, "ended");
            }
            Ok(())
        })
        .await;
        if let Ok(result) = drained {
            return result;
        }
        let mut names: Vec<_> = self.names.values().cloned().collect();
        names.sort();
        Err(TaskError::Aborted { grace, names: names.join(", ") })
    }

    /// The name of a task that ended as expected, or the error of a task that did not.
    fn judge(&mut self, joined: Result<(Id, Result<(), TaskFailure>), JoinError>) -> Result<String, TaskError> {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let name = self.names.remove(&id).unwrap_or_default();
        match joined {
            Ok((_, Ok(()))) => Ok(name),
            Ok((_, Err(source))) => Err(TaskError::Failed { name, source }),
            Err(source) => Err(TaskError::Panicked { name, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    async fn end(tasks: Tasks) -> Result<(), TaskError> {
        timeout(Duration::from_secs(30), tasks.run()).await.expect("run() returns")
    }

    fn tasks() -> Tasks {
        Tasks::new(CancellationToken::new(), GRACE)
    }

    async fn obeys(stop: CancellationToken) -> Result<(), TaskFailure> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_ends_all() {
        let mut tasks = tasks();
        tasks.spawn("endless", pending::<Result<(), TaskFailure>>());
        tasks.spawn("controller", async { Ok::<_, TaskFailure>(()) });
        assert_eq!(end(tasks).await.unwrap_err().to_string(), "controller ended unexpectedly");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_fails_or_panics_ends_all() {
        let mut failing = tasks();
        failing.spawn("cache", async { Err::<(), TaskFailure>("no more events".into()) });
        assert!(matches!(end(failing).await, Err(TaskError::Failed { name, .. }) if name == "cache"));
        let mut panicking = tasks();
        panicking.spawn("cache", async { panic!("mapper") as Result<(), TaskFailure> });
        assert!(matches!(end(panicking).await, Err(TaskError::Panicked { name, .. }) if name == "cache"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_every_task() {
        let mut tasks = tasks();
        let stop = tasks.stop();
        tasks.spawn("one", obeys(stop.clone()));
        tasks.spawn("two", obeys(stop.clone()));
        stop.cancel();
        end(tasks).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_aborted_and_named() {
        let mut tasks = tasks();
        let stop = tasks.stop();
        tasks.spawn("deaf", pending::<Result<(), TaskFailure>>());
        tasks.spawn("one", obeys(stop.clone()));
        stop.cancel();
        assert_eq!(end(tasks).await.unwrap_err().to_string(), "shutdown took longer than 10s; aborted: deaf");
    }
}
