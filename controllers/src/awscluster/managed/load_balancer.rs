//! Network load balancers of the API server, with their listeners and target groups. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::elb::load_balancer::Call;
use capa_cloud::elb::{LoadBalancer, LoadBalancerState};
use capa_cloud::managed::Observed;

use super::attributes::differing;
use super::balancers::{Place, WantedLoadBalancer};
use super::inputs::Inputs;
use super::ledger::{Ledger, Standing};
use super::plan::{Plan, Scene, Why};
use super::planner::Planner;
use super::reference::{Id, Kind, Ref};
use super::{listener, target_group};

/// The type of a network load balancer in AWS's words.
const NETWORK: &str = "network";
/// The attribute that spreads connections over the zones.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

/// The planner of the load balancers.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[
        Kind::LoadBalancer,
        Kind::LoadBalancerAttributes,
        Kind::TargetGroup,
        Kind::TargetGroupAttributes,
        Kind::Listener,
    ],
    condition: ConditionType::LoadBalancerReady,
    waiting: Reason::WaitingForVpc,
    is_optional: true,
    wanted,
    look: |seen| {
        seen.elb.load_balancers.answer()?;
        seen.elb.target_groups.answer()?;
        seen.elb.listeners.answer()
    },
    settle,
    plan,
};

fn wanted(inputs: &Inputs) -> Vec<Ref> {
    let balancers = inputs.load_balancers.iter().map(|balancer| &balancer.target);
    balancers.cloned().chain(target_group::wanted(inputs)).collect()
}

/// The names of the load balancers that the spec asks for, and of those that are recorded or may have target groups.
pub(super) fn names(inputs: &Inputs, ledger: &Ledger) -> Vec<String> {
    let wanted = inputs.load_balancers.iter().map(|balancer| &balancer.target);
    let of_groups = ledger
        .of_kind(Kind::TargetGroup)
        .map(|_| &inputs.endpoint_load_balancer);
    let all = wanted.chain(ledger.of_kind(Kind::LoadBalancer)).chain(of_groups);
    let names: BTreeSet<&String> = all.map(|target| &target.name).collect();
    names.into_iter().cloned().collect()
}

/// Compares the ledger with the look. A load balancer is the cluster's by its tag, and is the wanted one by its name, which
/// is unique.
fn settle(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(balancers) = seen.elb.load_balancers.got() else {
        return;
    };
    let owned = balancers.iter().filter(|balancer| inputs.names.owns(&balancer.tags));
    for balancer in owned {
        ledger.assign(&Ref::new(Kind::LoadBalancer, &balancer.name), &balancer.arn);
    }
    ledger.settle(Kind::LoadBalancer, |arn| {
        let shown = balancers.iter().find(|balancer| balancer.arn == arn);
        shown.map(|balancer| inputs.names.ownership(&balancer.tags))
    });
    target_group::settle(inputs, seen, ledger);
}

fn plan(scene: &Scene<'_>, plan: &mut Plan) {
    let elb = &scene.seen.elb;
    if scene.is_unseen(&elb.load_balancers) || scene.is_unseen(&elb.target_groups) || scene.is_unseen(&elb.listeners) {
        return wait_for_a_look(scene, plan);
    }
    if scene.is_deleted {
        delete(scene, plan);
        return target_group::delete(scene, plan);
    }
    for wanted in &scene.inputs.load_balancers {
        let target = &wanted.target;
        // A load balancer that works stays as it is until the spec is right.
        if scene.inputs.problems.iter().any(|problem| problem.target == *target) {
            continue;
        }
        match scene.standing(target) {
            Standing::Open | Standing::Hidden(_) => {
                plan.wait(target, Reason::Creating, "AWS does not show the load balancer");
            }
            Standing::Foreign(arn) => plan.problem(target, Reason::NotOwned, scene.inputs.names.lacks_tag(arn)),
            Standing::Absent | Standing::Vanished(_) => create(scene, wanted, plan),
            Standing::Shown(arn) => keep(scene, wanted, arn, plan),
        }
        for listener in &wanted.listeners {
            target_group::keep(scene, &listener.group, listener.port, &wanted.tags, plan);
        }
        listener::keep(scene, wanted, plan);
    }
    remove_unwanted(scene, plan);
    target_group::remove_unwanted(scene, plan);
}

/// AWS deletes a VPC whose target groups exist. So the deletion of the VPC waits for a look at them.
fn wait_for_a_look(scene: &Scene<'_>, plan: &mut Plan) {
    let recorded = scene.recorded(&[Kind::LoadBalancer, Kind::TargetGroup]);
    let may_exist = |target: &&Ref| scene.standing(target) != Standing::Absent;
    for target in recorded.iter().filter(|_| scene.is_deleted).filter(may_exist) {
        plan.wait(target, Reason::Deleting, "AWS does not show whether it exists");
    }
}

