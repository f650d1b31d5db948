//! The life of a cluster's workers: they are created, join, stay, see the manager restart, and are deleted.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::{eventually, eventually_by_polling};
use serde::Serialize;

use crate::field::{Field, Storage};
use crate::follow::{Count, Follow};
use crate::meters::{self, Phase};
use crate::progress;

/// The time without AWS calls after which the consequences of a change are over.
const QUIET: Duration = Duration::from_secs(5);

/// The measurements of a life.
#[derive(Serialize)]
pub(crate) struct Life {
    pub(crate) workers: usize,
    pub(crate) storage: Storage,
    /// Resident memory of the manager with the cluster and no machine, in bytes.
    pub(crate) resident_before: u64,
    /// Resident memory with all machines ready.
    pub(crate) resident: u64,
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
    /// Until a new manager has looked at all machines.
    pub(crate) restarted: Phase,
    /// Until all machines are gone.
    pub(crate) deleted: Phase,
}

/// The longest wait for this many workers: the manager launches two a second.
fn patience(workers: usize) -> Duration {
    Duration::from_mins(5) + Duration::from_secs(workers as u64)
}

/// Measures the life of this many workers; `idle` is the period without changes, if it is to be measured.
pub(crate) async fn measure(
    program: &Path,
    workers: usize,
    storage: Storage,
    idle: Option<Duration>,
) -> anyhow::Result<Life> {
    progress(&format!("{workers} workers, {storage:?}: a world starts"));
    let field = Field::new(program, "life").await?;
    field.quiet(QUIET).await?;
    let resident_before = field.manager()?.memory()?.resident;
    let mut follow = Follow::new(&field.aws_machines);

    progress("  the workers are created");
    let start = meters::start(&field)?;
    let began = Instant::now();
    let ready = async {
        let half = |count: Count| count.ready >= workers.div_ceil(2);
        follow.until("half of the workers", patience(workers), half).await?;
        let half_seconds = began.elapsed().as_secs_f64();
        let all = |count: Count| count.ready == workers;
        follow.until("all workers", patience(workers), all).await?;
        anyhow::Ok(half_seconds)
    };
    let ((), half_seconds) = tokio::try_join!(field.create(workers, storage), ready)?;
    let created = start.end(&field)?;
    let memory = field.manager()?.memory()?;
    progress(&format!("  they are ready after {:.1} s", created.seconds));

    let joined = match storage {
        Storage::Inline => None,
        Storage::SecretsManager => Some(join(&field, workers).await?),
    };
    let idle = match idle {
        None => None,
        Some(period) => Some(stay(&field, period).await?),
    };
    let peak = field.manager()?.memory()?.peak;
    let restarted = restart(&field, workers).await?;
    let deleted = delete(&field, &mut follow, workers).await?;
    let peak = peak.max(field.manager()?.memory()?.peak);
    field.end().await?;
    Ok(Life {
        workers,
        storage,
        resident_before,
        resident: memory.resident,
        peak,
        half_seconds,
        created,
        joined,
        idle,
        restarted,
        deleted,
    })
}

/// Marks the nodes as joined, so that the stored data is deleted.
async fn join(field: &Field, workers: usize) -> anyhow::Result<Phase> {
    progress("  the nodes join");
    let start = meters::start(field)?;
    field.join(workers).await?;
    eventually(patience(workers), "the stored data to be deleted", async || {
        let deleted = start.end(field)?.calls.get("DeleteSecret").copied().unwrap_or_default();
        ensure!(deleted >= workers, "{deleted} calls of DeleteSecret");
        Ok(())
    })
    .await?;
    start.end(field)
}

/// Lets a period pass without changes.
async fn stay(field: &Field, period: Duration) -> anyhow::Result<Phase> {
    field.quiet(QUIET).await?;
    progress(&format!("  nothing changes for {} s", period.as_secs()));
    let start = meters::start(field)?;
    // A plain sleep: the period is what is measured.
    tokio::time::sleep(period).await;
    start.end(field)
}

/// Starts another manager, and waits until it has looked at everything.
async fn restart(field: &Field, workers: usize) -> anyhow::Result<Phase> {
    progress("  another manager starts");
    field.manager()?.stop().await?;
    let start = meters::start_of_manager(field)?;
    let manager = field.start_manager().await?;
    eventually_by_polling(patience(workers), "the new manager to know all instances", async || {
        let metrics = manager.metrics().await?;
        let known = metrics.sum("capa_instance_store_instances", &[]).unwrap_or_default();
        let passes = manager.passes("awsmachine").await?;
        let all = f64::from(u32::try_from(workers)?);
        ensure!(known >= all && passes >= all, "{known} instances, {passes} passes");
        Ok(())
    })
    .await?;
    let phase = start.end(field)?;
    field.quiet(QUIET).await?;
    let settled = start.end(field)?;
    // The time until everything is known, and all calls and writes that followed.
    Ok(Phase {
        seconds: phase.seconds,
        ..settled
    })
}

async fn delete(field: &Field, follow: &mut Follow, workers: usize) -> anyhow::Result<Phase> {
    progress("  the workers are deleted");
    let start = meters::start(field)?;
    let gone = follow.until("the end of all workers", patience(workers), |count| count.all == 0);
    tokio::try_join!(field.delete(workers), gone)?;
    start.end(field)
}
