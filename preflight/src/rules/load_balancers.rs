//! Rules about the load balancers and target groups of the control plane.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};
use capa_cloud::elb::{LoadBalancerKind, LoadBalancerState, Protocol, TargetType};

use super::machine_groups::{first_certain, machines, machines_by_role, of_known_groups, peer_in};
use super::security_groups::admits;
use crate::facts::{Facts, IpAddressType, LoadBalancer, MachineRole, TargetGroup, Traffic};
use crate::reach::{allow, covers, filters_of_peer, ingress};
use crate::rule::{Category::LoadBalancers, Checked, Problem, Rule, ShownBy, Skipped, applies, known, of_each};
use crate::traffic_text::{cli_parameters, traffic_text};

/// Maximum time in seconds after which a health check must notice a failed or a new API server. kubeadm waits four
/// minutes for the API server.
const SLOWEST_HEALTH_CHECK: i64 = 60;

/// Attribute of target groups and load balancers: whether connections are distributed to targets in other zones.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

/// Attributes of target groups: whether targets see the addresses of clients, and whether connections to deregistered
/// targets end.
pub(crate) const PRESERVE_CLIENT_ADDRESSES: &str = "preserve_client_ip.enabled";
pub(crate) const CONNECTION_TERMINATION: &str = "deregistration_delay.connection_termination.enabled";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "L1",
        category: LoadBalancers,
        severity: Blocking,
        title: "Every target group exists, with protocol TCP or TLS, the port of the API server, the VPC and a usable \
                target type",
        breaks: "Control plane machines are not registered, or their registration serves nobody.",
        shown_by: ShownBy::Moto,
        check: target_groups,
    },
    Rule {
        id: "L2",
        category: LoadBalancers,
        severity: Blocking,
        title: "A load balancer forwards the port of the control plane endpoint to the target group",
        breaks: "Nobody reaches the API server through the endpoint.",
        shown_by: ShownBy::Moto,
        check: listeners,
    },
    Rule {
        id: "L3",
        category: LoadBalancers,
        severity: Warning,
        title: "The load balancer is an active Network Load Balancer, with IPv6 if the cluster wants it",
        breaks: "Connections fail while the load balancer is not active; an Application Load Balancer ends client \
                 certificates.",
        shown_by: ShownBy::Moto,
        check: load_balancers,
    },
    Rule {
        id: "L4",
        category: LoadBalancers,
        severity: Blocking,
        title: "The load balancer has a subnet in every zone of the control plane, or distributes across zones",
        breaks: "Control plane machines in other zones get no connections.",
        shown_by: ShownBy::Moto,
        check: zones,
    },
    Rule {
        id: "L5",
        category: LoadBalancers,
        severity: Warning,
        title: "The health check is TCP, or HTTPS with /readyz or /healthz, and decides within a minute",
        breaks: "kubeadm gives up before the load balancer forwards, or dead API servers keep getting connections.",
        shown_by: ShownBy::Moto,
        check: health_checks,
    },
    Rule {
        id: "L6",
        category: LoadBalancers,
        severity: Warning,
        title: "Behind an internal load balancer, targets by instance do not preserve the addresses of clients",
        breaks: "A control plane machine that connects to itself through the load balancer gets no answer.",
        shown_by: ShownBy::Moto,
        check: hairpin,
    },
    Rule {
        id: "L7",
        category: LoadBalancers,
        severity: Blocking,
        title: "Where targets see the addresses of clients, control plane machines admit the clients",
        breaks: "Connections through the load balancer are dropped by the security groups.",
        shown_by: ShownBy::Moto,
        check: client_addresses,
    },
    Rule {
        id: "L8",
        category: LoadBalancers,
        severity: Warning,
        title: "The target group ends connections when a target is deregistered",
        breaks: "Nodes keep connections to a deleted control plane machine for minutes.",
        shown_by: ShownBy::Moto,
        check: deregistration,
    },
    Rule {
        id: "L9",
        category: LoadBalancers,
        severity: Blocking,
        title: "The security groups of the load balancer admit the port of the control plane endpoint from machines",
        breaks: "Nodes do not reach the API server.",
        shown_by: ShownBy::Recorded,
        check: balancer_groups,
    },
    Rule {
        id: "L10",
        category: LoadBalancers,
        severity: Warning,
        title: "The host of the control plane endpoint is the load balancer, or a name that leads to it",
        breaks: "Nodes connect to something else.",
        shown_by: ShownBy::Recorded,
        check: endpoint_host,
    },
];

