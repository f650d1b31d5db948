//! `capa-rs manager`: runs the controllers in one process.

mod controller_identity;
mod controllers;
mod definitions;
mod flags;
mod identity_controllers;
mod identity_deletions;
mod identity_secrets;
mod orphans;
mod wiring;

use std::time::Duration;

use anyhow::Result;
use capa_aws::{AccessKey, SessionPool};
use capa_controllers::{machine_phases, object_counts};
use capa_runtime::definitions::ensure_of_this_release;
use capa_runtime::lease::LeaderElection;
use capa_runtime::tasks::Tasks;
use capa_runtime::{Runtime, version};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use flags::Flags;
use wiring::Wiring;

use crate::build_info;
use crate::process::{self, PROCESS_GRACE};

/// How long the definitions of this release may take to be installed after the manager has started.
const INSTALLATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Runs until SIGTERM or SIGINT, or until a task ends unexpectedly.
pub(crate) fn run_blocking(flags: Flags) -> Result<()> {
    flags.process.start_log()?;
    flags.warn_about_ignored();
    process::run_until_signal(|stop| run(flags, None, stop))
}

/// Runs until `stop`, or until a task ends unexpectedly. Needs a rustls provider and a tokio runtime.
///
/// `controller_key` replaces the credentials that the SDK would find in the environment, because a process that runs
/// managers for several accounts has only one environment.
pub(crate) async fn run(flags: Flags, controller_key: Option<AccessKey>, stop: CancellationToken) -> Result<()> {
    let client = flags.process.client().await?;
    let server = version::ensure_supported(&client).await?;
    info!(%server, version = build_info::VERSION, "connected to the management cluster");
    ensure_of_this_release(&client, &definitions::of_this_release()?, INSTALLATION_TIMEOUT).await?;
    let mut registry = process::registry("manager");
    let runtime = Runtime::new(client.clone(), "capa-rs", "capa", &mut registry);
    let election = flags.process.election(&runtime, &flags.leader_elect_resource_name)?;
    let options = capa_aws::Options {
        service_endpoints: flags.service_endpoints.clone(),
        timing: flags.timing(),
        shares: flags.rate_shares(),
        controller_key,
        leads_until: election.as_ref().map(LeaderElection::leads_until),
    };
    let clouds = SessionPool::new(options, &mut registry).await;
    let mut tasks = Tasks::new(stop.clone(), PROCESS_GRACE);
    let caches = controllers::start_caches(&runtime, &mut tasks, &flags.process.scope());
    machine_phases::count_phases(&caches.aws_machines, &mut registry);
    object_counts::count_objects(&caches, &mut registry);
    let orphans = orphans::OrphanCounts::register(&mut registry);
    flags.process.serve(&runtime, registry, &mut tasks).await?;
    let controllers = Wiring { runtime, caches, clouds: clouds.clone(), orphans, flags: flags.clone() };
    let leading = process::lead(election, |tasks| controllers.start(tasks), tasks.stop());
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
