//! Machines whose instances run already when the manager first sees them, as after `clusterctl move`, a restore, or the
//! takeover of a cluster. The rate at which AWS launches does not limit their number.

use anyhow::ensure;
use capa_e2e::Memory;
use serde::Serialize;

use crate::field::Field;
use crate::follow::Follow;
use crate::life::{deadline, restart};
use crate::meters::{self, Phase, number};
use crate::progress;
use crate::provider::Provider;

/// The measurements of machines with instances.
#[derive(Serialize)]
pub(crate) struct Existing {
    pub(crate) machines: usize,
    /// From the start of the manager until all machines are ready.
    pub(crate) adopted: Phase,
    /// The memory of the manager with all machines ready.
    pub(crate) memory: Memory,
    /// Until another manager has looked at all machines.
    pub(crate) restarted: Phase,
    /// The memory of the other manager.
    pub(crate) memory_after: Memory,
}

impl Existing {
    /// AWS calls per machine until all are ready.
    pub(crate) fn calls_per_machine(&self) -> f64 {
        number(self.adopted.all_calls()) / number(self.machines)
    }

    /// Status writes of an AWSMachine until it is ready.
    pub(crate) fn status_writes_per_machine(&self) -> f64 {
        number(self.adopted.status_writes()) / number(self.machines)
    }
}

/// Measures this provider with this many machines.
pub(crate) async fn measure(provider: &Provider, machines: usize) -> anyhow::Result<Existing> {
    progress(&format!("{machines} machines with instances: a world starts"));
    let field = Field::new(provider, "existing").await?;
    field.stop_manager().await?;
    progress("  the instances are launched, and the objects created");
    field.create_with_instances(machines).await?;
    let mut follow = Follow::new(&field.aws_machines);

    progress("  the manager starts");
    let start = meters::start_of_manager(&field)?;
    field.start_another_manager().await?;
    follow.until("all machines", deadline(machines), |count| count.ready == machines).await?;
    let adopted = start.end(&field)?;
    progress(&format!("  they are ready after {:.1} s", adopted.seconds));
    let memory = field.memory()?;
    field.quiet().await?;

    let restarted = restart(&field, machines).await?;
    let memory_after = field.memory()?;
    field.end().await?;
    let (writes, calls) = (adopted.status_writes(), [adopted.all_calls(), restarted.all_calls()]);
    ensure!(writes >= machines && !calls.contains(&0), "{writes} status writes and {calls:?} calls are counted");
    Ok(Existing { machines, adopted, memory, restarted, memory_after })
}
