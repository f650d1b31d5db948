//! NAT gateways. Pure.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::ElasticIp;
use capa_cloud::ec2::nat_gateway::Call;
use capa_cloud::ec2::{NatGateway, NatGatewayState};
use capa_cloud::managed::Observed;

use super::elastic_ip;
use super::inputs::{Inputs, WantedNatGateway};
use super::ledger::{Ledger, Presence};
use super::plan::{Plan, PlanContext, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{Id, Kind, Ref};

/// The time from the start of a gateway that failed to the next one. It doubles with each one that has failed.
const BACK_OFF: Duration = Duration::from_secs(30);

/// The planner of the NAT gateways.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::NatGateway, Kind::ElasticIp],
    condition: ConditionType::NatGatewaysReady,
    waiting: Reason::WaitingForSubnets,
    is_optional: true,
    only_in_managed_vpc: true,
    wanted,
    tags,
    tags_shown: |seen| {
        // Gateways that have failed or are being deleted keep their tags.
        let gateways = seen.ec2.nat_gateways.shown().into_iter().flatten();
        let gateways =
            gateways.filter(|gateway| matches!(gateway.state, NatGatewayState::Pending | NatGatewayState::Available));
        let gateways = gateways.map(|gateway| (gateway.id.as_str(), &gateway.tags));
        let addresses = tags_by_id(&seen.ec2.addresses, |address| (&address.allocation_id, &address.tags));
        gateways.chain(addresses).collect()
    },
    answer: |seen| seen.ec2.nat_gateways.answer(),
    update_ledger,
    plan,
};

fn wanted(inputs: &Inputs) -> Vec<Ref> {
    tags(inputs).into_iter().map(|(target, _)| target).collect()
}

/// The tags of the gateways and of their addresses.
fn tags(inputs: &Inputs) -> Vec<(Ref, Tags)> {
    let wanted = inputs.nat_gateways.iter();
    let pairs = wanted.flat_map(|wanted| {
        [
            (wanted.address.clone(), inputs.names.nat_gateway_address_tags()),
            (wanted.target.clone(), gateway_tags(inputs)),
        ]
    });
    pairs.collect()
}

fn gateway_tags(inputs: &Inputs) -> Tags {
    inputs.names.common_tags(&inputs.names.nat_gateway(), &Tags::new())
}

/// The gateways that AWS has not deleted. It lists others for an hour.
pub(super) fn live(seen: &Observed) -> Option<impl Iterator<Item = &NatGateway> + Clone> {
    let gateways = seen.ec2.nat_gateways.shown()?.iter();
    Some(gateways.filter(|gateway| gateway.state != NatGatewayState::Deleted))
}

/// The zone of the subnet of a gateway.
fn zone_of<'a>(seen: &'a Observed, gateway: &NatGateway) -> Option<&'a str> {
    let mut subnets = seen.ec2.subnets.shown()?.iter();
    let subnet = subnets.find(|subnet| subnet.id == gateway.subnet_id)?;
    Some(&subnet.zone)
}

/// The gateway that uses an address.
pub(super) fn user_of<'a>(seen: &'a Observed, address: &str) -> Option<&'a NatGateway> {
    live(seen)?.find(|gateway| gateway.allocation_ids.iter().any(|id| id == address))
}

fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    update_gateways(inputs, seen, ledger);
    update_addresses(inputs, seen, ledger);
}

/// The rank of a gateway as the one of its zone: the gateway with the least rank is chosen.
fn rank(gateway: &NatGateway, subnet: Option<&str>) -> (NatGatewayState, bool) {
    let state = match gateway.state {
        NatGatewayState::Pending => NatGatewayState::Available,
        state => state,
    };
    (state, Some(gateway.subnet_id.as_str()) != subnet)
}

/// Compares the ledger with the observation. A gateway with the tag of the cluster belongs to it, and its zone
/// identifies the wanted one. Others are recorded under their ids, and deleted with the cluster.
fn update_gateways(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(live) = live(seen) else { return };
    let owned = live.clone().filter(|gateway| inputs.names.owns(&gateway.tags));
    let names = wanted(inputs);
    for wanted in &inputs.nat_gateways {
        let subnet = ledger.id(&wanted.subnet);
        let is_in_zone = |gateway: &&NatGateway| zone_of(seen, gateway) == Some(wanted.target.name.as_str());
        let best = owned.clone().filter(is_in_zone).min_by_key(|gateway| rank(gateway, subnet));
        if let Some(best) = best {
            ledger.found(&wanted.target, &best.id, &names);
        }
    }
    for gateway in owned {
        ledger.surplus(Kind::NatGateway, &gateway.id);
    }
    ledger.update(Kind::NatGateway, |id| {
        let shown = live.clone().find(|gateway| gateway.id == id);
        shown.map(|gateway| inputs.names.ownership(&gateway.tags))
    });
    let listed = seen.ec2.nat_gateways.shown().into_iter().flatten();
    for gateway in listed.filter(|gateway| gateway.state == NatGatewayState::Deleted) {
        // AWS shows the gateway as ended, so its state is certain.
        if let Some(target) = ledger.with_id(&gateway.id).cloned() {
            ledger.record_gone(&target);
        }
    }
}

