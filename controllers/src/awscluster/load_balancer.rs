//! Determines the targets behind a load balancer that the user names. Pure.

use std::collections::BTreeSet;

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::load_balancer::{LoadBalancerSpec, LoadBalancerType};
use capa_api::common::ControlPlaneTarget;
use capa_api::conditions::Reason;
use capa_cloud::elb::{LoadBalancer, LoadBalancerKind};

use super::facts::LoadBalancerLookup;
use super::network_problems::{Blocked, NetworkProblems};
use crate::named_load_balancers::target_groups_on;

const PATH: &str = "spec.controlPlaneLoadBalancer";

/// The name of a load balancer to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedLoadBalancer<'a> {
    /// A Classic Load Balancer.
    Classic(&'a str),
    /// A Network or Application Load Balancer.
    NetworkOrApplication(&'a str),
}

/// The load balancer targets of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Targets {
    /// All targets are known.
    Known(Vec<ControlPlaneTarget>),
    /// The targets are behind this load balancer and not known yet.
    Pending(String),
}

/// The load balancer in the spec to look up. A block without a name is ignored, because other tools store such a block
/// in every AWSCluster.
pub(super) fn to_look_up(spec: &AWSClusterSpec) -> Option<NamedLoadBalancer<'_>> {
    let (balancer, name) = spec.named_load_balancer()?;
    match balancer.load_balancer_type {
        LoadBalancerType::Classic => Some(NamedLoadBalancer::Classic(name)),
        LoadBalancerType::Nlb | LoadBalancerType::Alb => Some(NamedLoadBalancer::NetworkOrApplication(name)),
        LoadBalancerType::Elb | LoadBalancerType::Disabled => None,
    }
}

/// The names of load balancers in `spec.controlPlaneTargets`, and that of the secondary load balancer.
pub(super) fn named_among_targets(spec: &AWSClusterSpec) -> BTreeSet<&str> {
    let targets = spec.control_plane_targets.iter();
    let names = targets.filter_map(|target| target.load_balancer_name.as_deref());
    names.chain(spec.secondary_load_balancer_name()).collect()
}

/// The targets behind the secondary load balancer, by its name.
fn secondary_target(spec: &AWSClusterSpec, port: i32) -> Option<ControlPlaneTarget> {
    Some(ControlPlaneTarget {
        load_balancer_name: Some(spec.secondary_load_balancer_name()?.to_owned()),
        port: Some(port),
        ..ControlPlaneTarget::default()
    })
}

/// The port of the control plane endpoint, on which load balancers listen.
pub(super) fn endpoint_port(spec: &AWSClusterSpec, of_cluster: Option<i32>) -> i32 {
    let own = spec.endpoint().map(|(_, port)| port);
    own.or_else(|| of_cluster.filter(|port| *port != 0)).unwrap_or(ControlPlaneTarget::API_PORT)
}

/// The targets of the control plane: the targets in the spec, or else the target groups behind the named load balancer
/// and the name of the secondary one. Without a lookup (`lookup` is absent): the targets that are `recorded` for this
/// spec.
pub(super) fn targets(
    spec: &AWSClusterSpec,
    port: i32,
    lookup: Option<&LoadBalancerLookup>,
    recorded: &[ControlPlaneTarget],
    place: &str,
    problems: &mut NetworkProblems,
) -> Targets {
    let with_secondary = |mut targets: Vec<ControlPlaneTarget>| {
        targets.extend(secondary_target(spec, port));
        Targets::Known(targets)
    };
    let Some((balancer, name)) = spec.named_load_balancer() else {
        return with_secondary(spec.control_plane_targets.clone());
    };
    if balancer.load_balancer_type == LoadBalancerType::Disabled {
        return with_secondary(vec![]);
    }
    let kind = match balancer.load_balancer_type {
        LoadBalancerType::Classic => "classic load balancer",
        _ => "load balancer",
    };
    let targets = targets_of_load_balancer(spec, (balancer, name, kind), port, lookup, recorded, place, problems);
    if targets.is_empty() {
        // Names of load balancers are shorter, and the status limits the length of the name.
        let name: String = name.chars().take(64).collect();
        return Targets::Pending(format!("{kind} {name}"));
    }
    with_secondary(targets)
}

