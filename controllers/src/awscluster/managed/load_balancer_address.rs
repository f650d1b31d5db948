//! Elastic IPs of network load balancers, where the user has a pool of them. Pure.

use capa_api::common::Tags;
use capa_api::conditions::Reason;
use capa_cloud::ElasticIp;
use capa_cloud::ec2::nat_gateway::Call;
use capa_cloud::managed::Observed;

use super::attachments;
use super::balancers::WantedLoadBalancer;
use super::elastic_ip;
use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext, Why};
use super::reference::{Id, Kind, Ref};

/// The addresses that the spec asks for.
pub(super) fn wanted(inputs: &Inputs) -> impl Iterator<Item = Ref> {
    inputs.load_balancers.iter().flat_map(|wanted| wanted.addresses.clone())
}

/// The tags of the addresses.
pub(super) fn tags(inputs: &Inputs) -> impl Iterator<Item = (Ref, Tags)> {
    wanted(inputs).map(|target| (target, inputs.names.load_balancer_address_tags()))
}

/// Compares the ledger with the observation. At most one load balancer is internet-facing, and its addresses are
/// interchangeable.
pub(super) fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(addresses) = seen.ec2.addresses.shown() else {
        return;
    };
    let owned = addresses.iter();
    let owned = owned.filter(|address| inputs.names.owns_load_balancer_address(&address.tags));
    let owned: Vec<&ElasticIp> = owned.collect();
    let wanted: Vec<Ref> = wanted(inputs).collect();
    elastic_ip::assign_free(&wanted, &owned, ledger);
    elastic_ip::update_ledger(Kind::LoadBalancerAddress, inputs, addresses, &owned, ledger);
}

/// Allocates the addresses of a load balancer that is to be created.
pub(super) fn allocate(context: &PlanContext<'_>, wanted: &WantedLoadBalancer, plan: &mut Plan) {
    for address in &wanted.addresses {
        let tags = context.inputs.names.load_balancer_address_tags();
        elastic_ip::allocate(context, address, tags, attachments::needed(context), plan);
    }
}

/// Releases addresses that no load balancer uses. AWS disassociates an address some time after it has deleted the load
/// balancer.
pub(super) fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    let mut users = context.recorded(&[Kind::LoadBalancer]);
    users.retain(|user| context.presence(user).may_exist());
    for (target, id) in elastic_ip::deletable(context, Kind::LoadBalancerAddress, plan) {
        let mut addresses = context.seen.ec2.addresses.shown().into_iter().flatten();
        let shown = addresses.find(|address| address.allocation_id == id);
        match shown.and_then(|address| address.association_id.as_deref()) {
            Some(association) if users.is_empty() => {
                let message = format!("{id} is released once AWS has ended its association {association}");
                plan.wait(target, Reason::Deleting, message);
            }
            _ => {
                let call = Call::ReleaseAddress { address: Id::from(id) };
                plan.step_after(target, Why::Unwanted, call, users.clone());
            }
        }
    }
}
