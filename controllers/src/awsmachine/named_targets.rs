//! The target groups behind the load balancers that `controlPlaneTargets` names.

use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::conditions::Reason;
use capa_cloud::MachineCloud;
use capa_network::Problem;

use crate::named_load_balancers::{Answers, resolve_names};

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
    let mut answers = Answers::new();
    for name in targets.iter().filter_map(|target| target.load_balancer_name.as_deref()) {
        answers.insert(name.to_owned(), cloud.load_balancer(name).await);
    }
    let (mut resolved, problems) = resolve_names(targets, &answers, region, account_id);
    resolved.retain(|target| target.load_balancer_name.is_none());
    let mut problem = problems.into_iter().next();
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
