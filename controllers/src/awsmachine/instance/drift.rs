//! Compares the network of a machine's launch with the current network of its sources.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::network::MachineNetwork;
use capa_network::drift;

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::read;
use crate::awsmachine::scope::MachineScope;
use crate::awsmachine::spec;

/// The network of the machine's sources. `None` if a source cannot be read, or if the sources contradict each other.
pub(super) async fn present_network(scope: &MachineScope, context: &MachineContext) -> Option<MachineNetwork> {
    let cluster = scope.owners.cluster.as_deref()?;
    let merged = read::network(scope, cluster, context).await.ok()?;
    let is_whole = merged.problem.is_none() && merged.unlabelled.is_none();
    is_whole.then_some(merged.network)
}

/// Sets `NetworkUpToDate`. Without a present network, the condition does not change.
pub(super) fn report_drift(scope: &mut MachineScope, present: Option<MachineNetwork>) {
    let (Some(mut network), Some(mut in_use)) = (present, scope.status.network.clone()) else {
        return;
    };
    if spec::names_subnet(&scope.machine.spec) {
        // The machine's own subnet was used at launch, and its spec cannot change.
        network.subnets.clear();
    }
    if !scope.machine.spec.network_interfaces.is_empty() {
        // So were its own network interfaces, which have subnet and groups.
        network.subnets.clear();
        network.security_groups = None;
        in_use.security_group_ids.clear();
    }
    match &scope.status.applied_security_groups {
        // Changes of these reach the instance, and are no drift.
        Some(applied) => in_use.security_group_ids.retain(|id| !applied.ids.contains(id)),
        None => in_use.security_group_ids.clear(),
    }
    let role = scope.owners.role(&scope.machine);
    let update = match drift(&network, &in_use, role) {
        None => ConditionType::NetworkUpToDate.is_true(Reason::Ready),
        Some(difference) => {
            let message =
                format!("{difference}: a running machine keeps its network; replace the Machine to change it");
            ConditionType::NetworkUpToDate.is_false(Reason::Drifted, message)
        }
    };
    scope.set_condition(update);
}
