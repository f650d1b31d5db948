//! The VPC and its DNS attributes. Pure.

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, Reason};
use capa_api::meta;
use capa_cloud::ec2;
use capa_cloud::ec2::vpc::{Call, DnsAttribute};
use capa_cloud::managed::{Observed, Seen};

use super::inputs::Inputs;
use super::ledger::{IsOwned, Ledger, Presence};
use super::plan::{Plan, PlanContext, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{Id, Kind};
use super::{default_security_group, nat_gateway};

/// The planner of the VPC.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::Vpc, Kind::VpcAttributes],
    condition: ConditionType::VpcReady,
    waiting: Reason::WaitingForVpc,
    is_optional: false,
    only_in_managed_vpc: false,
    wanted: |inputs| vec![inputs.vpc.target.clone()],
    tags: |inputs| vec![(inputs.vpc.target.clone(), inputs.vpc.tags.clone())],
    tags_shown: |seen| tags_by_id(&seen.ec2.vpcs, |vpc| (&vpc.id, &vpc.tags)),
    // The DNS attributes of a VPC of the user are not read.
    answer: |seen| match &seen.ec2.dns {
        Seen::NotAsked => seen.ec2.vpcs.answer(),
        dns => seen.ec2.vpcs.answer().and_then(|()| dns.answer()),
    },
    update_ledger,
    plan,
};

/// The VPC that AWS shows.
fn shown<'a>(context: &PlanContext<'a>) -> Option<&'a ec2::Vpc> {
    let id = context.ledger.id(&context.inputs.vpc.target)?;
    context.seen.ec2.vpcs.shown()?.iter().find(|vpc| vpc.id == id)
}

/// Compares the ledger with the observation. If several VPCs have the tag, none is recorded, because another management
/// cluster may own one of them. Nor is one that this cluster has not requested.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(vpcs) = seen.ec2.vpcs.shown() else { return };
    if let Some(brought) = &inputs.vpc.brought {
        let of_user = vpcs.iter().filter(|vpc| !inputs.names.owns(&vpc.tags));
        if of_user.clone().any(|vpc| vpc.id == *brought) {
            ledger.shared(&inputs.vpc.target, brought);
        }
        return ledger.update(Kind::Vpc, |id| vpcs.iter().any(|vpc| vpc.id == id).then_some(IsOwned::Yes));
    }
    let owned: Vec<&ec2::Vpc> = vpcs.iter().filter(|vpc| inputs.names.owns(&vpc.tags)).collect();
    if let [only] = owned[..]
        && ledger.id(&inputs.vpc.target).is_none()
        && !inputs.vpc.is_unproven
    {
        ledger.made(&inputs.vpc.target, &only.id);
    }
    ledger.update(Kind::Vpc, |id| {
        let shown = vpcs.iter().find(|vpc| vpc.id == id);
        shown.map(|vpc| inputs.names.ownership(&vpc.tags))
    });
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    let target = &context.inputs.vpc.target;
    let Some(vpcs) = context.seen.ec2.vpcs.shown() else {
        return;
    };
    if let Some(brought) = &context.inputs.vpc.brought {
        return check(context, brought, vpcs, plan);
    }
    let presence = context.presence(target);
    if let Some(of_capa) = &context.inputs.vpc.of_capa
        && matches!(presence, Presence::Absent | Presence::Open)
    {
        return find(context, of_capa, plan);
    }
    if context.inputs.vpc.is_unproven {
        return report_unproven(context, vpcs, plan);
    }
    if matches!(presence, Presence::Absent | Presence::Open) && vpcs.len() > 1 {
        let ids: Vec<&str> = vpcs.iter().map(|vpc| vpc.id.as_str()).collect();
        let message = format!(
            "several VPCs have the tag that makes the cluster {} their owner: {}; remove the tag from those that are \
             not this cluster's",
            context.inputs.names.cluster,
            ids.join(", ")
        );
        return plan.problem(target, Reason::Conflict, message);
    }
    if context.is_deleted {
        return delete(context, plan);
    }
    match presence {
        Presence::Absent => {
            let call = Call::<Id>::CreateVpc {
                cidr_block: context.inputs.vpc.cidr_block.clone(),
                tags: context.inputs.vpc.tags.clone(),
            };
            // A spec with any problem creates nothing.
            let problems = context.inputs.problems.iter().map(|problem| problem.target.clone());
            plan.step_after(target, Why::Missing, call, problems);
        }
        Presence::Open | Presence::Hidden(_) => {
            plan.wait(target, Reason::Creating, "AWS does not show the VPC");
        }
        Presence::Vanished(id) => {
            let message = format!(
                "{id} does not exist any more, and a VPC with other subnets would not be the same network: delete the \
                 Cluster, and create it again"
            );
            plan.problem(target, Reason::NotFound, message);
        }
        Presence::Foreign(id) => plan.problem(target, Reason::NotOwned, context.inputs.names.lacks_tag(id)),
        Presence::Shown(id) => keep(context, id, plan),
    }
}

