//! The target groups behind the load balancers that `controlPlaneTargets` names. Pure.

use capa_api::common::ControlPlaneTarget;
use capa_api::conditions::Reason;
use capa_cloud::{ApiLoadBalancer, CloudError};
use capa_network::Problem;

/// The targets in place of one that names a load balancer, by the answer of AWS.
///
/// # Errors
/// The problem, as `NetworkReady` tells it, while the target groups are not known.
pub(crate) fn target_groups(
    target: &ControlPlaneTarget,
    name: &str,
    found: Result<&Option<ApiLoadBalancer>, &CloudError>,
    region: &str,
    account_id: &str,
) -> Result<Vec<ControlPlaneTarget>, Problem> {
    let found = found.map_err(|error| {
        let message =
            format!("load balancer {name} could not be looked up, and the provider retries the lookup: {error}");
        Problem::new(error.class.reason(), message)
    })?;
    let port = target.port.unwrap_or(ControlPlaneTarget::API_PORT);
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
            let target = ControlPlaneTarget {
                load_balancer_name: Some("api".into()),
                port: Some(port),
                ..ControlPlaneTarget::default()
            };
            let answer: &Result<_, _> = &answer;
            let groups = target_groups(&target, "api", answer.as_ref(), "eu-west-1", "1");
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