fn asked(facts: &Facts) -> Result<(), Skipped> {
    applies(!facts.demand.target_group_arns().is_empty())
}

fn target_groups(facts: &Facts) -> Checked {
    asked(facts)?;
    let groups = known(&facts.target_groups, "the target groups")?;
    let vpc = facts.vpc.found().and_then(Option::as_ref);
    let mut problems = Vec::new();
    for arn in facts.demand.target_group_arns() {
        let Some(group) = groups.iter().find(|group| group.arn == arn) else {
            let fix = "correct the ARN, or create the target group";
            problems.push(Problem::new(arn, "the target group does not exist", fix));
            continue;
        };
        let port = facts.demand.api_port;
        let wrong = if !matches!(group.protocol, Protocol::Tcp | Protocol::Tls | Protocol::TcpUdp) {
            Some(format!("the target group has the protocol {}", group.protocol))
        } else if !matches!(group.target_type, TargetType::Instance | TargetType::Ip(_)) {
            Some(format!("the target group has the target type {}", group.target_type))
        } else if vpc.is_some_and(|vpc| vpc.id != group.vpc_id) {
            Some(format!("the target group lies in {}", group.vpc_id))
        } else if group.port != port && !registers_with_port(facts, arn) {
            Some(format!("the target group has port {}, and the API server {port}", group.port))
        } else {
            None
        };
        if let Some(message) = wrong {
            let fix = format!(
                "create a target group with protocol TCP, port {port} and target type ip or instance; if the API \
                 servers listen on another port, set spec.clusterNetwork.apiServerPort of the Cluster"
            );
            problems.push(Problem::new(arn, message, fix));
        }
    }
    let vpc = vpc.map_or("<vpc>", |vpc| vpc.id.as_str());
    let command = facts.aws(&format!(
        "elbv2 create-target-group --name <name> --protocol TCP --port {} --target-type ip --vpc-id {vpc}",
        facts.demand.api_port
    ));
    Ok(problems.into_iter().map(|problem| problem.fixed_by(command.clone())).collect())
}

/// Whether the user specifies the port with which targets are registered.
fn registers_with_port(facts: &Facts, arn: &str) -> bool {
    let mut targets = facts.demand.control_plane_targets();
    targets.any(|target| target.target_group_arn.as_deref() == Some(arn) && target.port.is_some())
}

fn listeners(facts: &Facts) -> Checked {
    asked(facts)?;
    let port = facts.demand.endpoint_port();
    let groups = facts.the_target_groups()?;
    let balancers = facts.the_load_balancers()?;
    let mut served = BTreeSet::new();
    for balancer in &balancers {
        let listeners = facts.listeners_of(balancer)?.iter();
        served.extend(listeners.filter(|listener| listener.port == port).flat_map(|of| &of.target_group_arns));
    }
    let any_served = groups.iter().any(|group| served.contains(&group.arn));
    let mut problems = Vec::new();
    for group in &groups {
        let message = if group.load_balancer_arns.is_empty() {
            "no load balancer forwards to the target group".to_owned()
        // One of several target groups may serve another port, for example the port of the machine config server.
        } else if !any_served {
            format!("no listener on port {port} forwards to the target group")
        } else {
            continue;
        };
        let balancer = group.load_balancer_arns.first().map_or("<load balancer>", String::as_str);
        problems.push(Problem::new(&group.arn, message, format!("add a TCP listener on port {port}")).fixed_by(
            facts.aws(&format!(
                "elbv2 create-listener --load-balancer-arn {balancer} --protocol TCP --port {port} --default-actions \
                 Type=forward,TargetGroupArn={}",
                group.arn
            )),
        ));
    }
    Ok(problems)
}