/// Compares the ledger with the observation. The address of a zone is that of its gateway, or else a free one. Others
/// are recorded under their ids, and released with the cluster.
fn update_addresses(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(addresses) = seen.ec2.addresses.shown() else {
        return;
    };
    let owned = addresses.iter();
    let owned = owned.filter(|address| inputs.names.owns_common(&address.tags));
    let owned: Vec<&ElasticIp> = owned.collect();
    for wanted in &inputs.nat_gateways {
        let gateway = ledger.id(&wanted.target);
        let mut of_gateway = owned.iter().filter(|address| {
            gateway.is_some() && user_of(seen, &address.allocation_id).map(|user| user.id.as_str()) == gateway
        });
        if let Some(address) = of_gateway.next() {
            ledger.assign(&wanted.address, &address.allocation_id);
        }
    }
    // AWS may show an association later than the gateway.
    let is_used =
        |address: &ElasticIp| address.association_id.is_some() || user_of(seen, &address.allocation_id).is_some();
    let unused: Vec<&ElasticIp> = owned.iter().copied().filter(|address| !is_used(address)).collect();
    let wanted: Vec<Ref> = inputs.nat_gateways.iter().map(|wanted| wanted.address.clone()).collect();
    elastic_ip::assign_free(&wanted, &unused, ledger);
    elastic_ip::update_ledger(Kind::ElasticIp, inputs, addresses, &owned, ledger);
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    if context.is_unseen(&context.seen.ec2.nat_gateways) {
        return;
    }
    if context.is_deleted {
        return delete(context, plan);
    }
    for wanted in &context.inputs.nat_gateways {
        match context.presence(&wanted.target) {
            Presence::Hidden(_) => plan.wait(&wanted.target, Reason::Creating, "AWS does not show the NAT gateway"),
            Presence::Foreign(id) => {
                plan.problem(&wanted.target, Reason::NotOwned, context.inputs.names.lacks_tag(id));
            }
            Presence::Shown(id) => keep(context, wanted, id, plan),
            Presence::Absent | Presence::Open | Presence::Vanished(_) => make(context, wanted, plan),
        }
    }
    name_doubles(context, plan);
}

/// Reports two gateways of the cluster in one subnet, because one of them costs money and serves nobody. CAPA has
/// created one in each public subnet: those stay until the cluster is deleted. Deletes surplus gateways that have
/// failed.
fn name_doubles(context: &PlanContext<'_>, plan: &mut Plan) {
    for target in context.ledger.of_kind(Kind::NatGateway) {
        let Some(gateway) = shown(context, target).filter(|gateway| gateway.id == target.name) else {
            continue;
        };
        let mut others = context.ledger.of_kind(Kind::NatGateway).filter(|other| *other != target);
        let other = others.find_map(|other| {
            let stays = |found: &&NatGateway| other.name != found.id || found.id < gateway.id;
            shown(context, other).filter(|found| found.subnet_id == gateway.subnet_id).filter(stays)
        });
        match (gateway.state, other) {
            (NatGatewayState::Failed, _) => {
                let call = Call::DeleteNatGateway { gateway: Id::from(gateway.id.as_str()) };
                plan.step(target, Why::Unwanted, call);
            }
            (NatGatewayState::Pending | NatGatewayState::Available, Some(other)) => {
                let (id, subnet) = (&gateway.id, &gateway.subnet_id);
                let message = format!(
                    "{} and {id} in {subnet} both have the tag of the cluster, which needs one of them: delete {id}",
                    other.id
                );
                plan.problem(target, Reason::Conflict, message);
            }
            _ => {}
        }
    }
}

/// The recorded gateway, if AWS shows it with the tag of the cluster, and has not deleted it.
fn shown<'a>(context: &PlanContext<'a>, target: &Ref) -> Option<&'a NatGateway> {
    let Presence::Shown(id) = context.presence(target) else {
        return None;
    };
    live(context.seen)?.find(|gateway| gateway.id == id)
}

fn keep(context: &PlanContext<'_>, wanted: &WantedNatGateway, id: &str, plan: &mut Plan) {
    let target = &wanted.target;
    let Some(gateway) = shown(context, target) else { return };
    match gateway.state {
        NatGatewayState::Available | NatGatewayState::Deleted => {}
        NatGatewayState::Pending => plan.wait(target, Reason::Creating, format!("{id} is pending")),
        NatGatewayState::Deleting => {
            let message = format!("{id} is being deleted, and another one takes its place");
            plan.wait(target, Reason::Creating, message);
        }
        NatGatewayState::Failed => {
            plan.wait(target, Reason::Failed, format!("{id} could not be made: {}", words(gateway)));
            let call = Call::DeleteNatGateway { gateway: Id::from(id) };
            plan.step(target, Why::Unwanted, call);
        }
    }
}

