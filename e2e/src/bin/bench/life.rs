//! The life of a cluster's workers: they are created, join, stay, see their AWSCluster change and the
//! manager restart, and are deleted.

use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::{Manager, eventually, eventually_by_polling};
use serde::Serialize;

use crate::field::{Field, QUIET, Storage};
use crate::follow::{Count, Follow};
use crate::meters::{self, Phase, mebibytes, number};
use crate::progress;
use crate::provider::Provider;

/// The measurements of a life.
#[derive(Serialize)]
pub(crate) struct Life {
    pub(crate) provider: Provider,
    pub(crate) workers: usize,
    pub(crate) storage: Storage,
    /// Resident memory of the manager with the cluster and no machine, in bytes.
    pub(crate) resident_before: u64,
    /// Resident memory with all machines ready.
    pub(crate) resident: u64,
    /// Resident memory of the manager that was started again, with all machines gone.
    pub(crate) resident_after: u64,
    /// Peak of the resident memory, deletion included.
    pub(crate) peak: u64,
    /// The time until half of the machines were ready.
    pub(crate) half_seconds: f64,
    /// Until all machines are ready.
    pub(crate) created: Phase,
    /// Until the consequences of the joined nodes are over. Only with data in Secrets Manager.
    pub(crate) joined: Option<Phase>,
    /// A period without changes.
    pub(crate) idle: Option<Phase>,
    /// Until the consequences of a change of the AWSCluster that does not concern machines are over.
    pub(crate) cluster_changed: Phase,
    /// Until a new manager has looked at all machines.
    pub(crate) restarted: Phase,
    /// Until all machines are gone.
    pub(crate) deleted: Phase,
}

impl Life {
    /// The head of the life's column.
    pub(crate) fn column(&self) -> String {
        let storage = match self.storage {
            Storage::Inline => "",
            Storage::SecretsManager => ", secret",
        };
        let provider = if self.provider.is_here() { "" } else { ", CAPA" };
        format!("N={}{storage}{provider}", self.workers)
    }

    /// An amount for each worker.
    pub(crate) fn per_worker(&self, amount: f64) -> f64 {
        amount / number(self.workers)
    }

    /// AWS calls per worker until all are ready.
    pub(crate) fn calls_per_worker(&self) -> f64 {
        self.per_worker(number(self.created.all_calls()))
    }

    /// AWS calls per deleted worker.
    pub(crate) fn calls_per_deleted_worker(&self) -> f64 {
        self.per_worker(number(self.deleted.all_calls()))
    }

    /// Resident memory of the manager with all machines, in MiB.
    pub(crate) fn resident_mebibytes(&self) -> f64 {
        mebibytes(self.resident)
    }

    /// Status writes of an AWSMachine while it is created, joins and is deleted.
    pub(crate) fn status_writes_per_worker(&self) -> f64 {
        let phases = [Some(&self.created), self.joined.as_ref(), Some(&self.deleted)];
        self.per_worker(number(phases.into_iter().flatten().map(Phase::status_writes).sum()))
    }

    /// Status writes of AWSMachines while nothing concerns them: in the idle period, after the change of the
    /// AWSCluster, and after the restart.
    pub(crate) fn needless_status_writes(&self) -> usize {
        let phases = [self.idle.as_ref(), Some(&self.cluster_changed), Some(&self.restarted)];
        phases.into_iter().flatten().map(Phase::status_writes).sum()
    }
}

/// The longest wait for this many workers: the manager launches two a second.
pub(crate) fn deadline(workers: usize) -> Duration {
    Duration::from_mins(5) + Duration::from_secs(workers as u64)
}

/// Measures the life of this many workers; `idle` is the period without changes, if it is to be measured.
pub(crate) async fn measure(
    provider: &Provider,
    workers: usize,
    storage: Storage,
    idle: Option<Duration>,
) -> anyhow::Result<Life> {
    progress(&format!("{workers} workers, {storage:?}, {}: a world starts", provider.name()));
    let field = Field::new(provider, "life").await?;
    let resident_before = field.memory()?.resident;
    let mut follow = Follow::new(&field.aws_machines);

    progress("  the workers are created");
    let start = meters::start(&field)?;
    let began = Instant::now();
    let ready = async {
        let half = |count: Count| count.ready >= workers.div_ceil(2);
        follow.until("half of the workers", deadline(workers), half).await?;
        let half_seconds = began.elapsed().as_secs_f64();
        let all = |count: Count| count.ready == workers;
        follow.until("all workers", deadline(workers), all).await?;
        anyhow::Ok(half_seconds)
    };
    let ((), half_seconds) = tokio::try_join!(field.create(workers, storage), ready)?;
    let created = start.end(&field)?;
    let memory = field.memory()?;
    progress(&format!("  they are ready after {:.1} s", created.seconds));

    let joined = match storage {
        Storage::Inline => None,
        Storage::SecretsManager => Some(join(&field, workers).await?),
    };
    let idle = match idle {
        None => None,
        Some(period) => Some(stay(&field, period).await?),
    };
    let cluster_changed = change_cluster(&field).await?;
    let peak = field.memory()?.peak;
    let restarted = restart(&field, workers).await?;
    let deleted = delete(&field, &mut follow, workers).await?;
    let after = field.memory()?;
    field.end().await?;
    ensure_counted(&created, &deleted, workers)?;
    Ok(Life {
        provider: provider.clone(),
        workers,
        storage,
        resident_before,
        resident: memory.resident,
        resident_after: after.resident,
        peak: peak.max(after.peak),
        half_seconds,
        created,
        joined,
        idle,
        cluster_changed,
        restarted,
        deleted,
    })
}

