//! The target groups behind the load balancers that `controlPlaneTargets` names. Pure.

use std::collections::BTreeMap;

use capa_api::common::ControlPlaneTarget;
use capa_api::conditions::Reason;
use capa_cloud::CloudError;
use capa_cloud::elb::Listener;
use capa_network::Problem;

/// The answers of AWS about the listeners of load balancers, by name. A load balancer that does not exist is `None`.
pub(crate) type Answers = BTreeMap<String, Result<Option<Vec<Listener>>, CloudError>>;

/// The targets, each once, with the target groups behind each load balancer in place of its name, and the problem of
/// each load balancer whose target groups are not known. The name of such a load balancer stays among the targets.
pub(crate) fn resolve_names(
    targets: Vec<ControlPlaneTarget>,
    answers: &Answers,
    region: &str,
    account_id: &str,
) -> (Vec<ControlPlaneTarget>, Vec<Problem>) {
    let (mut resolved, mut problems) = (Vec::new(), Vec::new());
    for target in targets {
        let name = target.load_balancer_name.as_deref();
        let answer = name.and_then(|name| Some((name, answers.get(name)?)));
        let groups = answer.map(|(name, answer)| target_groups(name, target.port, answer, region, account_id));
        let replacement = match groups {
            Some(Ok(groups)) => groups,
            Some(Err(problem)) => {
                problems.push(problem);
                vec![target]
            }
            None => vec![target],
        };
        for target in replacement {
            if !resolved.contains(&target) {
                resolved.push(target);
            }
        }
    }
    (resolved, problems)
}

/// Keeps as many targets as a machine can have, because the API server would refuse a whole status with more of them.
/// Returns a problem if some were left out. `place` is where the user names targets.
pub(crate) fn keep_allowed_count(targets: &mut Vec<ControlPlaneTarget>, place: &str) -> Option<Problem> {
    let (count, most) = (targets.len(), ControlPlaneTarget::MAX_COUNT);
    if count <= most {
        return None;
    }
    targets.truncate(most);
    let message = format!(
        "the load balancers of the control plane forward to {count} target groups, of which a machine can have {most}: \
         name those of the API in {place}"
    );
    Some(Problem::new(Reason::InvalidSpec, message))
}

/// The targets in place of the name of a load balancer.
fn target_groups(
    name: &str,
    port: Option<i32>,
    answer: &Result<Option<Vec<Listener>>, CloudError>,
    region: &str,
    account_id: &str,
) -> Result<Vec<ControlPlaneTarget>, Problem> {
    let listeners = answer.as_ref().map_err(|error| {
        let message =
            format!("load balancer {name} could not be looked up, and the provider retries the lookup: {error}");
        Problem::new(error.class.reason(), message)
    })?;
    let port = port.unwrap_or(ControlPlaneTarget::API_PORT);
    let Some(listeners) = listeners else {
        let message = format!(
            "load balancer {name} does not exist in {region} of account {account_id}: create it, or correct its name in \
             the cluster's infrastructure object"
        );
        return Err(Problem::new(Reason::NotFound, message));
    };
    target_groups_on(
        port,
        listeners,
        name,
        "target groups in controlPlaneTargets of the cluster's infrastructure object",
    )
}

/// The target groups to which a load balancer forwards a port. `or` says what the user can name in place of a listener.
pub(crate) fn target_groups_on(
    port: i32,
    listeners: &[Listener],
    name: &str,
    or: &str,
) -> Result<Vec<ControlPlaneTarget>, Problem> {
    let groups = Listener::target_groups_on(port, listeners);
    if groups.is_empty() {
        let message = format!(
            "load balancer {name} has no listener on port {port} that forwards to a target group: give it one, or name \
             {or}"
        );
        return Err(Problem::new(Reason::NotFound, message));
    }
    Ok(groups.iter().map(|arn| ControlPlaneTarget::target_group(arn)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read, refused};

    fn found(listeners: &[(i32, &str)]) -> Vec<Listener> {
        let listener = |(port, arn): &(i32, &str)| Listener {
            port: *port,
            target_group_arns: vec![(*arn).to_owned()],
            ..Listener::default()
        };
        listeners.iter().map(listener).collect()
    }

    #[test]
    fn a_load_balancer_stands_for_the_groups_of_its_listener() {
        let said = |port, answer| {
            let groups = target_groups("api", Some(port), &answer, "eu-west-1", "1");
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
            (6443, Ok(None), "NotFound: load balancer api does not exist in eu-west-1 of account 1"),
            (6443, throttled, "Throttled: load balancer api could not be looked up"),
        ];
        for (port, answer, expected) in table {
            let said = said(port, answer);
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn more_targets_than_a_machine_can_have_are_left_out_and_counted() {
        let mut targets = vec![ControlPlaneTarget::target_group("arn:a"); ControlPlaneTarget::MAX_COUNT];
        assert!(keep_allowed_count(&mut targets, "spec").is_none());
        targets.push(ControlPlaneTarget::target_group("arn:b"));
        let problem = keep_allowed_count(&mut targets, "spec").unwrap();
        assert_eq!(targets.len(), ControlPlaneTarget::MAX_COUNT);
        assert_eq!(problem.reason, Reason::InvalidSpec);
        let message = problem.message;
        assert!(message.contains("forward to 9 target groups"), "{message}");
    }

    #[test]
    fn a_name_whose_target_groups_are_unknown_stays_with_a_problem() {
        let answers =
            [("api".to_owned(), Ok(Some(found(&[(6443, "arn:a"), (443, "arn:c")])))), ("gone".to_owned(), Ok(None))];
        let targets = "[{targetGroupARN: 'arn:a'}, {loadBalancerName: api}, {loadBalancerName: api, port: 443}, \
                       {loadBalancerName: gone}, {loadBalancerName: unasked}]";
        let (resolved, problems) = resolve_names(read(targets), &answers.into(), "eu-west-1", "1");
        let expected = "[{targetGroupARN: 'arn:a'}, {targetGroupARN: 'arn:c'}, {loadBalancerName: gone}, \
                        {loadBalancerName: unasked}]";
        assert_eq!(resolved, read::<Vec<ControlPlaneTarget>>(expected));
        let reasons: Vec<_> = problems.iter().map(|problem| problem.reason).collect();
        assert_eq!(reasons, [Reason::NotFound]);
    }
}
