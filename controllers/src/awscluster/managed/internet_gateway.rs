//! The internet gateway and its attachment to the VPC. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::ec2;
use capa_cloud::ec2::internet_gateway::Call;
use capa_cloud::managed::Observed;

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{HAVE_INTERFACES, Id, Kind, Ref};

/// The planner of the internet gateway.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::InternetGateway, Kind::InternetGatewayAttachment],
    condition: ConditionType::InternetGatewayReady,
    waiting: Reason::WaitingForVpc,
    is_optional: false,
    only_in_managed_vpc: true,
    wanted: |inputs| vec![inputs.internet_gateway.clone()],
    tags: |inputs| vec![(inputs.internet_gateway.clone(), inputs.internet_gateway_tags.clone())],
    tags_shown: |seen| tags_by_id(&seen.ec2.internet_gateways, |gateway| (&gateway.id, &gateway.tags)),
    answer: |seen| seen.ec2.internet_gateways.answer(),
    update_ledger,
    plan,
};

/// Compares the ledger with the observation. Of several gateways with the tag of the cluster, the attached one counts.
/// The others are recorded under their ids, and deleted with the cluster.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(gateways) = seen.ec2.internet_gateways.shown() else {
        return;
    };
    let vpc = ledger.id(&inputs.vpc.target).map(str::to_owned);
    let mut owned: Vec<&ec2::InternetGateway> = gateways
        .iter()
        .filter(|gateway| inputs.names.owns(&gateway.tags))
        .filter(|gateway| gateway.vpc_id.is_none() || gateway.vpc_id == vpc)
        .collect();
    owned.sort_by_key(|gateway| (gateway.vpc_id.is_none(), gateway.id.clone()));
    let names = (PLANNER.wanted)(inputs);
    for gateway in owned {
        ledger.found(&inputs.internet_gateway, &gateway.id, &names);
        ledger.surplus(Kind::InternetGateway, &gateway.id);
    }
    ledger.update(Kind::InternetGateway, |id| {
        let shown = gateways.iter().find(|gateway| gateway.id == id);
        shown.map(|gateway| inputs.names.ownership(&gateway.tags))
    });
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    let target = &context.inputs.internet_gateway;
    let Some(gateways) = context.seen.ec2.internet_gateways.shown() else {
        return;
    };
    if context.is_deleted {
        return delete(context, gateways, plan);
    }
    match context.wanted(target, plan) {
        Some(Wanted::Missing) if context.seen.ec2.vpcs.shown().is_none() => {
            plan.wait(target, Reason::WaitingForVpc, "AWS does not show the VPC");
        }
        // The gateway itself needs no VPC. A VPC that AWS refuses must not leave a gateway behind.
        Some(Wanted::Missing) => plan.step_after(
            target,
            Why::Missing,
            Call::<Id>::CreateInternetGateway { tags: context.inputs.internet_gateway_tags.clone() },
            [context.inputs.vpc.target.clone()],
        ),
        Some(Wanted::Shown(id)) => attach(context, gateways, id, plan),
        None => {}
    }
}

fn attach(context: &PlanContext<'_>, gateways: &[ec2::InternetGateway], id: &str, plan: &mut Plan) {
    let vpc = context.ledger.id(&context.inputs.vpc.target);
    let attachment = context.inputs.internet_gateway.part(Kind::InternetGatewayAttachment);
    let own = gateways.iter().find(|gateway| gateway.id == id);
    let attached = own.and_then(|gateway| gateway.vpc_id.as_deref());
    if vpc.is_some() && attached == vpc {
        return;
    }
    if let Some(elsewhere) = attached {
        let message = format!(
            "{id} of this cluster is attached to {elsewhere}: detach it, so that it can be attached to the cluster's \
             VPC"
        );
        return plan.problem(&attachment, Reason::Conflict, message);
    }
    let in_the_way = gateways.iter().find(|other| other.id != id && other.vpc_id.as_deref() == vpc);
    if let Some(foreign) = in_the_way {
        let message = format!(
            "{} is attached to the VPC and is not this cluster's, and a VPC has one internet gateway only: detach it",
            foreign.id
        );
        return plan.problem(&attachment, Reason::Conflict, message);
    }
    let call = Call::AttachInternetGateway {
        gateway: Id::from(&context.inputs.internet_gateway),
        vpc: Id::from(&context.inputs.vpc.target),
    };
    plan.step(&attachment, Why::Missing, call);
}

fn delete(context: &PlanContext<'_>, gateways: &[ec2::InternetGateway], plan: &mut Plan) {
    for target in context.ledger.of_kind(Kind::InternetGateway) {
        if let Some(id) = context.deletable(target, plan) {
            let gateway = gateways.iter().find(|gateway| gateway.id == id);
            let attached = gateway.and_then(|gateway| gateway.vpc_id.as_deref());
            delete_one(context, target, id, attached, plan);
        }
    }
}

/// Detaches and deletes one gateway.
fn delete_one(context: &PlanContext<'_>, target: &Ref, id: &str, attached: Option<&str>, plan: &mut Plan) {
    let attachment = target.part(Kind::InternetGatewayAttachment);
    if let Some(vpc) = attached {
        if context.ledger.id(&context.inputs.vpc.target) != Some(vpc) {
            let message = format!("{id} is attached to {vpc}, which is not this cluster's: detach it");
            return plan.problem(target, Reason::DeletionBlocked, message);
        }
        let call = Call::DetachInternetGateway { gateway: Id::from(id), vpc: Id::from(vpc) };
        // Traffic to the public addresses of NAT gateways and load balancers uses the gateway.
        let users = context.recorded(&HAVE_INTERFACES);
        plan.step_after(&attachment, Why::Unwanted, call, users);
    }
    let call = Call::DeleteInternetGateway { gateway: Id::from(id) };
    plan.step_after(target, Why::Unwanted, call, [attachment]);
}
