//! The manager under test as the real binary or inside the test, always with the permissions of its own ServiceAccount.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, ExitStatus},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use capa_rs::Cli;
use clap::Parser as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    aws_proxy::AccessKey,
    environment::TestEnvironment,
    metrics::Metrics,
    passes::Passes,
    ports::free_port,
    programs, provider,
    supervised::{Memory, Supervised, last_words},
    wait::{eventually_by_polling, http_get},
};

/// The limit for the manager to become ready: it fills its caches on a busy computer.
const READY_WITHIN: Duration = Duration::from_mins(3);

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

/// The settings of a manager's start. After a crash, for instance, the manager is started again by a second
/// [`start`](ManagerBuilder::start).
#[derive(Clone)]
pub struct ManagerBuilder<'a> {
    environment: &'a TestEnvironment,
    controllers: Controllers,
    flags: Vec<String>,
    key: AccessKey,
    leader_election: bool,
    variables: Vec<(String, String)>,
    program: Option<PathBuf>,
}

impl<'a> ManagerBuilder<'a> {
    pub(crate) fn new(environment: &'a TestEnvironment, controllers: Controllers) -> Self {
        Self {
            environment,
            controllers,
            flags: Vec::new(),
            key: environment.aws().key().clone(),
            leader_election: false,
            variables: Vec::new(),
            program: None,
        }
    }

    /// Adds a flag, e.g. `--watch-filter=blue`, or replaces the harness's value of the flag.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Turns leader election on. The Lease is in the test's namespace, so that other tests do not compete for it.
    #[must_use]
    pub fn leader_election(mut self) -> Self {
        self.leader_election = true;
        self
    }

    /// Adds a variable to the manager's environment, e.g. `RUST_LOG`. Only for [`start`](Self::start).
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the program of the manager. Default: [`Manager::program`]. Only for [`start`](Self::start).
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// Sets the AWS credentials in the manager's environment. Default: the key of the test's account.
    #[must_use]
    pub fn credentials(mut self, key: AccessKey) -> Self {
        self.key = key;
        self
    }

    /// The command line, and the addresses of the health and diagnostics servers.
    async fn arguments(&self) -> anyhow::Result<(Vec<String>, String, String)> {
        let (health, diagnostics) = (
            format!("127.0.0.1:{}", free_port()?),
            format!("127.0.0.1:{}", free_port()?),
        );
        let kubeconfig = self.environment.manager_kubeconfig(self.controllers).await?;
        let mut arguments = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--namespace={}", self.environment.namespace()),
            format!("--health-addr={health}"),
            format!("--diagnostics-address={diagnostics}"),
            "--insecure-diagnostics".to_owned(),
            // The complete logs of the provider's own code: for the reader of a failed test's log, for the search for
            // secrets in the log, and for `Manager::looked_at`.
            "-v=5".to_owned(),
        ];
        if self.leader_election {
            // A leader keeps leading although a busy computer delays it.
            arguments.push("--leader-elect-lease-duration=60s".to_owned());
            arguments.push("--leader-elect-renew-deadline=45s".to_owned());
        }
        let name = |flag: &str| flag.split('=').next().map(str::to_owned);
        arguments.retain(|given| !self.flags.iter().any(|flag| name(flag) == name(given)));
        let command = match self.controllers {
            Controllers::OfProvider => "manager",
            Controllers::OfFleet => "fleet",
        };
        arguments.insert(0, command.to_owned());
        arguments.extend(self.flags.iter().cloned());
        Ok((arguments, health, diagnostics))
    }

    /// Runs the manager inside the test, where a debugger reaches it, with AWS in one region. Waits until it is ready.
    pub async fn start_in_process(&self, region: &str) -> anyhow::Result<InProcessManager> {
        let (mut arguments, health, _) = self.arguments().await?;
        let url = self.environment.aws().url();
        arguments.push(format!(
            "--service-endpoints={region}:ec2={url},elasticloadbalancing={url},sts={url},iam={url},kms={url},s3={url},\
             servicequotas={url}"
        ));
        let key = capa_aws::AccessKey {
            id: self.key.access_key_id.clone(),
            secret: self.key.secret_access_key.clone().into(),
        };
        let cli = Cli::try_parse_from(std::iter::once("capa-rs".to_owned()).chain(arguments))?;
        let stop = CancellationToken::new();
        let mut manager = InProcessManager {
            task: tokio::spawn(cli.manager(key, stop.clone())),
            stop,
        };
        let ready = eventually_by_polling(READY_WITHIN, "the manager in the test to be ready", async || {
            http_get(&format!("http://{health}/readyz")).await
        });
        tokio::select! {
            ready = ready => drop(ready?),
            ended = &mut manager.task => {
                ended?.context("the manager ended before it was ready")?;
                bail!("the manager ended without an error before it was ready");
            }
        }
        Ok(manager)
    }

    /// Starts the manager and waits until it is ready. If the manager ends instead, the error contains the end of its
    /// log.
    pub async fn start(&self) -> anyhow::Result<Manager> {
        let (arguments, health, diagnostics) = self.arguments().await?;
        let program = self.program.clone().map_or_else(Manager::program, Ok)?;
        let mut command = Command::new(program);
        command
            .args(&arguments)
            .env("RUST_BACKTRACE", "1")
            .envs(self.variables.iter().cloned());
        if self.controllers == Controllers::OfFleet {
            command.envs(self.environment.world().endpoint_variables());
        } else {
            command
                .env("AWS_ENDPOINT_URL", self.environment.aws().url())
                .env("AWS_REGION", "us-east-1")
                .env("AWS_ACCESS_KEY_ID", &self.key.access_key_id)
                .env("AWS_SECRET_ACCESS_KEY", &self.key.secret_access_key)
                .env("AWS_EC2_METADATA_DISABLED", "true");
        }
        if self.leader_election {
            let namespace = self.environment.namespace();
            provider::grant_lease(&self.environment.client(), namespace).await?;
            command
                .arg("--leader-elect")
                .arg(format!("--identity-namespace={}", provider::NAMESPACE))
                .env("POD_NAMESPACE", namespace);
        }
        let mut process = self.environment.start("manager", &command)?;
        let ready = async || http_get(&format!("http://{health}/readyz")).await.map(drop);
        process.ready(READY_WITHIN, ready).await?;
        let manager = Manager {
            log: process.log().to_owned(),
            passes: Arc::new(Mutex::new(Passes::of(process.log().to_owned()))),
            process: Arc::new(Mutex::new(Some(process))),
            health,
            diagnostics,
        };
        self.environment.keep(manager.clone());
        Ok(manager)
    }
}

/// A manager inside the test. The manager ends with the test's runtime.
pub struct InProcessManager {
    task: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
}

impl InProcessManager {
    /// Asks the manager to end and waits for its end.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await?
    }
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
    pub fn used(&self) -> anyhow::Result<Duration> {
        self.running(Supervised::used)
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
    ensure!(
        status.success(),
        "{name} was asked to end and ended with {status}; {}",
        last_words(&log)
    );
    Ok(())
}
