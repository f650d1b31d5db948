//! The target groups behind the load balancers that `controlPlaneTargets` names.

use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::conditions::Reason;
use capa_cloud::MachineCloud;
use capa_network::Problem;

use crate::named_load_balancers::target_groups;

/// The targets of a machine, with the target groups behind each load balancer in place of its name, and the problem of
/// the first load balancer whose target groups are not known. Workers need no targets, so that for workers nothing is
/// looked up.
pub(super) async fn resolve(
    targets: Vec<ControlPlaneTarget>,
    role: MachineRole,
    cloud: &dyn MachineCloud,
    region: &str,
    account_id: &str,
) -> (Vec<ControlPlaneTarget>, Option<Problem>) {
    if role != MachineRole::ControlPlane {
        return (targets, None);
    }
    let (mut resolved, mut problem) = (Vec::new(), None);
    for target in targets {
        let Some(name) = &target.load_balancer_name else {
            resolved.push(target);
            continue;
        };
        let found = cloud.load_balancer(name).await;
        match target_groups(&target, name, found.as_ref(), region, account_id) {
            Err(unknown) => problem = problem.or(Some(unknown)),
            Ok(groups) => {
                for group in groups {
                    if !resolved.contains(&group) {
                        resolved.push(group);
                    }
                }
            }
        }
    }
    if resolved.len() > ControlPlaneTarget::MOST {
        let message = format!(
            "the load balancers of the control plane forward to {} target groups, of which a machine can have {}: \
             name those of the API in controlPlaneTargets",
            resolved.len(),
            ControlPlaneTarget::MOST
        );
        resolved.truncate(ControlPlaneTarget::MOST);
        problem = problem.or_else(|| Some(Problem::new(Reason::InvalidSpec, message)));
    }
    (resolved, problem)
}
