//! The forms of targets that the schema of a machine refuses, and of target group ARNs that cannot be a target of
//! instances in a region and account. Pure.

use capa_api::common::ControlPlaneTarget;
use capa_cloud::targets::Group;

/// The problem of a group whose ARN shows that it cannot contain an instance of this region and account. A classic load
/// balancer has no ARN here.
pub(crate) fn problem(group: &Group, region: &str, account_id: &str) -> Option<String> {
    let Group::TargetGroup(arn) = group else {
        return None;
    };
    let parts: Vec<&str> = arn.split(':').collect();
    let ["arn", _, "elasticloadbalancing", group_region, group_account, resource] = *parts else {
        return Some(no_target_group(arn));
    };
    if !is_target_group(resource) {
        return Some(no_target_group(arn));
    }
    if group_region != region {
        return Some(format!("{group} lies in another region, {group_region}: name one of {region}"));
    }
    (group_account != account_id)
        .then(|| format!("{group} belongs to another account, {group_account}: name one of {account_id}"))
}

/// Why the schema of a machine refuses a target. A source with another schema can supply such a target.
pub(crate) fn refused(target: &ControlPlaneTarget) -> Option<&'static str> {
    let names =
        [(&target.target_group_arn, 256), (&target.load_balancer_name, 32), (&target.classic_load_balancer_name, 32)];
    let mut set = names.iter().filter_map(|(name, limit)| Some((name.as_ref()?, *limit)));
    let (Some((name, limit)), None) = (set.next(), set.next()) else {
        return Some("does not have exactly one of targetGroupARN, loadBalancerName and classicLoadBalancerName");
    };
    if name.is_empty() || name.chars().count() > limit {
        return Some("has a name that no load balancer or target group has");
    }
    match target.port {
        Some(_) if target.classic_load_balancer_name.is_some() => Some("has a port and a classicLoadBalancerName"),
        Some(port) if !(1..=65_535).contains(&port) => Some("has a port that is not between 1 and 65535"),
        _ => None,
    }
}

fn no_target_group(arn: &str) -> String {
    format!("{arn} is no ARN of a target group: correct controlPlaneTargets")
}

/// Whether the text has the form `targetgroup/<name>/<id>`. Each group has exactly one text, because the users of a
/// group are compared by its ARN.
fn is_target_group(resource: &str) -> bool {
    let parts: Vec<&str> = resource.split('/').collect();
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-');
    matches!(*parts, ["targetgroup", name, id] if is_name(name) && is_name(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(group: &Group) -> Option<String> {
        problem(group, "eu-west-1", "111122223333")
    }

    #[test]
    fn a_group_of_another_region_or_account_is_refused() {
        let arn = |region, account| {
            Group::TargetGroup(format!("arn:aws:elasticloadbalancing:{region}:{account}:targetgroup/api/1"))
        };
        assert_eq!(said(&arn("eu-west-1", "111122223333")), None);
        assert_eq!(said(&Group::Classic("api".into())), None);
        assert!(said(&arn("us-east-1", "111122223333")).unwrap().contains("another region"));
        assert!(said(&arn("eu-west-1", "444455556666")).unwrap().contains("another account"));
    }

    #[test]
    fn an_invalid_arn_of_a_target_group_is_refused() {
        let here = "arn:aws:elasticloadbalancing:eu-west-1:111122223333";
        for arn in [
            "api".to_owned(),
            format!("{here}:loadbalancer/net/api/1"),
            format!("{here}:targetgroup/api"),
            format!("{here}:targetgroup/api/1/2"),
            format!("{here}:targetgroup/api/"),
            format!("{here}:targetgroup/api/1 "),
            format!("{here}:targetgroup/*/1"),
            format!("{here}:targetgroup/api/1:"),
            format!(" {here}:targetgroup/api/1"),
        ] {
            let told = said(&Group::TargetGroup(arn.clone()));
            assert!(told.is_some_and(|told| told.contains("is no ARN")), "{arn}");
        }
    }
}
