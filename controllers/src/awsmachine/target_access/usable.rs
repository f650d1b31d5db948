//! The targets in which a machine's instance can be registered, according to their names. Pure.

use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_cloud::targets::Group;

use crate::target_forms;

/// A target of a machine, with the group that it names.
pub(in crate::awsmachine) type NamedTarget = (Group, ControlPlaneTarget);

/// The targets that the machine can be registered in, and the problems of the others. Workers have none.
pub(super) fn usable_targets(
    targets: &[ControlPlaneTarget],
    role: MachineRole,
    region: &str,
    account_id: &str,
) -> (Vec<NamedTarget>, Vec<String>) {
    let (mut usable, mut problems) = (Vec::new(), Vec::new());
    if role != MachineRole::ControlPlane {
        return (usable, problems);
    }
    for target in targets {
        let Some(group) = Group::of(target) else { continue };
        match target_forms::problem(&group, region, account_id) {
            Some(problem) => problems.push(problem),
            None => usable.push((group, target.clone())),
        }
    }
    (usable, problems)
}
