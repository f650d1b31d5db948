//! Starts the manager under test with the permissions of its own ServiceAccount.

use std::{path::PathBuf, process::Command, time::Duration};

use crate::{
    aws_proxy::AccessKey,
    environment::TestEnvironment,
    manager::{Controllers, Manager},
    ports::free_port,
    provider,
    wait::http_get,
};

/// The limit for the manager to become ready: it fills its caches on a busy computer.
const READY_WITHIN: Duration = Duration::from_mins(3);

impl TestEnvironment {
    /// A builder for a manager of this namespace.
    pub fn new_manager(&self) -> ManagerBuilder<'_> {
        ManagerBuilder::new(self, Controllers::OfProvider)
    }

    /// A builder for a manager that publishes the Clusters of this namespace to fleet engines.
    pub fn new_fleet(&self) -> ManagerBuilder<'_> {
        ManagerBuilder::new(self, Controllers::OfFleet)
    }
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
    fn new(environment: &'a TestEnvironment, controllers: Controllers) -> Self {
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
        let (health, diagnostics) = (format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
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

    /// Starts the manager and waits until it is ready. If the manager ends instead, the error contains the end of its
    /// log.
    pub async fn start(&self) -> anyhow::Result<Manager> {
        let (arguments, health, diagnostics) = self.arguments().await?;
        let program = self.program.clone().map_or_else(Manager::program, Ok)?;
        let mut command = Command::new(program);
        command.args(&arguments).env("RUST_BACKTRACE", "1").envs(self.variables.iter().cloned());
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
        let manager = Manager::new(process, health, diagnostics);
        self.environment.keep(manager.clone());
        Ok(manager)
    }
}