/// The load balancer that a look shows under this ARN.
pub(super) fn shown<'a>(scene: &Scene<'a>, arn: &str) -> Option<&'a LoadBalancer> {
    let mut balancers = scene.seen.elb.load_balancers.got()?.iter();
    balancers.find(|balancer| balancer.arn == arn)
}

/// The load balancer whose address is to be the endpoint, once it takes connections.
pub(super) fn endpoint<'a>(scene: &Scene<'a>) -> Option<(&'a WantedLoadBalancer, &'a LoadBalancer)> {
    let mut all = scene.inputs.load_balancers.iter();
    let wanted = all.find(|balancer| balancer.is_endpoint)?;
    let Standing::Shown(arn) = scene.standing(&wanted.target) else {
        return None;
    };
    let balancer = shown(scene, arn)?;
    let is_working = balancer.state == LoadBalancerState::Active && !balancer.dns_name.is_empty();
    let api = wanted.listeners.first()?;
    (is_working && listener::is_there(scene, arn, api)).then_some((wanted, balancer))
}

/// The published endpoint, if it is the address of this load balancer: AWS makes the address of the name and of random
/// letters, as in `dev-0a1b2c.elb.eu-west-1.amazonaws.com`.
fn own_address<'a>(scene: &Scene<'a>, wanted: &WantedLoadBalancer) -> Option<&'a str> {
    let (host, _) = scene.inputs.endpoint.as_ref().filter(|_| wanted.is_endpoint)?;
    let rest = host.strip_prefix(wanted.target.name.as_str())?;
    (rest.starts_with('-') && rest.contains(".elb.")).then_some(host)
}

fn create(scene: &Scene<'_>, wanted: &WantedLoadBalancer, plan: &mut Plan) {
    let (target, name) = (&wanted.target, &wanted.target.name);
    let mut balancers = scene.seen.elb.load_balancers.got().into_iter().flatten();
    if let Some(other) = balancers.find(|balancer| balancer.name == *name) {
        let message = format!(
            "{} has the name {name} that a load balancer of the cluster is to have, and is in {} or does not have the \
             cluster's tag: delete it, or set name in the spec",
            other.arn, other.vpc_id
        );
        return plan.problem(target, Reason::Conflict, message);
    }
    if let Some(address) = own_address(scene, wanted) {
        let message = format!(
            "the load balancer {name} does not exist any more, and no other one would have its address {address}, which \
             is the endpoint of the cluster: delete the Cluster, and create it again"
        );
        return plan.problem(target, Reason::Failed, message);
    }
    if wanted.places.is_empty() {
        let message = format!("no subnet of the cluster can have the load balancer {name}: list subnets for it");
        return plan.problem(target, Reason::InvalidSpec, message);
    }
    let call = Call::CreateLoadBalancer {
        name: name.clone(),
        scheme: wanted.scheme,
        subnets: wanted.places.iter().map(|place| place.subnet.clone()).collect(),
        security_groups: security_groups(wanted),
        tags: wanted.tags.clone(),
    };
    // Public addresses are reached by the internet gateway. Nothing is made before the VPC.
    let attachment = scene.inputs.internet_gateway.part(Kind::InternetGatewayAttachment);
    let after = [
        scene.inputs.vpc.target.clone(),
        scene.inputs.internet_gateway.clone(),
        attachment,
    ];
    plan.step_after(target, Why::Missing, call, after);
}

/// The security groups: CAPA attaches the group of the spec's role beside those that the spec lists.
fn security_groups(wanted: &WantedLoadBalancer) -> Vec<Id> {
    let own = Ref::new(Kind::SecurityGroup, SecurityGroupRole::ApiserverLb.as_str());
    let additional = wanted.additional_security_groups.iter().map(|id| Id::Known(id.clone()));
    additional.chain([Id::Of(own)]).collect()
}

fn keep(scene: &Scene<'_>, wanted: &WantedLoadBalancer, arn: &str, plan: &mut Plan) {
    let Some(balancer) = shown(scene, arn) else { return };
    let target = &wanted.target;
    if balancer.kind != NETWORK || balancer.scheme != wanted.scheme {
        let message = format!(
            "{arn} was created as another one, which AWS does not change: set loadBalancerType and scheme of {} back",
            target.name
        );
        return plan.problem(target, Reason::InvalidSpec, message);
    }
    match &balancer.state {
        LoadBalancerState::Failed(reason) => {
            let message =
                format!("AWS could not create {arn}: {reason}; delete it, and the provider creates another one");
            return plan.problem(target, Reason::Failed, message);
        }
        LoadBalancerState::Provisioning => {
            plan.wait(target, Reason::Creating, format!("AWS provisions {arn}"));
        }
        LoadBalancerState::Active => {}
    }
    keep_attributes(wanted, balancer, plan);
    keep_security_groups(scene, wanted, balancer, plan);
    keep_subnets(scene, wanted, balancer, plan);
}

