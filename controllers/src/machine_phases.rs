//! The number of machines in each phase, for dashboards and alerts.

use std::fmt;

use capa_api::machine::{AWSMachine, InstanceState};
use capa_runtime::cache::ObjectCache;
use capa_runtime::tally::Tally;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Phase of the life of a machine, coarser than its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The machine waits, and no instance was launched.
    Waiting,
    /// A launch is under way.
    Launching,
    /// The instance starts.
    Pending,
    /// The instance runs.
    Running,
    /// The instance is stopped or stopping.
    Stopped,
    /// The instance was terminated, but the machine is not being deleted.
    Terminated,
    /// The machine is being deleted.
    Deleting,
}

impl Phase {
    const ALL: [Self; 7] =
        [Self::Waiting, Self::Launching, Self::Pending, Self::Running, Self::Stopped, Self::Terminated, Self::Deleting];

    fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Launching => "launching",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Terminated => "terminated",
            Self::Deleting => "deleting",
        }
    }

    fn of(machine: &AWSMachine) -> Self {
        if machine.metadata.deletion_timestamp.is_some() {
            return Self::Deleting;
        }
        let status = machine.status.as_ref();
        match status.and_then(|status| status.instance_state) {
            Some(InstanceState::Pending) => Self::Pending,
            Some(InstanceState::Running) => Self::Running,
            Some(InstanceState::Stopping | InstanceState::Stopped) => Self::Stopped,
            Some(InstanceState::ShuttingDown | InstanceState::Terminated) => Self::Terminated,
            None if machine.instance_id().is_some() => Self::Pending,
            None => {
                let asked = status.is_some_and(capa_api::machine::AWSMachineStatus::has_open_attempt);
                if asked { Self::Launching } else { Self::Waiting }
            }
        }
    }
}

/// Registers the metric `capa_machines`. The counts follow the watch of the cache. A scrape shows every phase,
/// including phases without a machine.
pub fn count_phases(machines: &ObjectCache<AWSMachine>, registry: &mut Registry) {
    register(machines.tally(phases_of), registry);
}

fn register(machines: Tally<AWSMachine, Phase>, registry: &mut Registry) {
    registry.register_collector(Box::new(PhaseCounts(machines)));
}

fn phases_of(machine: &AWSMachine) -> Vec<Phase> {
    vec![Phase::of(machine)]
}

struct PhaseCounts(Tally<AWSMachine, Phase>);

impl fmt::Debug for PhaseCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PhaseCounts")
    }
}

impl Collector for PhaseCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts();
        let help = "AWSMachines by phase of their life";
        let mut family = encoder.encode_descriptor("capa_machines", help, None, MetricType::Gauge)?;
        for phase in Phase::ALL {
            let counted = counts.iter().find(|(other, _)| *other == phase);
            let gauge = ConstGauge::new(counted.map_or(0, |(_, count)| *count));
            gauge.encode(family.encode_family(&[("phase", phase.label())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use crate::testing::read;

    use super::*;

    const LAUNCH: &str = "attempt: 1, holder: one, clientToken: a-1, subnetID: subnet-1, imageID: ami-1, \
                          instanceType: t3.large, securityGroupIDs: [sg-1], parametersHash: h, \
                          requestedAt: '2026-01-01T00:00:00Z'";

    fn machine(name: &str, metadata: &str, status: &str) -> AWSMachine {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: {name}, namespace: n{metadata}}}, spec: {{instanceType: t3.large}}, status: \
               {{{status}}}}}"
        ))
    }

    #[test]
    fn the_launch_record_and_the_instance_decide_the_phase() {
        let deleted = ", deletionTimestamp: '2026-01-01T00:00:00Z'";
        let open = format!("launch: {{phase: Requested, {LAUNCH}}}");
        let refused = format!("launch: {{phase: Refused, {LAUNCH}}}");
        let answered = format!("launch: {{phase: Answered, {LAUNCH}, instanceID: i-00000001}}");
        for (metadata, status, phase) in [
            ("", "", Phase::Waiting),
            ("", "launch: {phase: Planned, attempt: 0}", Phase::Waiting),
            ("", open.as_str(), Phase::Launching),
            ("", refused.as_str(), Phase::Waiting),
            ("", answered.as_str(), Phase::Pending),
            ("", "instanceState: pending", Phase::Pending),
            ("", "instanceState: running", Phase::Running),
            ("", "instanceState: stopping", Phase::Stopped),
            ("", "instanceState: terminated", Phase::Terminated),
            (deleted, "instanceState: running", Phase::Deleting),
        ] {
            assert_eq!(Phase::of(&machine("m", metadata, status)), phase, "{metadata} {status}");
        }
    }

    #[test]
    fn the_metric_shows_phases_without_a_machine() {
        let machines = Tally::new(phases_of);
        let mut registry = Registry::default();
        register(machines.clone(), &mut registry);
        for name in ["a", "b"] {
            machines.replace(None, Some(&machine(name, "", "instanceState: running")));
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for phase in Phase::ALL {
            let expected = if phase == Phase::Running { 2 } else { 0 };
            let line = format!("capa_machines{{phase=\"{}\"}} {expected}\n", phase.label());
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