/// Why a gateway failed.
fn words(gateway: &NatGateway) -> &str {
    gateway.failure.as_deref().unwrap_or("AWS does not say why")
}

/// Allocates the address, and creates the gateway with it.
fn make(context: &PlanContext<'_>, wanted: &WantedNatGateway, plan: &mut Plan) {
    allocate(context, wanted, plan);
    let target = &wanted.target;
    let is_repeat = context.ledger.client_token(target).is_some();
    if context.presence(target) == Presence::Open && !is_repeat {
        return plan.wait(target, Reason::Creating, "AWS does not show the NAT gateway");
    }
    if !is_repeat {
        wait_after_failure(context, wanted, plan);
        wait_for_address(context, wanted, plan);
    }
    let call = Call::CreateNatGateway {
        subnet: Id::from(&wanted.subnet),
        address: Id::from(&wanted.address),
        client_token: context.client_token(target),
        tags: gateway_tags(context.inputs),
    };
    // A gateway that is created before the VPC has an attached internet gateway fails.
    let internet_gateway = &context.inputs.internet_gateway;
    let mut after = vec![internet_gateway.clone(), internet_gateway.part(Kind::InternetGatewayAttachment)];
    after.extend(wanted.private_subnets.iter().cloned());
    plan.step_after(target, Why::Missing, call, after);
}

fn allocate(context: &PlanContext<'_>, wanted: &WantedNatGateway, plan: &mut Plan) {
    let mut after = vec![context.inputs.vpc.target.clone(), wanted.subnet.clone()];
    after.extend(wanted.private_subnets.iter().cloned());
    elastic_ip::allocate(context, &wanted.address, context.inputs.names.nat_gateway_address_tags(), after, plan);
}

/// Waits longer after each failed gateway before another one is created. AWS lists failed gateways for about an hour.
fn wait_after_failure(context: &PlanContext<'_>, wanted: &WantedNatGateway, plan: &mut Plan) {
    let subnet = context.ledger.id(&wanted.subnet);
    let listed = context.seen.ec2.nat_gateways.shown().into_iter().flatten();
    let failed: Vec<&NatGateway> = listed
        .filter(|gateway| gateway.state == NatGatewayState::Failed || gateway.failure.is_some())
        .filter(|gateway| Some(gateway.subnet_id.as_str()) == subnet)
        .filter(|gateway| context.inputs.names.owns(&gateway.tags))
        .collect();
    let Some(last) = failed.iter().max_by_key(|gateway| gateway.created_at) else {
        return;
    };
    let doublings = u32::try_from(failed.len()).unwrap_or(u32::MAX).min(8);
    let wait = BACK_OFF.saturating_mul(2_u32.saturating_pow(doublings));
    let next = last.created_at.map(|created_at| created_at + wait);
    if next.is_some_and(|next| context.ledger.now() < next) {
        let message = format!("{} could not be made: {}; another one follows", last.id, words(last));
        plan.wait(&wanted.address, Reason::Failed, message);
    }
}

/// Waits for an address that is still in use. The quota is small, so no second address is allocated.
fn wait_for_address(context: &PlanContext<'_>, wanted: &WantedNatGateway, plan: &mut Plan) {
    let Some(id) = context.ledger.id(&wanted.address) else {
        return;
    };
    let mut addresses = context.seen.ec2.addresses.shown().into_iter().flatten();
    let shown = addresses.find(|address| address.allocation_id == id);
    let association = shown.and_then(|shown| shown.association_id.as_ref());
    if let Some(user) = user_of(context.seen, id).map(|user| &user.id).or(association) {
        let message = format!("{id} is in use: it is free when {user} is gone");
        plan.wait(&wanted.address, Reason::Creating, message);
    }
}

/// A gateway keeps its address until it is gone.
fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    for target in context.ledger.of_kind(Kind::NatGateway) {
        let Some(id) = context.deletable(target, plan) else {
            continue;
        };
        if shown(context, target).is_some_and(|gateway| gateway.state == NatGatewayState::Deleting) {
            plan.wait(target, Reason::Deleting, format!("{id} is being deleted"));
        } else {
            let call = Call::DeleteNatGateway { gateway: Id::from(id) };
            plan.step(target, Why::Unwanted, call);
        }
    }
    for (target, id) in elastic_ip::deletable(context, Kind::ElasticIp, plan) {
        let call = Call::ReleaseAddress { address: Id::from(id) };
        plan.step_after(target, Why::Unwanted, call, context.recorded(&[Kind::NatGateway]));
    }
}
