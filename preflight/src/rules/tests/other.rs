//! Infrastructure that differs from the good one, and works.

use capa_api::cluster::status::FindingSeverity::Warning;
use capa_api::network::NetworkSubnet;
use serde_json::json;

use super::bad::{balancer, default_route, found, group, machines, target_group};
use crate::facts::{Facts, RouteTarget, Source, Zone};
use crate::report::{Outcome, Selection, check};
use crate::testing::{good, of_range};

/// A change of the good infrastructure.
type Change = fn(&mut Facts);

/// Changes that keep a rule.
const OTHER: [(&str, Change); 15] = [
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
        balancer(facts).zones.remove("eu-west-1c");
        let key = "load_balancing.cross_zone.enabled".to_owned();
        found(&mut target_group(facts).attributes).insert(key, "true".to_owned());
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
        (workers.replicas, workers.running) = (5_000, 4_999);
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
        balancer(facts).scheme = "internet-facing".to_owned();
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
    let zone = Zone { name: "eu-west-1-lax-1a".into(), zone_type: "local-zone".into(), state: "available".into() };
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
    machines(&mut filtered, "workers").spec.additional_security_groups =
        serde_json::from_value(json!([{"filters": [{"name": "tag:role", "values": ["node"]}]}])).unwrap();
    group(&mut filtered, "sg-0000000a").ingress.clear();
    assert!(is_unknown("G6", &filtered), "filters may find groups that admit the traffic");
}

#[test]
fn traffic_is_a_warning_while_no_template_is_known() {
    for rule in ["G4", "G5", "G6", "G10", "L9"] {
        let mut facts = good();
        facts.demand.machines.clear();
        facts.demand.runs_control_plane = true;
        for id in ["sg-0000000a", "sg-0000000b"] {
            group(&mut facts, id).ingress.clear();
            group(&mut facts, id).egress.clear();
        }
        group(&mut facts, "sg-0000000d").ingress.clear();
        let selection = Selection { only: [rule.to_owned()].into(), ..Selection::default() };
        let report = check(&facts, &selection);
        let severities: Vec<_> = report.findings().map(|finding| finding.severity).collect();
        assert!(!severities.is_empty() && severities.iter().all(|of| *of == Warning), "{rule}: {severities:?}");
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