/// Fails if what must have happened was not counted: less than nothing misses no goal.
fn ensure_counted(created: &Phase, deleted: &Phase, workers: usize) -> anyhow::Result<()> {
    let calls = |phase: &Phase, action| phase.calls.get(action).copied().unwrap_or_default();
    let launches = calls(created, "RunInstances");
    let (writes, terminations) = (created.status_writes(), calls(deleted, "TerminateInstances"));
    ensure!(
        launches >= workers && writes >= workers && terminations > 0,
        "{launches} launches, {writes} status writes and {terminations} terminations are counted of {workers} workers"
    );
    Ok(())
}

/// Marks the nodes as joined, so that the stored data is deleted.
async fn join(field: &Field, workers: usize) -> anyhow::Result<Phase> {
    progress("  the nodes join");
    let start = meters::start(field)?;
    field.join(workers).await?;
    eventually(deadline(workers), "the stored data to be deleted", async || {
        let deleted = start.end(field)?.calls.get("DeleteSecret").copied().unwrap_or_default();
        ensure!(deleted >= workers, "{deleted} calls of DeleteSecret");
        Ok(())
    })
    .await?;
    field.quiet().await?;
    start.end(field)
}

/// Lets a period pass without changes.
async fn stay(field: &Field, period: Duration) -> anyhow::Result<Phase> {
    field.quiet().await?;
    progress(&format!("  nothing changes for {} s", period.as_secs()));
    let start = meters::start(field)?;
    // A plain sleep: the period is what is measured.
    tokio::time::sleep(period).await;
    start.end(field)
}

/// Changes the AWSCluster in a way that does not concern its machines, and waits until no call follows.
async fn change_cluster(field: &Field) -> anyhow::Result<Phase> {
    field.quiet().await?;
    progress("  an annotation of the AWSCluster changes");
    let start = meters::start(field)?;
    let manager = field.manager_here()?;
    let before = match &manager {
        Some(manager) => manager.passes("awscluster").await?,
        None => 0.0,
    };
    field.annotate_cluster().await?;
    if let Some(manager) = manager {
        eventually_by_polling(deadline(0), "a pass over the AWSCluster", async || {
            ensure!(manager.passes("awscluster").await? > before, "there was none");
            Ok(())
        })
        .await?;
    }
    field.quiet().await?;
    start.end(field)
}

/// Starts another manager in the place of the first one, and waits until it has looked at everything and has made no
/// AWS call for some seconds.
pub(crate) async fn restart(field: &Field, workers: usize) -> anyhow::Result<Phase> {
    progress("  another manager starts");
    field.stop_manager().await?;
    let start = meters::start_of_manager(field)?;
    field.start_another_manager().await?;
    let known = match field.manager_here()? {
        Some(manager) => {
            knows_all(&manager, workers).await?;
            Some(start.end(field)?.seconds)
        }
        None => None,
    };
    field.quiet().await?;
    let settled = start.end(field)?;
    // The time until everything is known, and all calls and writes that followed.
    Ok(Phase { seconds: known.unwrap_or(settled.seconds - QUIET.as_secs_f64()), ..settled })
}

/// Waits until this provider's manager knows all instances and has made as many passes as there are machines.
async fn knows_all(manager: &Manager, workers: usize) -> anyhow::Result<()> {
    eventually_by_polling(deadline(workers), "the new manager to know all instances", async || {
        let metrics = manager.metrics().await?;
        let known = metrics.sum("capa_instance_store_instances", &[]).unwrap_or_default();
        let passes = manager.passes("awsmachine").await?;
        ensure!(known >= number(workers) && passes >= number(workers), "{known} instances, {passes} passes");
        Ok(())
    })
    .await
}

async fn delete(field: &Field, follow: &mut Follow, workers: usize) -> anyhow::Result<Phase> {
    progress("  the workers are deleted");
    let start = meters::start(field)?;
    let gone = follow.until("the end of all workers", deadline(workers), |count| count.all == 0);
    tokio::try_join!(field.delete(workers), gone)?;
    start.end(field)
}
