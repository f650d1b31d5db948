//! Infrastructure that breaks rules: its difference from the good infrastructure, and the text of the finding.

use std::collections::BTreeMap;

use crate::facts::{
    AclEntry, Answer, Facts, Failure, FailureKind, IpProtocol, LoadBalancer, MachineDemand, SecurityGroup, Subnet,
    TargetGroup, Vpc,
};

mod machines;
mod network;
mod traffic;

/// Infrastructure that breaks a rule.
pub(in crate::rules::tests) struct Bad {
    pub(in crate::rules::tests) rule: &'static str,
    /// Object of the finding.
    pub(in crate::rules::tests) object: &'static str,
    /// A part of the message.
    pub(in crate::rules::tests) says: &'static str,
    pub(in crate::rules::tests) break_it: fn(&mut Facts),
}

const fn bad_world(rule: &'static str, object: &'static str, says: &'static str, break_it: fn(&mut Facts)) -> Bad {
    Bad { rule, object, says, break_it }
}

pub(super) fn found<T>(answer: &mut Answer<T>) -> &mut T {
    match answer {
        Answer::Found(value) => value,
        Answer::Failed(_) | Answer::NotAsked => panic!("nothing was found"),
    }
}

fn vpc(facts: &mut Facts) -> &mut Vpc {
    found(&mut facts.vpc).as_mut().unwrap()
}

fn subnet<'a>(facts: &'a mut Facts, id: &str) -> &'a mut Subnet {
    found(&mut facts.subnets).iter_mut().find(|subnet| subnet.id == id).unwrap()
}

/// The default route of the first private subnet.
pub(super) fn default_route(facts: &mut Facts) -> &mut crate::facts::Route {
    &mut found(&mut facts.route_tables)[0].routes[1]
}

pub(super) fn group<'a>(facts: &'a mut Facts, id: &str) -> &'a mut SecurityGroup {
    found(&mut facts.security_groups).iter_mut().find(|group| group.id == id).unwrap()
}

pub(super) fn target_group(facts: &mut Facts) -> &mut TargetGroup {
    &mut found(&mut facts.target_groups)[0]
}

/// The attributes of a target group or load balancer.
pub(super) fn attributes<'a>(facts: &'a mut Facts, arn: &str) -> &'a mut BTreeMap<String, String> {
    found(facts.load_balancing_attributes.get_mut(arn).unwrap())
}

pub(super) fn balancer(facts: &mut Facts) -> &mut LoadBalancer {
    &mut found(&mut facts.load_balancers)[0]
}

pub(super) fn machines<'a>(facts: &'a mut Facts, name: &str) -> &'a mut MachineDemand {
    let mut machines = facts.demand.machines.iter_mut();
    machines.find(|machines| machines.template.ends_with(name)).unwrap()
}

fn failed(call: &str, kind: FailureKind) -> Failure {
    Failure { call: call.to_owned(), kind, code: None, message: "no".to_owned() }
}

fn deny(number: i32, is_egress: bool, ports: (u16, u16)) -> AclEntry {
    AclEntry {
        number,
        is_egress,
        allows: false,
        protocol: IpProtocol::Tcp,
        cidr_block: "0.0.0.0/0".to_owned(),
        ports: Some(ports),
    }
}

/// All infrastructures that break a rule.
pub(in crate::rules::tests) fn bad() -> Vec<Bad> {
    [network::bad(), traffic::bad(), machines::bad()].into_iter().flatten().collect()
}