/// Checks whether the VPC of the user exists. A VPC with the tag of the cluster may be one that the provider has
/// created before the status was lost.
fn check(context: &PlanContext<'_>, brought: &str, vpcs: &[ec2::Vpc], plan: &mut Plan) {
    let names = &context.inputs.names;
    let target = &context.inputs.vpc.target;
    match (vpcs.iter().find(|vpc| vpc.id == brought), context.presence(target)) {
        // A deleted cluster for which nothing was created ends, whoever owns the VPC.
        _ if context.is_deleted && !context.inputs.has_begun => {}
        (Some(vpc), Presence::Absent | Presence::Open) if names.owns(&vpc.tags) => {
            let message = format!(
                "{brought} has the tag {tag} = owned, and network.vpc.id says that it is yours. If it is, remove the \
                 tag. If it was made for this cluster, set {tag}: owned in network.vpc.tags: it is deleted with the \
                 cluster then",
                tag = meta::cluster_tag(&names.cluster)
            );
            plan.problem(target, Reason::Conflict, message);
        }
        (Some(_), _) => {}
        (None, _) if context.is_deleted => {}
        (None, Presence::Hidden(_)) => {
            let message = format!("AWS does not show {brought} at the moment");
            plan.wait(target, Reason::NotFound, message);
        }
        (None, _) if context.inputs.has_begun => {
            let message = format!(
                "{brought} does not exist any more, and with it the network of the cluster: delete the Cluster, and \
                 create it again"
            );
            plan.problem(target, Reason::NotFound, message);
        }
        (None, _) => {
            let message = format!(
                "AWS shows no VPC {brought} in this account and region: correct the identity or the region, or create \
                 the cluster again with another network.vpc.id"
            );
            plan.problem(target, Reason::NotFound, message);
        }
    }
}

/// The problem that prevents the provider from taking over the VPC that CAPA has created. No other VPC replaces it.
fn find(context: &PlanContext<'_>, of_capa: &str, plan: &mut Plan) {
    let target = &context.inputs.vpc.target;
    if context.inputs.vpc.is_unproven {
        let message = format!(
            "network.vpc.tags says that {of_capa} was made for this cluster, and {}. If it is yours, remove \
             network.vpc.tags",
            context.inputs.names.lacks_tag(of_capa)
        );
        plan.problem(target, Reason::NotOwned, message);
    } else if context.presence(target) == Presence::Open {
        plan.wait(target, Reason::Creating, format!("AWS does not show {of_capa}"));
    } else if !context.is_deleted {
        let message = format!(
            "AWS shows no VPC {of_capa} in this account and region: correct the identity or the region; if the VPC is \
             gone, delete the Cluster, and create it again without network.vpc.id"
        );
        plan.problem(target, Reason::NotFound, message);
    }
}

/// The problem of VPCs with the tag of the cluster that this cluster has not requested: another cluster of the same
/// name uses them. A deleted cluster for which nothing was created ends in spite of it.
fn report_unproven(context: &PlanContext<'_>, vpcs: &[ec2::Vpc], plan: &mut Plan) {
    if context.is_deleted && !context.inputs.has_begun {
        return;
    }
    let cluster = &context.inputs.names.cluster;
    let ids: Vec<&str> = vpcs.iter().map(|vpc| vpc.id.as_str()).collect();
    let message = format!(
        "{ids} has the tag that makes a cluster {cluster} its owner, and was not created for this AWSCluster: another \
         Cluster of this name may use it, in another management cluster or shard, or with an unmanaged AWSCluster. \
         Give this Cluster another name. If the VPC is this cluster's, set network.vpc.id to {ids} and \
         network.vpc.tags to {tag}: owned",
        ids = ids.join(", "),
        tag = meta::cluster_tag(cluster)
    );
    plan.problem(&context.inputs.vpc.target, Reason::Conflict, message);
}

