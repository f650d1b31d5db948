//! Compares the network of a machine's launch with the current network of its sources.

use capa_api::conditions::{ConditionType, Reason};
use capa_network::drift;

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::read;
use crate::awsmachine::scope::MachineScope;
use crate::awsmachine::spec;

/// Sets `NetworkUpToDate`. If a source cannot be read, the condition does not change, and the pass continues.
pub(super) async fn report_drift(scope: &mut MachineScope, context: &MachineContext) {
    let (Some(cluster), Some(mut in_use)) = (&scope.owners.cluster, scope.status.network.clone()) else {
        return;
    };
    let Ok(mut merged) = read::network(scope, cluster, context).await else {
        return;
    };
    if merged.problem.is_some() {
        return;
    }
    if spec::names_subnet(&scope.machine.spec) {
        // The machine's own subnet was used at launch, and its spec cannot change.
        merged.network.subnets.clear();
    }
    if !scope.machine.spec.network_interfaces.is_empty() {
        // So were its own network interfaces, which have subnet and groups.
        merged.network.subnets.clear();
        merged.network.security_groups = None;
        in_use.security_group_ids.clear();
    }
    let role = scope.owners.role(&scope.machine);
    let additional_groups = &scope.machine.spec.additional_security_groups;
    let update = match drift(&merged.network, additional_groups, &in_use, role) {
        None => ConditionType::NetworkUpToDate.is_true(Reason::Ready),
        Some(difference) => {
            let message =
                format!("{difference}: a running machine keeps its network; replace the Machine to change it");
            ConditionType::NetworkUpToDate.is_false(Reason::Drifted, message)
        }
    };
    scope.set_condition(update);
}