fn each_balancer(facts: &Facts, check: impl Fn(&LoadBalancer) -> Result<Option<Problem>, Skipped>) -> Checked {
    asked(facts)?;
    let balancers = facts.the_load_balancers()?;
    applies(!balancers.is_empty())?;
    of_each(balancers.into_iter().map(check))
}

fn each_group(facts: &Facts, check: impl Fn(&TargetGroup) -> Result<Option<Problem>, Skipped>) -> Checked {
    asked(facts)?;
    of_each(facts.the_target_groups()?.into_iter().map(check))
}

fn load_balancers(facts: &Facts) -> Checked {
    each_balancer(facts, |balancer| {
        let (message, fix) = if balancer.kind != LoadBalancerKind::Network {
            (format!("{} is of type {}", balancer.name, balancer.kind), "use a Network Load Balancer")
        } else if let Some(inactive) = inactive(balancer) {
            inactive
        } else if facts.demand.wants_ipv6 && balancer.ip_address_type != IpAddressType::Dualstack {
            (format!("{} has no IPv6 addresses", balancer.name), "set the address type dualstack")
        } else {
            return Ok(None);
        };
        let command = facts.aws(&format!("elbv2 describe-load-balancers --load-balancer-arns {}", balancer.arn));
        Ok(Some(Problem::new(&balancer.name, message, fix).fixed_by(command)))
    })
}

/// Why a load balancer does not take connections, or will not take more, and what helps.
fn inactive(balancer: &LoadBalancer) -> Option<(String, &'static str)> {
    let LoadBalancer { name, state, .. } = balancer;
    match state {
        LoadBalancerState::Active => None,
        LoadBalancerState::Provisioning => {
            Some((format!("{name} is {state}"), "wait until the load balancer is active"))
        }
        LoadBalancerState::ActiveImpaired => Some((
            format!("{name} is {state}: it lacks addresses in its subnets to scale"),
            "free addresses in its subnets, or add a subnet",
        )),
        LoadBalancerState::Failed(reason) => {
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Some((format!("AWS could not create {name}{reason}"), "delete it, and create it again"))
        }
    }
}

fn zones(facts: &Facts) -> Checked {
    applies(facts.demand.has_control_plane_machines())?;
    each_balancer(facts, |balancer| {
        let subnets = facts.subnets_of(Some(MachineRole::ControlPlane))?;
        let wanted: BTreeSet<&str> = subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
        let missing: Vec<&str> = wanted.into_iter().filter(|zone| !balancer.subnets.contains_key(*zone)).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        let groups = facts.the_target_groups()?.into_iter();
        let groups = groups.filter(|group| group.load_balancer_arns.contains(&balancer.arn));
        let of_balancer = facts.attributes_of(&balancer.arn, "the attributes of the load balancer")?;
        let Some(group) = within_zones(facts, groups, of_balancer)? else {
            return Ok(None);
        };
        let message = format!("{} has no subnet in {}", balancer.name, missing.join(" and "));
        let problem = Problem::new(&balancer.name, message, "add a subnet of the zone, or distribute across zones");
        Ok(Some(problem.fixed_by(set_attribute(facts, group, CROSS_ZONE, "true"))))
    })
}

/// The first target group to which connections are distributed within their zones only. The attribute of the group
/// replaces that of the load balancer. Source: the user guide for Network Load Balancers, «Cross-zone load balancing
/// for target groups».
fn within_zones<'a>(
    facts: &Facts,
    groups: impl Iterator<Item = &'a TargetGroup>,
    of_balancer: &BTreeMap<String, String>,
) -> Result<Option<&'a TargetGroup>, Skipped> {
    for group in groups {
        let of_group = attributes_of(facts, group)?.get(CROSS_ZONE);
        let own = of_group.filter(|value| ["true", "false"].contains(&value.as_str()));
        if own.or_else(|| of_balancer.get(CROSS_ZONE)).is_none_or(|value| value != "true") {
            return Ok(Some(group));
        }
    }
    Ok(None)
}