fn keep(context: &PlanContext<'_>, id: &str, plan: &mut Plan) {
    let wanted = &context.inputs.vpc;
    let Some(vpc) = shown(context) else { return };
    if !vpc.is_available() {
        return plan.wait(&wanted.target, Reason::Creating, format!("{id} is {}", vpc.state));
    }
    if !vpc.cidr_blocks.contains(&wanted.cidr_block) {
        let is = vpc.cidr_blocks.join(", ");
        let message = format!(
            "{id} has the range {is}, which AWS does not change: set network.vpc.cidrBlock back from {}",
            wanted.cidr_block
        );
        return plan.problem(&wanted.target, Reason::InvalidSpec, message);
    }
    let Some(dns) = context.seen.ec2.dns.shown() else { return };
    let attributes = wanted.target.part(Kind::VpcAttributes);
    // DNS host names require DNS support, so it is enabled first.
    let (attribute, field) = match (dns.support, dns.hostnames) {
        (true, true) => return,
        (false, _) => (DnsAttribute::Support, "enableDnsSupport"),
        (true, false) => (DnsAttribute::Hostnames, "enableDnsHostnames"),
    };
    let why = Why::Differs { field, is: "false".to_owned(), wanted: "true".to_owned() };
    let vpc = Id::from(&wanted.target);
    plan.step(&attributes, why, Call::ModifyVpcAttribute { vpc, attribute });
}

/// Deletes the VPC last. The VPC stays while it contains resources that do not belong to the cluster.
fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    let target = &context.inputs.vpc.target;
    let Some(id) = context.deletable(target, plan) else {
        return;
    };
    let foreign = foreign(context, id);
    if !foreign.is_empty() {
        let message = format!(
            "{id} has in it what is not this cluster's, and so is not deleted: {}; remove it, and the deletion goes on",
            foreign.join(", ")
        );
        return plan.problem(target, Reason::DeletionBlocked, message);
    }
    let after = context.recorded(&[
        Kind::Subnet,
        Kind::InternetGateway,
        Kind::NatGateway,
        Kind::RouteTable,
        Kind::SecurityGroup,
        Kind::LoadBalancer,
        Kind::TargetGroup,
        Kind::ClassicLoadBalancer,
    ]);
    plan.step_after(target, Why::Unwanted, Call::DeleteVpc { vpc: Id::from(id) }, after);
}

/// The ids of resources in the VPC without the tag of the cluster.
fn foreign<'a>(context: &PlanContext<'a>, vpc: &str) -> Vec<&'a str> {
    let subnets = context.seen.ec2.subnets.shown().into_iter().flatten();
    let subnets = subnets.map(|subnet| (subnet.id.as_str(), &subnet.tags));
    let gateways = context.seen.ec2.internet_gateways.shown().into_iter().flatten();
    let gateways = gateways.filter(|gateway| gateway.vpc_id.as_deref() == Some(vpc));
    let gateways = gateways.map(|gateway| (gateway.id.as_str(), &gateway.tags));
    let nat_gateways = nat_gateway::live(context.seen).into_iter().flatten();
    let nat_gateways = nat_gateways.map(|gateway| (gateway.id.as_str(), &gateway.tags));
    let tables = context.seen.ec2.route_tables.shown().into_iter().flatten();
    let tables = tables.filter(|table| !table.is_main);
    let tables = tables.map(|table| (table.id.as_str(), &table.tags));
    let groups = context.seen.ec2.security_groups.shown().into_iter().flatten();
    let groups = groups.filter(|group| group.name != default_security_group::NAME);
    let groups = groups.map(|group| (group.id.as_str(), &group.tags));
    let balancers = context.seen.elb.load_balancers.shown().into_iter().flatten();
    let balancers = balancers.filter(|balancer| balancer.vpc_id == vpc);
    let balancers = balancers.map(|balancer| (balancer.arn.as_str(), &balancer.tags));
    let classic = context.seen.elb.classic_load_balancers.shown().into_iter().flatten();
    let classic = classic.filter(|balancer| balancer.vpc_id == vpc);
    let classic = classic.map(|balancer| (balancer.name.as_str(), &balancer.tags));
    let all = subnets.chain(gateways).chain(nat_gateways).chain(tables).chain(groups).chain(balancers).chain(classic);
    let is_foreign =
        |(id, tags): &(&str, &Tags)| !context.inputs.names.owns(tags) && context.ledger.with_id(id).is_none();
    all.filter(is_foreign).map(|(id, _)| id).collect()
}
