//! The target groups behind the load balancers that `controlPlaneTargets` names.

use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::conditions::Reason;
use capa_cloud::{ApiLoadBalancer, CloudError, MachineCloud};
use capa_network::Problem;

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
        match target_groups(
            name,
            target.port.unwrap_or(ControlPlaneTarget::API_PORT),
            found,
            region,
            account_id,
        ) {
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

/// The targets behind a listener of a load balancer, by the answer of AWS. Pure.
fn target_groups(
    name: &str,
    port: i32,
    found: Result<Option<ApiLoadBalancer>, CloudError>,
    region: &str,
    account_id: &str,
) -> Result<Vec<ControlPlaneTarget>, Problem> {
    let found = found.map_err(|error| {
        let message =
            format!("load balancer {name} could not be looked up, and the provider retries the lookup: {error}");
        Problem::new(error.class.reason(), message)
    })?;
    let Some(found) = found else {
        let message = format!(
            "load balancer {name} does not exist in {region} of account {account_id}: create it, or correct its name in \
             the cluster's infrastructure object"
        );
        return Err(Problem::new(Reason::NotFound, message));
    };
    let groups = found.target_groups(port);
    if groups.is_empty() {
        let message = format!(
            "load balancer {name} has no listener on port {port} that forwards to a target group: give it one, or name \
             target groups in controlPlaneTargets of the cluster's infrastructure object"
        );
        return Err(Problem::new(Reason::NotFound, message));
    }
    Ok(groups.iter().map(|arn| ControlPlaneTarget::target_group(arn)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::refused;

    fn found(listeners: &[(i32, &str)]) -> ApiLoadBalancer {
        let listeners = listeners.iter().map(|(port, arn)| (*port, vec![(*arn).to_owned()]));
        ApiLoadBalancer {
            kind: "network".into(),
            listeners: listeners.collect(),
        }
    }

    #[test]
    fn a_load_balancer_stands_for_the_groups_of_its_listener() {
        let said = |port, answer| {
            let groups = target_groups("api", port, answer, "eu-west-1", "1");
            groups.map_or_else(
                |problem| format!("{}: {}", problem.reason, problem.message),
                |groups| {
                    let arns = groups.into_iter().filter_map(|target| target.target_group_arn);
                    arns.collect::<Vec<_>>().join(" ")
                },
            )
        };
        let throttled = Err(refused("DescribeLoadBalancers", "Throttling"));
        let table = [
            (6443, Ok(Some(found(&[(6443, "a"), (22623, "b")]))), "a"),
            (443, Ok(Some(found(&[(6443, "a")]))), "a"),
            (
                443,
                Ok(Some(found(&[(6443, "a"), (22623, "b")]))),
                "NotFound: load balancer api has no listener on port 443",
            ),
            (
                6443,
                Ok(None),
                "NotFound: load balancer api does not exist in eu-west-1 of account 1",
            ),
            (6443, throttled, "Throttled: load balancer api could not be looked up"),
        ];
        for (port, answer, expected) in table {
            let said = said(port, answer);
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