fn keep_attributes(wanted: &WantedLoadBalancer, balancer: &LoadBalancer, plan: &mut Plan) {
    let attributes = BTreeMap::from([(CROSS_ZONE, wanted.is_cross_zone.to_string())]);
    let Some((attributes, why)) = differing(balancer.attributes.got(), attributes) else {
        return;
    };
    let call = Call::ModifyLoadBalancerAttributes {
        load_balancer: Id::from(balancer.arn.as_str()),
        attributes,
    };
    plan.step(&wanted.target.part(Kind::LoadBalancerAttributes), why, call);
}

/// A load balancer without security groups never gets any.
fn keep_security_groups(scene: &Scene<'_>, wanted: &WantedLoadBalancer, balancer: &LoadBalancer, plan: &mut Plan) {
    let groups = security_groups(wanted);
    let ids: Option<BTreeSet<&str>> = groups.iter().map(|id| scene.ledger.resolve(id)).collect();
    let shown: BTreeSet<&str> = balancer.security_group_ids.iter().map(String::as_str).collect();
    let Some(ids) = ids.filter(|ids| !shown.is_empty() && *ids != shown) else {
        return;
    };
    let why = Why::Differs {
        field: "securityGroups",
        is: in_words(&shown),
        wanted: in_words(&ids),
    };
    let call = Call::SetSecurityGroups {
        load_balancer: Id::from(balancer.arn.as_str()),
        security_groups: groups,
    };
    plan.step(&wanted.target.part(Kind::LoadBalancerAttributes), why, call);
}

/// A load balancer keeps the subnets that it has: others would give it other addresses. It gets one in each zone that it
/// lacks.
fn keep_subnets(scene: &Scene<'_>, wanted: &WantedLoadBalancer, balancer: &LoadBalancer, plan: &mut Plan) {
    let mut shown = balancer.subnets.values();
    let is_missing = |place: &&Place| {
        let id = scene.ledger.resolve(&place.subnet);
        let has_subnet = shown.clone().any(|subnet| id == Some(subnet));
        let zone = place.zone.as_deref().or_else(|| zone_of(scene, id?));
        !has_subnet && !zone.is_some_and(|zone| balancer.subnets.contains_key(zone))
    };
    let missing: Vec<&Id> = wanted
        .places
        .iter()
        .filter(is_missing)
        .map(|place| &place.subnet)
        .collect();
    let ids: BTreeSet<&str> = missing.iter().filter_map(|id| scene.ledger.resolve(id)).collect();
    if ids.is_empty() {
        return;
    }
    let why = Why::Differs {
        field: "subnets",
        is: in_words(&shown.by_ref().map(String::as_str).collect()),
        wanted: format!("those and {}", in_words(&ids)),
    };
    let present = balancer.subnets.values().map(|subnet| Id::Known(subnet.clone()));
    let call = Call::SetSubnets {
        load_balancer: Id::from(balancer.arn.as_str()),
        subnets: present.chain(missing.into_iter().cloned()).collect(),
    };
    plan.step(&wanted.target.part(Kind::LoadBalancerAttributes), why, call);
}

fn zone_of<'a>(scene: &Scene<'a>, subnet: &str) -> Option<&'a str> {
    let mut subnets = scene.seen.ec2.subnets.got()?.iter();
    let shown = subnets.find(|shown| shown.id == subnet);
    shown.map(|shown| shown.zone.as_str())
}

fn in_words(ids: &BTreeSet<&str>) -> String {
    ids.iter().copied().collect::<Vec<_>>().join(", ")
}

/// The spec may not ask for the second load balancer any more. The first one stays, whatever type the spec asks for.
fn remove_unwanted(scene: &Scene<'_>, plan: &mut Plan) {
    let names = wanted(scene.inputs);
    let unwanted = scene.ledger.of_kind(Kind::LoadBalancer);
    for target in unwanted.filter(|target| !names.contains(target)) {
        let Some(arn) = scene.deletable(target, plan) else {
            continue;
        };
        if *target == scene.inputs.endpoint_load_balancer {
            let message = format!(
                "the cluster has the network load balancer {}, whose type does not change: set loadBalancerType of \
                 controlPlaneLoadBalancer back to nlb",
                target.name
            );
            plan.problem(target, Reason::InvalidSpec, message);
        } else {
            delete_one(target, arn, plan);
        }
    }
}

fn delete(scene: &Scene<'_>, plan: &mut Plan) {
    for target in scene.ledger.of_kind(Kind::LoadBalancer) {
        if let Some(arn) = scene.deletable(target, plan) {
            delete_one(target, arn, plan);
        }
    }
}

/// AWS deletes the listeners with their load balancer.
fn delete_one(target: &Ref, arn: &str, plan: &mut Plan) {
    let call = Call::DeleteLoadBalancer {
        load_balancer: Id::from(arn),
    };
    plan.step(target, Why::Unwanted, call);
}
