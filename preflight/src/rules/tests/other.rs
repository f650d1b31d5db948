//! Infrastructure that differs from the good one, and works.

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};
use capa_api::network::{NetworkSubnet, ZoneType};
use serde_json::json;

use super::bad::{attributes, balancer, default_route, found, group, machines, target_group};
use crate::facts::{Facts, MachineDemand, MachineRole, RouteTarget, Source, Zone};
use crate::report::{Outcome, Selection, check};
use crate::testing::{BALANCER_ARN, GROUP_ARN, good, of_range};

/// A change of the good infrastructure.
type Change = fn(&mut Facts);

/// Changes that keep a rule.
const OTHER: [(&str, Change); 16] = [
    ("G11", |facts| {
        // Each template has a group of its own with the tag.
        let tags = group(facts, "sg-0000000a").tags.clone();
        group(facts, "sg-0000000e").tags = tags;
        let own = [("node".to_owned(), "sg-0000000e".to_owned())];
        machines(facts, "pinned").spec.security_group_overrides = own.into();
    }),
    ("L1", |facts| {
        // The template names the port.
        target_group(facts).port = 443;
        let mut target = facts.demand.network.control_plane_targets[0].clone();
        target.port = Some(6443);
        machines(facts, "control-plane").spec.control_plane_targets = vec![target];
    }),
    ("G10", |facts| {
        // Nodes connect to the endpoint, whose port is not that of the API servers.
        facts.demand.endpoint.as_mut().unwrap().port = 8443;
        group(facts, "sg-0000000a").egress = [443, 8443, 10250, 53, 8132]
            .map(|port| of_range(if port == 53 { "udp" } else { "tcp" }, Some((port, port)), "0.0.0.0/0"))
            .to_vec();
    }),
    ("L4", |facts| {
        balancer(facts).subnets.remove("eu-west-1c");
        let key = "load_balancing.cross_zone.enabled".to_owned();
        attributes(facts, GROUP_ARN).insert(key, "true".to_owned());
    }),
    // Security groups do not filter traffic to Amazon's DNS server.
    ("G10", |facts| {
        group(facts, "sg-0000000a").egress[0] = of_range("tcp", Some((0, 65535)), "0.0.0.0/0");
    }),
    ("G10", |facts| {
        found(&mut facts.dhcp_options).as_mut().unwrap().domain_name_servers =
            vec!["10.0.0.2".to_owned(), "169.254.169.253".to_owned()];
        group(facts, "sg-0000000a").egress[0] = of_range("tcp", Some((0, 65535)), "0.0.0.0/0");
    }),
    ("S12", edge_subnet),
    ("L4", edge_subnet),
    ("S4", |facts| {
        let workers = machines(facts, "workers");
        (workers.replicas, workers.existing) = (5_000, 4_999);
        machines(facts, "pinned").existing = 10_000;
    }),
    // The subnet is found by filters.
    ("S2", |facts| {
        facts.demand.network.subnets.iter_mut().for_each(|subnet| subnet.public = Some(true));
        for machines in facts.demand.machines.iter_mut().filter(|machines| machines.spec.subnet.is_none()) {
            let filters = json!({"filters": [{"name": "tag:tier", "values": ["private"]}]});
            machines.spec.subnet = serde_json::from_value(filters).unwrap();
        }
    }),
    // No machine is launched in a public subnet that is listed.
    ("S5", |facts| {
        facts.demand.machines.retain(|machines| machines.spec.public_ip != Some(true));
        let public = subnet_of_network(json!({"id": "subnet-0000001a", "public": true}));
        facts.demand.network.subnets.push(public);
    }),
    ("S5", |facts| {
        share(facts);
        found(&mut facts.nat_gateways).clear();
        // The last subnet has no NAT gateway.
        facts.demand.network.subnets.pop();
    }),
    ("G1", |facts| {
        let overrides = [("node", "sg-0000000a"), ("lb", "")];
        machines(facts, "workers").spec.security_group_overrides =
            overrides.map(|(role, id)| (role.to_owned(), id.to_owned())).into();
    }),
    // Machines come from the addresses of NAT gateways.
    ("L9", |facts| {
        balancer(facts).scheme = LoadBalancerScheme::InternetFacing;
        group(facts, "sg-0000000d").ingress[0].source = Source::Cidr("0.0.0.0/0".to_owned());
    }),
    ("G2", |facts| {
        let groups = facts.demand.network.security_groups.as_mut().unwrap();
        groups.control_plane.extend((1..5).map(|number| format!("sg-0000001{number}")));
        found(&mut facts.quotas).insert("L-2AFB9258".to_owned(), 10.0);
    }),
    ("M4", |facts| {
        // Inferentia has a quota of its own.
        found(&mut facts.quotas).insert("L-1216C47A".to_owned(), 0.0);
        found(&mut facts.instance_types)[0].name = "inf1.xlarge".to_owned();
        facts.demand.machines.iter_mut().for_each(|machines| machines.spec.instance_type = "inf1.xlarge".to_owned());
    }),
];

