//! Infrastructure that differs from the good one, and works.

use super::bad::{balancer, default_route, found, group, machines, target_group};
use crate::facts::Facts;
use crate::report::{Outcome, Selection, check};
use crate::testing::{good, of_range};

/// A change of the good infrastructure.
type Change = fn(&mut Facts);

/// Changes that keep a rule.
const OTHER: [(&str, Change); 5] = [
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
    ("M4", |facts| {
        // Inferentia has a quota of its own.
        found(&mut facts.quotas).insert("L-1216C47A".to_owned(), 0.0);
        found(&mut facts.instance_types)[0].name = "inf1.xlarge".to_owned();
        facts.demand.machines.iter_mut().for_each(|machines| machines.spec.instance_type = "inf1.xlarge".to_owned());
    }),
];

#[test]
fn other_infrastructure_that_works_keeps_the_rule() {
    for (rule, change) in OTHER {
        let mut facts = good();
        change(&mut facts);
        let selection = Selection { only: [rule.to_owned()].into(), ..Selection::default() };
        let outcome = check(&facts, &selection).answers.remove(0).outcome;
        assert_eq!(outcome, Outcome::Passed, "{rule}");
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