fn health_checks(facts: &Facts) -> Checked {
    each_group(facts, |group| {
        let check = &group.health_check;
        let path = check.path.as_deref().unwrap_or_default();
        let timing = &check.timing;
        let slowest = timing.interval_seconds * timing.threshold_count.max(timing.unhealthy_threshold_count);
        let message = match check.protocol {
            Protocol::Http => "the health check is HTTP, which the API server does not serve".to_owned(),
            Protocol::Https if !["/readyz", "/healthz", "/livez"].iter().any(|known| path.starts_with(known)) => {
                format!("the health check asks for {path}, which the API server does not serve to anonymous clients")
            }
            _ if slowest > SLOWEST_HEALTH_CHECK => {
                format!("the health check needs {slowest} seconds to notice a change")
            }
            _ => return Ok(None),
        };
        let problem = Problem::new(&group.arn, message, "check TCP, or HTTPS with the path /readyz, every 10 seconds");
        Ok(Some(problem.fixed_by(facts.aws(&format!(
            "elbv2 modify-target-group --target-group-arn {} --health-check-protocol HTTPS --health-check-path /readyz \
             --health-check-interval-seconds 10 --healthy-threshold-count 2",
            group.arn
        )))))
    })
}

fn attributes_of<'a>(facts: &'a Facts, group: &TargetGroup) -> Result<&'a BTreeMap<String, String>, Skipped> {
    facts.attributes_of(&group.arn, "the attributes of the target group")
}

/// Whether targets see the addresses of clients. The default depends on the target type. Source: the user guide for
/// Network Load Balancers, «Client IP preservation».
fn preserves_client_addresses(facts: &Facts, group: &TargetGroup) -> Result<bool, Skipped> {
    Ok(match attributes_of(facts, group)?.get(PRESERVE_CLIENT_ADDRESSES) {
        Some(value) => value == "true",
        None => group.target_type == TargetType::Instance,
    })
}

fn balancers_of<'a>(facts: &'a Facts, group: &TargetGroup) -> Result<Vec<&'a LoadBalancer>, Skipped> {
    let balancers = facts.the_load_balancers()?.into_iter();
    Ok(balancers.filter(|balancer| group.load_balancer_arns.contains(&balancer.arn)).collect())
}

fn hairpin(facts: &Facts) -> Checked {
    each_group(facts, |group| {
        let is_internal = balancers_of(facts, group)?.iter().any(|balancer| !balancer.is_public());
        if !is_internal || group.target_type != TargetType::Instance || !preserves_client_addresses(facts, group)? {
            return Ok(None);
        }
        let message = "targets by instance behind an internal load balancer preserve the addresses of clients";
        let problem = Problem::new(&group.arn, message, "set preserve_client_ip.enabled to false");
        Ok(Some(problem.fixed_by(set_attribute(facts, group, PRESERVE_CLIENT_ADDRESSES, "false"))))
    })
}

fn set_attribute(facts: &Facts, group: &TargetGroup, key: &str, value: &str) -> String {
    facts.aws(&format!(
        "elbv2 modify-target-group-attributes --target-group-arn {} --attributes Key={key},Value={value}",
        group.arn
    ))
}

fn client_addresses(facts: &Facts) -> Checked {
    applies(facts.demand.has_control_plane_machines())?;
    each_group(facts, |group| {
        if !preserves_client_addresses(facts, group)? {
            return Ok(None);
        }
        let is_public = balancers_of(facts, group)?.iter().any(|balancer| balancer.is_public());
        let (name, peer) = if is_public {
            ("clients on the internet", peer_in([facts.default_destination_of_machines()?]))
        } else {
            ("machines", machines(facts, None)?)
        };
        let traffic = Traffic::tcp(facts.demand.api_port);
        let problem = admits(facts, MachineRole::ControlPlane, traffic, (name, &peer))?;
        Ok(problem.map(|problem| {
            let fix = format!("{}, or set preserve_client_ip.enabled to false", problem.fix);
            let problem = Problem { object: group.arn.clone(), fix, ..problem };
            if is_public { problem.with_severity(Warning) } else { problem }
        }))
    })
}

