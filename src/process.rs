//! The parts that `capa-rs manager` and `capa-rs fleet` share: flags, client, servers and leader election.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use capa_runtime::diagnostics::{Protection, Tls, TlsVersion};
use capa_runtime::lease::{LeaderElection, LeaseSettings};
use capa_runtime::logging::{LogFormat, LogTargets};
use capa_runtime::scope::Scope;
use capa_runtime::tasks::Tasks;
use capa_runtime::{Runtime, diagnostics, health, listen, logging, process_metrics, shutdown};
use clap::Args;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::build_info;
use crate::duration_flag::GoDuration;
use crate::kube_config;

/// File in which Kubernetes tells the containers of a Pod its namespace.
const SERVICE_ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Namespace of the process outside of a Pod.
const DEFAULT_NAMESPACE: &str = "capa-rs-system";
/// The crates of this provider, and the AWS SDK, whose trace logs contain whole requests, including user data.
const LOG_TARGETS: LogTargets = LogTargets { own: "capa_", libraries: &["aws"] };
/// The address that turns a server off, as in controller-runtime.
const NO_ADDRESS: &str = "0";
/// How long controllers may take to finish their reconciles after the process is asked to stop.
const CONTROLLER_GRACE: Duration = Duration::from_secs(20);
/// How long the whole process, including its controllers, may take to stop.
pub(crate) const PROCESS_GRACE: Duration = Duration::from_secs(25);

/// The flags of every process that runs controllers. They have the names of Cluster API's flags.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProcessFlags {
    /// Kubeconfig of the management cluster. Default: `KUBECONFIG`, then ~/.kube/config, then the service account of
    /// the pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Reconcile only objects of this namespace. Default: all namespaces.
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value.
    #[arg(long, value_name = "VALUE")]
    watch_filter: Option<String>,

    /// Run the controllers only while holding a Lease, so that several managers may run.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) leader_elect: bool,

    /// Time that other managers wait after the leader's last renewal before they try to acquire the Lease.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    leader_elect_lease_duration: GoDuration,

    /// Time for which the leader tries to renew the Lease before it gives up leadership.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    leader_elect_renew_deadline: GoDuration,

    /// Time between two attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    leader_elect_retry_period: GoDuration,

    /// Address of /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS", default_value = ":9440")]
    pub(crate) health_addr: String,

    /// Address of /metrics. Metrics are served over TLS to users with the permission to get the nonResourceURL
    /// /metrics. 0 turns metrics off.
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    pub(crate) diagnostics_address: String,

    /// Minimum TLS version for metrics: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    pub(crate) tls_min_version: TlsVersion,

    /// Serve metrics over plain HTTP to every client that reaches the address.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) insecure_diagnostics: bool,

    /// Format of the log: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    logging_format: LogFormat,

    /// Verbosity of the log: 0 to 9.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u8,
}

/// The namespace of this process: from the environment variable that the Deployment sets, or else from the service
/// account of the Pod.
pub(crate) fn own_namespace() -> String {
    let of_environment = std::env::var("POD_NAMESPACE").ok();
    let of_account = || std::fs::read_to_string(SERVICE_ACCOUNT_NAMESPACE).ok();
    let named = |name: String| Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    let namespace = of_environment.and_then(named).or_else(|| of_account().and_then(named));
    namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// Runs `work` on a new runtime until SIGTERM or SIGINT.
pub(crate) fn run_until_signal<W>(work: impl FnOnce(CancellationToken) -> W) -> Result<()>
where
    W: Future<Output = Result<()>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async { work(shutdown::on_signals()?).await })
}

/// A registry with the metrics about the process.
pub(crate) fn registry(program: &'static str) -> Registry {
    let mut registry = Registry::default();
    build_info::register(&mut registry, program);
    process_metrics::register(&mut registry);
    registry
}

impl ProcessFlags {
    /// Starts the log.
    pub(crate) fn start_log(&self) -> Result<()> {
        Ok(logging::init(self.logging_format, self.verbosity, LOG_TARGETS)?)
    }

    /// The objects that the process is responsible for.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.namespace.clone(), self.watch_filter.clone())
    }

    /// A client of the management cluster.
    pub(crate) async fn client(&self) -> Result<Client> {
        let config = kube_config::load(self.kubeconfig.as_deref(), None).await?;
        Client::try_from(config).context("failed to build the Kubernetes client")
    }

    /// The election for the Lease of this name; `None` without `--leader-elect`.
    pub(crate) fn election(&self, runtime: &Runtime, lease: &str) -> Result<Option<LeaderElection>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let settings = LeaseSettings {
            duration: self.leader_elect_lease_duration.into(),
            renew_deadline: self.leader_elect_renew_deadline.into(),
            retry_period: self.leader_elect_retry_period.into(),
            ..LeaseSettings::new(own_namespace(), lease)
        };
        Ok(Some(LeaderElection::new(runtime.client.clone(), settings, &runtime.metrics)?))
    }

    /// Serves metrics, and then liveness and readiness. All metrics and readiness gates must be registered before this
    /// call: a process that answers `/readyz` before its first gate is registered is ready too early.
    pub(crate) async fn serve(&self, runtime: &Runtime, registry: Registry, tasks: &mut Tasks) -> Result<()> {
        self.serve_diagnostics(&runtime.client, registry, tasks).await?;
        let listener = listen::bind(&self.health_addr).await.context("--health-addr")?;
        let served = health::serve(listener, runtime.readiness.clone(), tasks.stop());
        tasks.spawn("health server", served);
        Ok(())
    }

    /// Serves metrics unless the address is 0.
    async fn serve_diagnostics(&self, client: &Client, registry: Registry, tasks: &mut Tasks) -> Result<()> {
        if self.diagnostics_address == NO_ADDRESS {
            return Ok(());
        }
        let protection = if self.insecure_diagnostics {
            warn!(address = self.diagnostics_address, "metrics are served to everybody who reaches the address");
            Protection::None
        } else {
            Protection::Secure(client.clone(), Tls::self_signed(self.tls_min_version)?)
        };
        let listener = listen::bind(&self.diagnostics_address).await.context("--diagnostics-address")?;
        let served = diagnostics::serve(listener, Arc::new(registry), protection, tasks.stop());
        tasks.spawn("diagnostics server", served);
        Ok(())
    }
}

/// Runs controllers until `stop`, and only while holding the Lease if there is an election.
pub(crate) async fn lead(
    election: Option<LeaderElection>,
    start: impl FnOnce(&mut Tasks) + Send,
    stop: CancellationToken,
) -> Result<()> {
    let work_stop = stop.clone();
    let work = || async move {
        let mut tasks = Tasks::new(work_stop, CONTROLLER_GRACE);
        start(&mut tasks);
        tasks.run().await.map_err(anyhow::Error::from)
    };
    match election {
        Some(election) => election.lead(&stop, work).await,
        None => work().await,
    }
}
