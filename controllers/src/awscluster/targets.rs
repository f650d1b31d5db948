//! Checks the targets of the control plane that the spec names. Pure.

use std::collections::BTreeSet;

use capa_api::cluster::AWSClusterSpec;
use capa_api::conditions::Reason;
use capa_cloud::elb::{TargetGroup, TargetType};
use capa_cloud::targets::Group;

use super::facts::TargetLookup;
use super::network_problems::{Blocked, NetworkProblems};
use crate::target_forms;

const PATH: &str = "spec.controlPlaneTargets";

/// The targets in the spec to look up, without duplicates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamedTargets {
    /// ARNs of target groups.
    pub(super) target_groups: Vec<String>,
    /// Names of classic load balancers.
    pub(super) classic: Vec<String>,
}

/// The targets in the spec to look up. A text that cannot be the ARN of a target group in the region and account is not
/// looked up; [`check`] names it.
pub(super) fn to_look_up(spec: &AWSClusterSpec, account_id: &str) -> NamedTargets {
    let mut named = NamedTargets::default();
    for group in groups(spec) {
        match group {
            Group::TargetGroup(arn) => {
                if problem(spec, &Group::TargetGroup(arn.clone()), account_id).is_none() {
                    named.target_groups.push(arn);
                }
            }
            Group::Classic(name) => named.classic.push(name),
        }
    }
    named
}

fn groups(spec: &AWSClusterSpec) -> BTreeSet<Group> {
    spec.control_plane_targets.iter().filter_map(Group::of).collect()
}

fn problem(spec: &AWSClusterSpec, group: &Group, account_id: &str) -> Option<String> {
    target_forms::problem(group, spec.region().unwrap_or_default(), account_id)
}

/// Adds the problems of the targets, according to their names and to the answers of AWS. A control plane machine is
/// useless while a target does not exist, cannot contain instances, or is unknown.
pub(super) fn check(
    spec: &AWSClusterSpec,
    lookups: &[TargetLookup],
    account_id: &str,
    place: &str,
    problems: &mut NetworkProblems,
) {
    for group in groups(spec) {
        if let Some(problem) = problem(spec, &group, account_id) {
            problems.add_blocking(Blocked::ControlPlane, Reason::InvalidSpec, format!("{PATH}: {problem}"));
        }
    }
    for TargetLookup { named, found } in lookups {
        let names = named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match found {
            Err(error) => {
                let message = format!("{names} could not be looked up, and the provider retries the lookup: {error}");
                problems.add_blocking(Blocked::ControlPlane, error.class.reason(), message);
            }
            Ok(None) => {
                let missing = match named.len() {
                    1 => format!("{names} does not exist"),
                    _ => format!("at least one of {names} does not exist"),
                };
                let message = format!("{missing} in {place}: create it or correct {PATH}");
                problems.add_blocking(Blocked::ControlPlane, Reason::NotFound, message);
            }
            Ok(Some(groups)) => {
                for TargetGroup { arn, target_type, .. } in groups {
                    if let TargetType::Other(target_type) = target_type {
                        let group = Group::TargetGroup(arn.clone());
                        let message = format!(
                            "{group} has targets of type {target_type}, which instances cannot be: name one of type instance \
                             or ip in {PATH}"
                        );
                        problems.add_blocking(Blocked::ControlPlane, Reason::InvalidSpec, message);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::CloudError;

    use super::*;
    use crate::testing::{read, refused};

    const ACCOUNT: &str = "111122223333";

    fn arn(name: &str) -> String {
        format!("arn:aws:elasticloadbalancing:eu-west-1:{ACCOUNT}:targetgroup/{name}/1")
    }

    fn spec(targets: &str) -> AWSClusterSpec {
        read(&format!("{{region: eu-west-1, controlPlaneTargets: [{targets}]}}"))
    }

    type Found = Result<Option<Vec<TargetGroup>>, CloudError>;

    /// The text of the problems; none of them concerns workers.
    fn checked(spec: &AWSClusterSpec, named: &[Group], found: Found) -> String {
        let mut problems = NetworkProblems::default();
        let lookup = TargetLookup { named: named.to_vec(), found };
        check(spec, &[lookup], ACCOUNT, "eu-west-1 of account 1", &mut problems);
        let said = problems.condition();
        let said = said.map(|condition| format!("{}: {}", condition.reason, condition.message));
        let blocked = said.as_ref().map(|_| Blocked::ControlPlane);
        assert_eq!(problems.blocked(), blocked, "{said:?}");
        said.unwrap_or_default()
    }

    #[test]
    fn targets_of_one_kind_are_looked_up_together() {
        let (a, b) = (arn("a"), arn("b"));
        let named = format!(
            "{{targetGroupARN: '{b}'}}, {{targetGroupARN: '{a}', port: 1}}, {{targetGroupARN: '{a}', port: 2}}, \
             {{classicLoadBalancerName: old}}, {{targetGroupARN: 'arn:*'}}"
        );
        let expected = NamedTargets { target_groups: vec![a, b], classic: vec!["old".to_owned()] };
        assert_eq!(to_look_up(&spec(&named), ACCOUNT), expected);
        assert_eq!(to_look_up(&spec(""), ACCOUNT), NamedTargets::default());
    }

    #[test]
    fn a_target_that_cannot_serve_is_named() {
        let (a, b) = (Group::TargetGroup(arn("a")), Group::TargetGroup(arn("b")));
        let of_a = spec(&format!("{{targetGroupARN: '{}'}}", a.id()));
        let of_type = |target_type: &str| {
            let timing = "{intervalSeconds: 30, timeoutSeconds: 10, thresholdCount: 5, unhealthyThresholdCount: 2}";
            let check = format!("{{protocol: TCP, port: traffic-port, path: null, timing: {timing}}}");
            let group = format!(
                "{{arn: '{}', name: a, vpcId: vpc-1, protocol: TCP, port: 6443, targetType: {target_type}, \
                 healthCheck: {check}, loadBalancerArns: [], attributes: null, tags: {{}}}}",
                arn("a")
            );
            Ok(Some(vec![read(&group)]))
        };
        let (lambda, fine) = (of_type("lambda"), of_type("instance"));
        let slow = Err(refused("DescribeTargetGroups", "Throttling"));
        let both = [a.clone(), b];
        let one = std::slice::from_ref(&a);
        let table: [(&[Group], Found, &str); 5] = [
            (one, fine, ""),
            (one, Ok(None), "NotFound: target group a/1 does not exist in eu-west-1 of account 1: create it"),
            (&both, Ok(None), "NotFound: at least one of target group a/1, target group b/1 does not exist"),
            (one, lambda, "InvalidSpec: target group a/1 has targets of type lambda"),
            (one, slow, "Throttled: target group a/1 could not be looked up"),
        ];
        for (named, found, says) in table {
            let said = checked(&of_a, named, found);
            assert!(said.starts_with(says) && said.is_empty() == says.is_empty(), "{said}");
        }
        let elsewhere = spec(&format!("{{targetGroupARN: '{}'}}", arn("a").replace("west", "east")));
        let said = checked(&elsewhere, &[], Ok(Some(vec![])));
        assert!(said.contains("spec.controlPlaneTargets: target group a/1 lies in another region"), "{said}");
    }
}