/// The targets behind the load balancer of this name and kind; empty if the targets are not known.
fn targets_of_load_balancer(
    spec: &AWSClusterSpec,
    (balancer, name, kind): (&LoadBalancerSpec, &str, &str),
    port: i32,
    lookup: Option<&LoadBalancerLookup>,
    recorded: &[ControlPlaneTarget],
    place: &str,
    problems: &mut NetworkProblems,
) -> Vec<ControlPlaneTarget> {
    if balancer.load_balancer_type == LoadBalancerType::Elb {
        let message = format!(
            "{PATH}: loadBalancerType of {name} is elb, a Gateway Load Balancer, to which an API server cannot be \
             attached: set loadBalancerType to nlb, alb or classic"
        );
        problems.add_blocking(Blocked::ControlPlane, Reason::InvalidSpec, message);
        return vec![];
    }
    match lookup {
        None if to_look_up(spec).is_some() => recorded.to_vec(),
        None => vec![],
        Some(LoadBalancerLookup::Failed(error)) => {
            let message = format!("{kind} {name} could not be looked up, and the provider retries the lookup: {error}");
            problems.add_blocking(Blocked::ControlPlane, error.class.reason(), message);
            recorded.to_vec()
        }
        Some(LoadBalancerLookup::NotFound) => {
            let message = format!(
                "{kind} {name} does not exist in {place}: create it or correct name and loadBalancerType in {PATH}"
            );
            problems.add_blocking(Blocked::ControlPlane, Reason::NotFound, message);
            vec![]
        }
        Some(LoadBalancerLookup::Classic) => vec![ControlPlaneTarget {
            classic_load_balancer_name: Some(name.to_owned()),
            ..ControlPlaneTarget::default()
        }],
        Some(LoadBalancerLookup::NetworkOrApplication(shown, listeners)) => {
            if !is_of_type(shown, balancer.load_balancer_type) {
                let message = format!(
                    "load balancer {name} is of type {}, but {PATH}.loadBalancerType is {}: correct the name or \
                     loadBalancerType",
                    shown.kind, balancer.load_balancer_type
                );
                problems.add_blocking(Blocked::ControlPlane, Reason::Conflict, message);
                return vec![];
            }
            target_groups_on(port, listeners, name, "targets in spec.controlPlaneTargets").unwrap_or_else(|problem| {
                problems.add_blocking(Blocked::ControlPlane, problem.reason, problem.message);
                vec![]
            })
        }
    }
}

