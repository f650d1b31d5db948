//! `capa-rs manager`: the controllers in one process.

mod build_info;
mod controller_identity;
mod controllers;
mod definitions;
mod flags;
mod identity_controllers;
mod identity_deletions;
mod identity_secrets;
mod orphans;
mod wiring;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use capa_aws::{AccessKey, SessionPool};
use capa_controllers::{awsmachine, object_counts};
use capa_runtime::Runtime;
use capa_runtime::definitions::ensure_of_this_release;
use capa_runtime::diagnostics::{Protection, Tls};
use capa_runtime::lease::{LeaderElection, LeaseSettings};
use capa_runtime::logging::LogTargets;
use capa_runtime::scope::Scope;
use capa_runtime::tasks::Tasks;
use capa_runtime::{diagnostics, health, listen, logging, process_metrics, shutdown, version};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use flags::Flags;
use wiring::Wiring;

/// The crates of this provider, and the AWS SDK, which prints whole requests with user data when it traces.
const LOG_TARGETS: LogTargets = LogTargets {
    own: "capa_",
    libraries: &["aws"],
};
/// The address that turns a server off, as in controller-runtime.
const NO_ADDRESS: &str = "0";
/// How long the installation of the definitions of this release may take beside the start of its manager.
const INSTALLATION_PATIENCE: Duration = Duration::from_secs(10);
/// How long controllers may take to finish their reconciles once the process is asked to end.
const CONTROLLER_GRACE: Duration = Duration::from_secs(20);
/// How long the whole process may take to end, its controllers included.
const PROCESS_GRACE: Duration = Duration::from_secs(25);

/// Runs until SIGTERM or SIGINT, or until a task ends unexpectedly.
pub(crate) fn run_blocking(flags: Flags) -> Result<()> {
    logging::init(flags.logging_format, flags.verbosity, LOG_TARGETS)?;
    flags.warn_about_ignored();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = shutdown::on_signals()?;
        run(flags, None, stop).await
    })
}

/// Runs until `stop`, or until a task ends unexpectedly. Needs a rustls provider and a tokio runtime.
///
/// `controller_key` stands in for the credentials that the SDK would find in the environment: a process that runs
/// several managers for several accounts has only one environment.
pub(crate) async fn run(flags: Flags, controller_key: Option<AccessKey>, stop: CancellationToken) -> Result<()> {
    let client = client(&flags).await?;
    let server = version::ensure_supported(&client).await?;
    info!(%server, version = build_info::VERSION, "connected to the management cluster");
    ensure_of_this_release(&client, &definitions::of_this_release()?, INSTALLATION_PATIENCE).await?;
    let mut registry = Registry::default();
    build_info::register(&mut registry);
    process_metrics::register(&mut registry);
    let runtime = Runtime::new(client.clone(), "capa-rs", "capa", &mut registry);
    let election = if flags.leader_elect {
        let settings = lease_settings(&flags);
        Some(LeaderElection::new(client.clone(), settings, &runtime.metrics)?)
    } else {
        None
    };
    let options = capa_aws::Options {
        service_endpoints: flags.service_endpoints.clone(),
        timing: flags.timing(),
        shares: flags.rate_shares(),
        controller_key,
        leads_until: election.as_ref().map(LeaderElection::leads_until),
    };
    let clouds = SessionPool::new(options, &mut registry).await;
    let mut tasks = Tasks::new(stop.clone(), PROCESS_GRACE);
    let health_address = listen::bind(&flags.health_addr).await.context("--health-addr")?;
    tasks.spawn(
        "health server",
        health::serve(health_address, runtime.readiness.clone(), tasks.stop()),
    );
    let scope = Scope::new(flags.namespace.clone(), flags.watch_filter.clone());
    let caches = controllers::start_caches(&runtime, &mut tasks, &scope);
    awsmachine::count_phases(&caches.aws_machines, &mut registry);
    object_counts::count_objects(&caches, &mut registry);
    let orphans = orphans::OrphanCounts::register(&mut registry);
    serve_diagnostics(&flags, &client, registry, &mut tasks).await?;
    let controllers = Wiring {
        runtime,
        caches,
        clouds: clouds.clone(),
        orphans,
        flags: flags.clone(),
    };
    let leading = lead(election, controllers, tasks.stop());
    tasks.spawn("controllers", leading);
    let informers = clouds.clone();
    let stopped = tasks.stop();
    tasks.spawn("instance informers", async move {
        tokio::select! {
            died = informers.informer_died() => Err(died),
            () = stopped.cancelled() => Ok(()),
        }
    });
    let ended = tasks.run().await;
    clouds.shut_down();
    Ok(ended?)
}

/// Serves metrics unless the address is 0. All metrics must be registered before.
async fn serve_diagnostics(flags: &Flags, client: &Client, registry: Registry, tasks: &mut Tasks) -> Result<()> {
    if flags.diagnostics_address == NO_ADDRESS {
        return Ok(());
    }
    let protection = if flags.insecure_diagnostics {
        warn!(
            address = flags.diagnostics_address,
            "metrics are served to everybody who reaches the address"
        );
        Protection::None
    } else {
        Protection::Secure(client.clone(), Tls::self_signed(flags.tls_min_version)?)
    };
    let listener = listen::bind(&flags.diagnostics_address)
        .await
        .context("--diagnostics-address")?;
    let served = diagnostics::serve(listener, Arc::new(registry), protection, tasks.stop());
    tasks.spawn("diagnostics server", served);
    Ok(())
}

/// The controllers, under the Lease where `--leader-elect` asks for it.
async fn lead(election: Option<LeaderElection>, controllers: Wiring, stop: CancellationToken) -> Result<()> {
    let work_stop = stop.clone();
    let work = || async move {
        let mut tasks = Tasks::new(work_stop, CONTROLLER_GRACE);
        controllers.start(&mut tasks);
        tasks.run().await.map_err(anyhow::Error::from)
    };
    match election {
        Some(election) => election.lead(&stop, work).await,
        None => work().await,
    }
}

fn lease_settings(flags: &Flags) -> LeaseSettings {
    LeaseSettings {
        duration: flags.leader_elect_lease_duration.into(),
        renew_deadline: flags.leader_elect_renew_deadline.into(),
        retry_period: flags.leader_elect_retry_period.into(),
        ..LeaseSettings::new(flags::own_namespace(), flags.leader_elect_resource_name.clone())
    }
}

async fn client(flags: &Flags) -> Result<Client> {
    let config = match &flags.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer()
            .await
            .context("neither --kubeconfig nor a service account of a pod is there")?,
    };
    Client::try_from(config).context("failed to build the Kubernetes client")
}