fn deregistration(facts: &Facts) -> Checked {
    each_group(facts, |group| {
        let key = CONNECTION_TERMINATION;
        if attributes_of(facts, group)?.get(key).is_some_and(|value| value == "true") {
            return Ok(None);
        }
        let problem = Problem::new(
            &group.arn,
            "the target group keeps connections to deregistered targets",
            format!("set {key} to true"),
        );
        Ok(Some(problem.fixed_by(set_attribute(facts, group, key, "true"))))
    })
}

fn balancer_groups(facts: &Facts) -> Checked {
    asked(facts)?;
    let balancers = facts.endpoint_balancers()?;
    applies(!balancers.is_empty())?;
    of_each(balancers.into_iter().map(|balancer| closed_balancer(facts, balancer)))
}

/// The problem that the security groups of a load balancer do not admit machines. Machines without a public address
/// reach an internet-facing load balancer from the addresses of NAT gateways and other appliances, which are not known.
fn closed_balancer(facts: &Facts, balancer: &LoadBalancer) -> Result<Option<Problem>, Skipped> {
    let ids: BTreeSet<&str> = balancer.security_group_ids.iter().map(String::as_str).collect();
    if ids.is_empty() {
        return Ok(None);
    }
    let groups = facts.groups(&ids)?;
    let traffic = Traffic::tcp(facts.demand.endpoint_port());
    let is_public = balancer.is_public();
    let (from, peers) = if is_public {
        ("the internet, where machines come from", vec![peer_in([facts.default_destination_of_machines()?])])
    } else {
        ("machines", machines_by_role(facts)?)
    };
    let closed = peers.iter().filter(|peer| !allow(ingress(&groups), traffic, peer));
    let closed = closed.map(|peer| (filters_of_peer(ingress(&groups), traffic, peer), ()));
    if first_certain(closed)?.is_none() {
        return Ok(None);
    }
    let group = ids.iter().next().copied().unwrap_or_default();
    let message =
        format!("the security groups of {} do not admit {} from {from}", balancer.name, traffic_text(traffic));
    let fix =
        if is_public { "the public addresses of NAT gateways and machines" } else { "the subnets of the machines" };
    let problem = Problem::new(&balancer.name, message, format!("admit {} from {fix}", traffic_text(traffic)));
    let problem = if is_public && ingress(&groups).any(|rule| covers(rule, traffic)) {
        problem.with_severity(Warning)
    } else {
        problem
    };
    Ok(Some(of_known_groups(facts, problem).fixed_by(facts.aws(&format!(
        "ec2 authorize-security-group-ingress --group-id {group} {} --cidr <range>",
        cli_parameters(traffic)
    )))))
}

fn endpoint_host(facts: &Facts) -> Checked {
    asked(facts)?;
    let Some(endpoint) = &facts.demand.endpoint else {
        return Err(Skipped::NotApplicable);
    };
    let balancers = facts.the_load_balancers()?;
    applies(!balancers.is_empty())?;
    let is_aws_name = endpoint.host.ends_with(".amazonaws.com");
    let is_one = balancers.iter().any(|balancer| balancer.dns_name.eq_ignore_ascii_case(&endpoint.host));
    // The user's own name may be a CNAME of the load balancer, and kubeadm puts it into the certificate.
    if is_one || !is_aws_name {
        return Ok(vec![]);
    }
    let problem = Problem::new(
        &endpoint.host,
        format!("{} is none of the load balancers of the target groups", endpoint.host),
        "correct controlPlaneEndpoint.host, or the targets",
    );
    Ok(vec![problem])
}
