//! Our manager as the real binary, under the permissions of its own ServiceAccount.

use std::{process::Command, process::ExitStatus, time::Duration};

use crate::{
    aws_proxy::AccessKey,
    environment::TestEnvironment,
    metrics::Metrics,
    ports::free_port,
    programs, provider,
    supervised::{Memory, Supervised},
    wait::http_get,
};

/// How long the manager may take to fill its caches on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How the manager will be started. Starting it again, after a crash for instance, is a second
/// [`start`](ManagerBuilder::start).
#[derive(Clone)]
pub struct ManagerBuilder<'a> {
    environment: &'a TestEnvironment,
    flags: Vec<String>,
    key: AccessKey,
    leader_election: bool,
}

impl<'a> ManagerBuilder<'a> {
    pub(crate) fn new(environment: &'a TestEnvironment) -> Self {
        Self {
            environment,
            flags: Vec::new(),
            key: environment.aws().key().clone(),
            leader_election: false,
        }
    }

    /// Adds a flag, e.g. `--watch-filter=blue`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Has it campaign for the Lease, which lies in the test's namespace: other tests have one of their own.
    #[must_use]
    pub fn leader_election(mut self) -> Self {
        self.leader_election = true;
        self
    }

    /// The AWS credentials in its environment, default: the key of the test's account.
    #[must_use]
    pub fn credentials(mut self, key: AccessKey) -> Self {
        self.key = key;
        self
    }

    /// Starts it and waits until it is ready. If it ends instead, the error has the end of its log.
    pub async fn start(&self) -> anyhow::Result<Manager> {
        let (health, diagnostics) = (
            format!("127.0.0.1:{}", free_port()?),
            format!("127.0.0.1:{}", free_port()?),
        );
        let kubeconfig = self.environment.manager_kubeconfig().await?;
        let mut command = Command::new(programs::manager()?);
        command
            .arg("manager")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--namespace={}", self.environment.namespace()))
            .arg(format!("--health-addr={health}"))
            .arg(format!("--diagnostics-address={diagnostics}"))
            .arg("--insecure-diagnostics")
            .args(&self.flags)
            .env("AWS_ENDPOINT_URL", self.environment.aws().url())
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", &self.key.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &self.key.secret_access_key)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("RUST_BACKTRACE", "1");
        if self.leader_election {
            let namespace = self.environment.namespace();
            provider::grant_lease(&self.environment.client(), namespace).await?;
            command
                .arg("--leader-elect")
                .arg(format!("--identity-namespace={}", provider::NAMESPACE))
                .env("POD_NAMESPACE", namespace);
        }
        let mut process = self.environment.start("manager", &command)?;
        process
            .ready(READY_WITHIN, async || {
                http_get(&format!("http://{health}/readyz")).await.map(drop)
            })
            .await?;
        Ok(Manager {
            process,
            health,
            diagnostics,
        })
    }
}

/// A running manager. It ends when this is dropped.
pub struct Manager {
    process: Supervised,
    health: String,
    diagnostics: String,
}

impl Manager {
    /// What it counts, as Prometheus would read it.
    pub async fn metrics(&self) -> anyhow::Result<Metrics> {
        Ok(Metrics::parse(
            &http_get(&format!("http://{}/metrics", self.diagnostics)).await?,
        ))
    }

    /// Whether it calls itself ready; an error shows what it answered instead.
    pub async fn ready(&self) -> anyhow::Result<()> {
        http_get(&format!("http://{}/readyz", self.health)).await?;
        Ok(())
    }

    /// All it has logged so far.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.process.log())?)
    }

    /// How much memory it uses and has used.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        self.process.memory()
    }

    /// Whether it has ended by itself, and how.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Asks it to end, as Kubernetes would, and waits until it has.
    pub async fn stop(self) -> anyhow::Result<ExitStatus> {
        self.process.terminate().await
    }

    /// Ends it with SIGKILL and waits until it is gone.
    pub async fn kill(self) -> anyhow::Result<()> {
        self.process.kill().await
    }
}