/// A subnet in a Local Zone for machines that name it.
fn edge_subnet(facts: &mut Facts) {
    let edge = json!({"id": "subnet-000000ed", "zoneType": "local-zone", "availabilityZone": "eu-west-1-lax-1a"});
    let edge = subnet_of_network(edge);
    facts.demand.network.subnets.push(edge);
    let mut shown = found(&mut facts.subnets)[0].clone();
    shown.id = "subnet-000000ed".to_owned();
    shown.zone = "eu-west-1-lax-1a".to_owned();
    found(&mut facts.subnets).push(shown);
    let zone =
        Zone { name: "eu-west-1-lax-1a".into(), zone_type: Some(ZoneType::LocalZone), state: "available".into() };
    found(&mut facts.zones).push(zone);
}

fn subnet_of_network(subnet: serde_json::Value) -> NetworkSubnet {
    serde_json::from_value(subnet).unwrap()
}

/// Lets the VPC belong to another account.
fn share(facts: &mut Facts) {
    found(&mut facts.vpc).as_mut().unwrap().owner_id = "999988887777".to_owned();
}

/// The outcome of a rule.
fn outcome(rule: &str, facts: &Facts) -> Outcome {
    let selection = Selection { only: [rule.to_owned()].into(), ..Selection::default() };
    check(facts, &selection).answers.remove(0).outcome
}

#[test]
fn what_is_not_known_is_no_finding() {
    let is_unknown = |rule: &str, facts: &Facts| matches!(outcome(rule, facts), Outcome::Unknown(_));
    let mut of_owner = good();
    share(&mut of_owner);
    found(&mut of_owner.vpc_endpoints).clear();
    assert!(is_unknown("E2", &of_owner), "AWS shows endpoints of a shared VPC to its owner only");
    let mut filtered = good();
    let workers = filtered.demand.machines.iter_mut().filter(|machines| machines.role == MachineRole::Worker);
    for machines in workers {
        machines.spec.additional_security_groups =
            serde_json::from_value(json!([{"filters": [{"name": "tag:role", "values": ["node"]}]}])).unwrap();
    }
    group(&mut filtered, "sg-0000000a").ingress.clear();
    assert!(is_unknown("G6", &filtered), "filters may find groups that admit the traffic");
    group(&mut filtered, "sg-0000000b").ingress.remove(0);
    assert!(is_unknown("G4", &filtered), "filters may find a group that is admitted");
    group(&mut filtered, "sg-0000000b").ingress.clear();
    assert!(matches!(outcome("G5", &filtered), Outcome::Failed(_)), "the control plane has no filters");
    found(&mut filtered.vpc_endpoints)[4].has_private_dns = false;
    group(&mut filtered, "sg-0000000e").ingress[0].source = Source::Group("sg-00000099".to_owned());
    assert!(matches!(outcome("E2", &filtered), Outcome::Failed(found) if found.len() == 1), "an endpoint is missing");
    group(&mut filtered, "sg-0000000d").ingress.clear();
    assert!(matches!(outcome("L9", &filtered), Outcome::Failed(_)), "no rule names a group");
}

#[test]
fn a_hint_names_templates_that_are_not_known() {
    for rule in ["G4", "G5", "G6", "G10", "L9"] {
        let mut facts = good();
        let is_control_plane = |machines: &MachineDemand| machines.role == MachineRole::ControlPlane;
        facts.demand.machines.retain(|machines| !is_control_plane(machines));
        facts.demand.runs_control_plane = true;
        for id in ["sg-0000000a", "sg-0000000b", "sg-0000000d"] {
            group(&mut facts, id).ingress.clear();
            group(&mut facts, id).egress.clear();
        }
        let fixes = |facts: &Facts| -> Vec<String> {
            let selection = Selection { only: [rule.to_owned()].into(), ..Selection::default() };
            check(facts, &selection).findings().map(|finding| finding.fix.clone()).collect()
        };
        let has_hint =
            |fix: &String| fix.ends_with("if machine templates name more security groups that do, skip the rule");
        let unknown = fixes(&facts);
        assert!(!unknown.is_empty() && unknown.iter().all(has_hint), "{rule}: {unknown:?}");
        facts.demand.machines.extend(good().demand.machines.into_iter().filter(is_control_plane));
        let known = fixes(&facts);
        assert!(!known.is_empty() && !known.iter().any(has_hint), "{rule}: {known:?}");
    }
}