fn is_of_type(shown: &LoadBalancer, declared: LoadBalancerType) -> bool {
    match declared {
        LoadBalancerType::Nlb => shown.kind == LoadBalancerKind::Network,
        LoadBalancerType::Alb => shown.kind == LoadBalancerKind::Application,
        LoadBalancerType::Classic | LoadBalancerType::Elb | LoadBalancerType::Disabled => false,
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::CloudError;
    use capa_cloud::elb::Listener;

    use super::*;
    use crate::testing::read;

    fn listening(listeners: &[(i32, &[&str])]) -> LoadBalancerLookup {
        let listeners = listeners.iter().map(|(port, groups)| {
            let target_group_arns = groups.iter().map(|group| (*group).to_owned()).collect();
            Listener { port: *port, target_group_arns, ..Listener::default() }
        });
        LoadBalancerLookup::NetworkOrApplication(Box::default(), listeners.collect())
    }

    /// The names of the targets, and the text of the problem.
    fn resolved(spec: &str, lookup: Option<&LoadBalancerLookup>) -> (Vec<String>, String) {
        let mut problems = NetworkProblems::default();
        let recorded =
            [ControlPlaneTarget { classic_load_balancer_name: Some("known".into()), ..ControlPlaneTarget::default() }];
        let targets = targets(&read(spec), 6443, lookup, &recorded, "eu-west-1 of account 1", &mut problems);
        let name = |target: ControlPlaneTarget| {
            let named = target.load_balancer_name.map(|name| format!("name: {name}"));
            target.target_group_arn.or(target.classic_load_balancer_name).or(named)
        };
        let names = match targets {
            Targets::Known(targets) => targets.into_iter().filter_map(name).collect(),
            Targets::Pending(pending) => vec![format!("pending: {pending}")],
        };
        let problem = problems.condition().map(|condition| format!("{:?}: {}", condition.reason, condition.message));
        (names, problem.unwrap_or_default())
    }

    #[test]
    fn a_name_leads_to_what_is_behind_the_port_of_the_api() {
        let nlb = "controlPlaneLoadBalancer: {name: api, loadBalancerType: nlb}";
        let classic = "controlPlaneLoadBalancer: {name: api}";
        let several = listening(&[(443, &["arn:b"]), (6443, &["arn:a", "arn:c"])]);
        let one = listening(&[(443, &["arn:b"])]);
        let others = listening(&[(443, &["arn:b"]), (80, &["arn:d"])]);
        let alb = "controlPlaneLoadBalancer: {name: api, loadBalancerType: alb}";
        let throttled =
            LoadBalancerLookup::Failed(CloudError::answered("DescribeLoadBalancers", "Throttling", "slowly"));
        let both = "{controlPlaneLoadBalancer: {name: api, loadBalancerType: nlb}, \
                    secondaryControlPlaneLoadBalancer: {name: ext, loadBalancerType: nlb}}";
        let alone = "secondaryControlPlaneLoadBalancer: {name: ext, loadBalancerType: nlb}";
        let table: [(&str, Option<&LoadBalancerLookup>, &[&str], &str); 14] = [
            (both, Some(&several), &["arn:a", "arn:c", "name: ext"], ""),
            (both, None, &["known", "name: ext"], ""),
            (alone, None, &["name: ext"], ""),
            (
                alb,
                Some(&one),
                &["pending: load balancer api"],
                "Conflict: load balancer api is of type network, but spec.controlPlaneLoadBalancer.loadBalancerType is \
                 alb: correct",
            ),
            (nlb, Some(&throttled), &["known"], "Throttled: load balancer api could not be looked up"),
            (nlb, Some(&several), &["arn:a", "arn:c"], ""),
            (nlb, Some(&one), &["arn:b"], ""),
            (
                nlb,
                Some(&others),
                &["pending: load balancer api"],
                "NotFound: load balancer api has no listener on port 6443",
            ),
            (
                nlb,
                Some(&LoadBalancerLookup::NotFound),
                &["pending: load balancer api"],
                "NotFound: load balancer api does not exist in eu-west-1 of account 1",
            ),
            (nlb, None, &["known"], ""),
            (classic, Some(&LoadBalancerLookup::Classic), &["api"], ""),
            (
                classic,
                Some(&LoadBalancerLookup::NotFound),
                &["pending: classic load balancer api"],
                "NotFound: classic load balancer api does not exist",
            ),
            (
                "controlPlaneLoadBalancer: {name: api, loadBalancerType: elb}",
                None,
                &["pending: load balancer api"],
                "InvalidSpec",
            ),
            ("controlPlaneLoadBalancer: {name: api, loadBalancerType: disabled}", None, &[], ""),
        ];
        for (spec, lookup, names, problem) in table {
            let (found, said) = resolved(spec, lookup);
            assert_eq!(found, names, "{spec}");
            assert!(said.starts_with(problem) && said.is_empty() == problem.is_empty(), "{spec}: {said}");
        }
    }

    #[test]
    fn load_balancers_without_name_or_beside_targets_are_ignored() {
        for spec in [
            "controlPlaneLoadBalancer: {loadBalancerType: classic}",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, name: ''}",
            "region: eu-west-1",
        ] {
            assert_eq!(to_look_up(&read(spec)), None, "{spec}");
            assert_eq!(resolved(spec, None), (vec![], String::new()), "{spec}");
        }
        let both = "{controlPlaneLoadBalancer: {name: api}, controlPlaneTargets: [{classicLoadBalancerName: mine}]}";
        assert_eq!(to_look_up(&read(both)), None);
        assert_eq!(resolved(both, None).0, ["mine"]);
    }

    #[test]
    fn the_port_is_that_of_the_endpoint_wherever_it_stands() {
        let own = "controlPlaneEndpoint: {host: api, port: 443}";
        assert_eq!(endpoint_port(&read(own), Some(8443)), 443);
        assert_eq!(endpoint_port(&read("region: r"), Some(8443)), 8443);
        assert_eq!(endpoint_port(&read("region: r"), Some(0)), 6443);
        assert_eq!(endpoint_port(&read("region: r"), None), 6443);
    }
}
