//! The common parts of the Elastic IPs of NAT gateways and load balancers. Pure.

use capa_api::common::Tags;
use capa_api::conditions::Reason;
use capa_cloud::ec2::nat_gateway::Call;
use capa_cloud::managed::{self, Seen};
use capa_cloud::{CloudError, ElasticIp, ec2};
use capa_network::Problem;

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::reference::{Id, Kind, Ref};
use crate::public_ipv4_pool;

/// Assigns unused addresses to the references that the spec asks for.
pub(super) fn assign_free(wanted: &[Ref], unused: &[&ElasticIp], ledger: &mut Ledger) {
    for target in wanted {
        let mut free = unused.iter().filter(|address| ledger.is_free(&address.allocation_id, wanted));
        if let Some(address) = free.next() {
            ledger.found(target, &address.allocation_id, wanted);
        }
    }
}

/// Compares the ledger with an observation of all addresses, `owned` ones of this kind among them.
pub(super) fn update_ledger(
    kind: Kind,
    inputs: &Inputs,
    addresses: &[ElasticIp],
    owned: &[&ElasticIp],
    ledger: &mut Ledger,
) {
    for address in owned {
        ledger.surplus(kind, &address.allocation_id);
    }
    ledger.update(kind, |id| {
        let shown = addresses.iter().find(|address| address.allocation_id == id);
        shown.map(|address| inputs.names.ownership(&address.tags))
    });
}

/// Allocates an address unless it is there.
pub(super) fn allocate(context: &PlanContext<'_>, target: &Ref, tags: Tags, after: Vec<Ref>, plan: &mut Plan) {
    if context.wanted(target, plan) != Some(Wanted::Missing) {
        return;
    }
    if let Err(Some(error)) = context.seen.ec2.addresses.answer() {
        return plan.problem(target, error.class.reason(), not_shown(error));
    }
    let free = match &context.seen.ec2.free_addresses {
        Seen::Shown(free) => *free,
        Seen::Failed(error) => {
            let message = format!("the free addresses of the public IPv4 pool cannot be looked up: {error}");
            return plan.problem(target, error.class.reason(), message);
        }
        Seen::NotAsked if context.inputs.elastic_ip_pool.is_some() => {
            // An observation of a cluster at rest does not read the pool.
            return plan.wait(target, Reason::Creating, "the next observation asks for the public IPv4 pool");
        }
        Seen::NotAsked => 0,
    };
    match pool(context.inputs, free, plan) {
        Ok(public_ipv4_pool) => {
            let call = Call::<Id>::AllocateAddress { public_ipv4_pool, tags };
            plan.step_after(target, Why::Missing, call, after);
        }
        Err(problem) => plan.problem(target, problem.reason, problem.message),
    }
}

/// The pool of the next address. `free` addresses of the pool are available before the plan. `None`: Amazon's
/// addresses.
fn pool(inputs: &Inputs, free: u32, plan: &Plan) -> Result<Option<String>, Problem> {
    let Some(pool) = &inputs.elastic_ip_pool else {
        return Ok(None);
    };
    let planned = plan.steps.iter().filter(|step| takes_from_pool(&step.call)).count();
    let planned = u32::try_from(planned).unwrap_or(u32::MAX);
    let pool = public_ipv4_pool::to_allocate_from(pool, free.saturating_sub(planned))?;
    Ok(pool.map(str::to_owned))
}

fn takes_from_pool(call: &managed::Call<Id>) -> bool {
    matches!(call, managed::Call::Ec2(ec2::Call::NatGateway(Call::AllocateAddress { public_ipv4_pool: Some(_), .. })))
}

fn not_shown(error: &CloudError) -> String {
    format!("the Elastic IPs cannot be read, so those of the cluster are unknown: {error}")
}

/// The addresses of a kind that may be released, with their ids.
pub(super) fn deletable<'a>(context: &'a PlanContext<'_>, kind: Kind, plan: &mut Plan) -> Vec<(&'a Ref, &'a str)> {
    let mut deletable = vec![];
    for target in context.ledger.of_kind(kind) {
        if let Err(Some(error)) = context.seen.ec2.addresses.answer()
            && context.ledger.may_exist(target)
        {
            plan.problem(target, error.class.reason(), not_shown(error));
        } else if let Some(id) = context.deletable(target, plan) {
            deletable.push((target, id));
        }
    }
    deletable
}