#[test]
fn only_some_address_of_the_internet_is_a_warning() {
    let severity = |source: Source<String>, ports: (i32, i32)| {
        let mut facts = good();
        balancer(&mut facts).scheme = LoadBalancerScheme::InternetFacing;
        let rule = &mut group(&mut facts, "sg-0000000d").ingress[0];
        (rule.source, rule.traffic.ports) = (source, Some(ports));
        let selection = Selection { only: ["L9".to_owned()].into(), ..Selection::default() };
        check(&facts, &selection).findings().map(|finding| finding.severity).next()
    };
    let gateway = || Source::Cidr("203.0.113.7/32".to_owned());
    assert_eq!(severity(gateway(), (6443, 6443)), Some(Warning));
    assert_eq!(severity(gateway(), (443, 443)), Some(Blocking), "nobody is admitted");
}

#[test]
fn a_load_balancer_that_is_not_the_endpoint_is_not_asked_for_machines() {
    let mut facts = good();
    let mut public = balancer(&mut facts).clone();
    public.arn.push_str("-public");
    public.name = "public".to_owned();
    public.dns_name = "public.elb.eu-west-1.amazonaws.com".to_owned();
    public.scheme = LoadBalancerScheme::InternetFacing;
    target_group(&mut facts).load_balancer_arns.push(public.arn.clone());
    facts.listeners.insert(public.arn.clone(), facts.listeners[BALANCER_ARN].clone());
    found(&mut facts.load_balancers).push(public);
    group(&mut facts, "sg-0000000a").egress =
        vec![of_range("tcp", Some((443, 443)), "0.0.0.0/0"), of_range("-1", None, "10.0.0.0/16")];
    for rule in ["G10", "L9"] {
        assert_eq!(outcome(rule, &facts), Outcome::Passed, "{rule}");
    }
}

/// Machines in subnets without IPv4 use the routes and ranges of IPv6.
#[test]
fn subnets_without_ipv4_are_judged_by_ipv6() {
    let mut facts = good();
    facts.demand.machines.retain(|machines| machines.spec.public_ip != Some(true));
    for subnet in found(&mut facts.subnets) {
        subnet.cidr_block.clear();
        subnet.free_addresses = 0;
    }
    for table in found(&mut facts.route_tables) {
        let mut route = table.routes.last().unwrap().clone();
        route.destination = "::/0".to_owned();
        route.target = RouteTarget::EgressOnlyInternetGateway("eigw-0000000a".to_owned());
        table.routes.push(route);
        table.routes.retain(|route| route.destination != "0.0.0.0/0");
    }
    for group in found(&mut facts.security_groups) {
        for rule in group.ingress.iter_mut().chain(&mut group.egress) {
            if matches!(rule.source, Source::Cidr(_)) {
                rule.source = Source::Ipv6Cidr("::/0".to_owned());
            }
        }
    }
    let command = |facts: &Facts, rule: &str| {
        let report = check(facts, &Selection { only: [rule.to_owned()].into(), ..Selection::default() });
        report.findings().next().and_then(|finding| finding.command.clone()).expect("a command")
    };
    let mut closed = facts.clone();
    group(&mut closed, "sg-0000000a").ingress.clear();
    group(&mut closed, "sg-0000000a").egress.clear();
    assert!(command(&closed, "G9").contains("Ipv6Ranges=[{CidrIpv6=2001:db8::/56}]"), "{}", command(&closed, "G9"));
    assert!(command(&closed, "G10").contains("Ipv6Ranges=[{CidrIpv6=::/0}]"), "{}", command(&closed, "G10"));
    for rule in ["S4", "S5", "G4", "G9", "G10", "L9"] {
        assert_eq!(outcome(rule, &facts), Outcome::Passed, "{rule}");
    }
    assert_eq!(outcome("E2", &facts), Outcome::NotApplicable);
}

#[test]
fn other_infrastructure_that_works_keeps_the_rule() {
    for (rule, change) in OTHER {
        let mut facts = good();
        change(&mut facts);
        assert_eq!(outcome(rule, &facts), Outcome::Passed, "{rule}");
    }
}

#[test]
fn a_default_route_that_exists_is_replaced() {
    let command = |change: Change| {
        let mut facts = good();
        change(&mut facts);
        let report = check(&facts, &Selection { only: ["S5".to_owned()].into(), ..Selection::default() });
        let finding = report.findings().next().expect("a finding");
        finding.command.clone().expect("a command")
    };
    let blackhole = command(|facts| default_route(facts).is_blackhole = true);
    assert!(blackhole.contains("ec2 replace-route"), "{blackhole}");
    let absent = command(|facts| found(&mut facts.route_tables)[0].routes.truncate(1));
    assert!(absent.contains("ec2 create-route"), "{absent}");
}
