//! `capa-rs fleet`: publishes Clusters to fleet engines, in a process of its own without AWS credentials.

use std::time::Duration;

use anyhow::Result;
use capa_api::conditions::Reason;
use capa_api::contract::Cluster;
use capa_fleet::names::CLUSTER_MANAGER;
use capa_fleet::reconciler::{ClusterReconciler, KarmadaSettings, Publishing, published_status};
use capa_runtime::cache::ObjectCache;
use capa_runtime::controller::{Controller, ControllerSettings};
use capa_runtime::tasks::Tasks;
use capa_runtime::{Runtime, version};
use clap::Args;
use kube::runtime::reflector::ObjectRef;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::build_info;
use crate::duration_flag::{GoDuration, period};
use crate::process::{self, PROCESS_GRACE, ProcessFlags};

/// Flags of `capa-rs fleet`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    process: ProcessFlags,

    /// Name of the Lease.
    #[arg(long, value_name = "NAME", default_value = "controller-leader-elect-capa-rs-fleet")]
    leader_elect_resource_name: String,

    /// Name of the cluster manager in ClusterProfiles. ClusterProfiles of other cluster managers are left alone.
    #[arg(long, value_name = "NAME", default_value = CLUSTER_MANAGER)]
    cluster_manager_name: String,

    /// Prefix of the labels that are copied from Clusters to ClusterProfiles; may be given several times.
    #[arg(long, value_name = "PREFIX")]
    propagate_label_prefix: Vec<String>,

    /// Time between two checks of the API server of a cluster; at least 1s.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = period)]
    sync_period: GoDuration,

    /// Lifetime of the tokens with which Karmada accesses its members; at least 10m. A token is renewed after four
    /// fifths of its lifetime. Karmada before v1.19 has to be restarted between the renewal of a token and the expiry
    /// of the previous one. The API server of a member may grant a shorter lifetime.
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = token_lifetime)]
    karmada_token_lifetime: GoDuration,

    /// Number of Clusters that are reconciled concurrently, at most half of them of one namespace.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    cluster_concurrency: u16,
}

/// A lifetime of tokens. Kubernetes grants no lifetime shorter than ten minutes.
fn token_lifetime(text: &str) -> Result<GoDuration, String> {
    let lifetime: GoDuration = text.parse()?;
    if Duration::from(lifetime) < Duration::from_mins(10) {
        return Err("a token is valid for at least 10m".to_owned());
    }
    Ok(lifetime)
}

/// Runs until SIGTERM or SIGINT, or until a task ends unexpectedly.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    flags.process.start_log()?;
    process::run_until_signal(|stop| serve(flags, stop))
}

async fn serve(flags: &Flags, stop: CancellationToken) -> Result<()> {
    let client = flags.process.client().await?;
    let server = version::ensure_supported(&client).await?;
    info!(%server, version = build_info::VERSION, "connected to the management cluster");
    let mut registry = process::registry("fleet");
    let runtime = Runtime::new(client.clone(), "capa-rs-fleet", "capa", &mut registry);
    let election = flags.process.election(&runtime, &flags.leader_elect_resource_name)?;
    let mut tasks = Tasks::new(stop, PROCESS_GRACE);
    let scope = flags.process.scope();
    let clusters = ObjectCache::start(&runtime, &mut tasks, scope.api(&client), scope.reconciled());
    flags.process.serve(&runtime, registry, &mut tasks).await?;
    let controller = controller(flags, &runtime, &clusters);
    let start = move |tasks: &mut Tasks| {
        let malformed = runtime.malformed.clone();
        let published = malformed.publish_events(runtime.events, Reason::InvalidSpec.as_str(), tasks.stop());
        tasks.spawn("events about malformed objects", published);
        tasks.spawn("controller of Cluster", controller.run(tasks.stop()));
    };
    let leading = process::lead(election, start, tasks.stop());
    tasks.spawn("controllers", leading);
    Ok(tasks.run().await?)
}

fn controller(flags: &Flags, runtime: &Runtime, clusters: &ObjectCache<Cluster>) -> Controller<ClusterReconciler> {
    let publishing = Publishing {
        cluster_manager: flags.cluster_manager_name.clone(),
        label_prefixes: flags.propagate_label_prefix.clone(),
    };
    let karmada =
        KarmadaSettings { namespace: process::own_namespace(), token_lifetime: flags.karmada_token_lifetime.into() };
    let reconciler = ClusterReconciler::new(runtime.clone(), publishing, karmada, flags.sync_period.into());
    let settings = ControllerSettings { concurrency: flags.cluster_concurrency, ..ControllerSettings::default() };
    // A controller ignores status changes of the objects that it reconciles, so the published status needs a watch.
    Controller::new(runtime, clusters, reconciler, settings)
        .watches(clusters, published_status, |cluster| [ObjectRef::from_obj(cluster)])
}
