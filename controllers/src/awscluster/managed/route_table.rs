//! Route tables: one for each subnet, with its default route and its association. Pure.

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, Reason};
use capa_api::meta;
use capa_cloud::ec2::RouteTable;
use capa_cloud::ec2::route_table::{ANYWHERE, Call, NewRouteTarget};
use capa_cloud::managed::Observed;

use super::inputs::{Inputs, WantedSubnet};
use super::ledger::{Ledger, Presence};
use super::plan::{Plan, PlanContext, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{Id, Kind, Ref};

/// The planner of the route tables.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::RouteTable, Kind::Route, Kind::RouteTableAssociation],
    condition: ConditionType::RouteTablesReady,
    waiting: Reason::WaitingForVpc,
    is_optional: false,
    only_in_managed_vpc: true,
    wanted: |inputs| inputs.subnets.iter().map(table_of).collect(),
    tags: |inputs| {
        let wanted = inputs.subnets.iter();
        wanted.map(|subnet| (table_of(subnet), tags(inputs, subnet))).collect()
    },
    tags_shown: |seen| tags_by_id(&seen.ec2.route_tables, |table| (&table.id, &table.tags)),
    answer: |seen| seen.ec2.route_tables.answer(),
    update_ledger,
    plan,
};

/// The route table of a subnet.
fn table_of(subnet: &WantedSubnet) -> Ref {
    subnet.target.part(Kind::RouteTable)
}

fn tags(inputs: &Inputs, subnet: &WantedSubnet) -> Tags {
    let name = inputs.names.route_table(subnet.is_public, &subnet.zone);
    inputs.names.route_table_tags(&name)
}

/// Compares the ledger with the observation. A table with the tag of the cluster belongs to it. The association with
/// the subnet, or the name of a table without an association, identifies the wanted one. Others are recorded under
/// their ids, and deleted with the cluster.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(tables) = seen.ec2.route_tables.shown() else {
        return;
    };
    let owned = tables.iter().filter(|table| !table.is_main && inputs.names.owns(&table.tags));
    let names = (PLANNER.wanted)(inputs);
    for wanted in &inputs.subnets {
        let subnet = ledger.id(&wanted.target);
        let mut of_subnet =
            owned.clone().filter(|table| subnet.is_some_and(|subnet| table.association_of(subnet).is_some()));
        if let Some(table) = of_subnet.next() {
            ledger.found(&table_of(wanted), &table.id, &names);
        }
    }
    for wanted in &inputs.subnets {
        let name = inputs.names.route_table(wanted.is_public, &wanted.zone);
        if may_get_an_answer(inputs, &name, ledger) {
            continue;
        }
        let mut unused = owned.clone().filter(|table| {
            table.associations.is_empty()
                && table.tags.get(meta::NAME_TAG) == Some(&name)
                && ledger.is_free(&table.id, &names)
        });
        if let Some(table) = unused.next() {
            ledger.found(&table_of(wanted), &table.id, &names);
        }
    }
    for table in owned {
        ledger.surplus(Kind::RouteTable, &table.id);
    }
    ledger.update(Kind::RouteTable, |id| {
        let shown = tables.iter().find(|table| table.id == id);
        shown.map(|table| inputs.names.ownership(&table.tags))
    });
}

/// Whether a call may have created a table with this name, so that the answer to its repetition identifies the table.
/// The tables of subnets of one class and zone have the same name.
fn may_get_an_answer(inputs: &Inputs, name: &str, ledger: &Ledger) -> bool {
    let mut subnets = inputs.subnets.iter();
    subnets.any(|subnet| {
        let is_of_name = inputs.names.route_table(subnet.is_public, &subnet.zone) == name;
        is_of_name && ledger.client_token(&table_of(subnet)).is_some()
    })
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    if context.is_unseen(&context.seen.ec2.route_tables) {
        return;
    }
    if context.is_deleted {
        return delete(context, plan);
    }
    for subnet in &context.inputs.subnets {
        let target = &table_of(subnet);
        match context.presence(target) {
            Presence::Open if context.ledger.client_token(target).is_none() => not_shown(target, plan),
            Presence::Hidden(_) => not_shown(target, plan),
            Presence::Foreign(id) => plan.problem(target, Reason::NotOwned, context.inputs.names.lacks_tag(id)),
            Presence::Absent | Presence::Open | Presence::Vanished(_) => create(context, subnet, target, plan),
            Presence::Shown(id) => keep(context, subnet, id, plan),
        }
    }
}

fn not_shown(target: &Ref, plan: &mut Plan) {
    plan.wait(target, Reason::Creating, "AWS does not show the route table");
}

fn create(context: &PlanContext<'_>, subnet: &WantedSubnet, target: &Ref, plan: &mut Plan) {
    let call = Call::CreateRouteTable {
        vpc: Id::from(&context.inputs.vpc.target),
        client_token: context.client_token(target),
        tags: tags(context.inputs, subnet),
    };
    plan.step(target, Why::Missing, call);
}

/// Keeps the default route and the association of a table.
fn keep(context: &PlanContext<'_>, subnet: &WantedSubnet, id: &str, plan: &mut Plan) {
    let mut tables = context.seen.ec2.route_tables.shown().into_iter().flatten();
    let Some(table) = tables.find(|table| table.id == id) else {
        return;
    };
    route(context, subnet, table, plan);
    associate(context, subnet, table, plan);
}

/// The gateway for the outgoing traffic of a subnet; `None` for a private subnet without a NAT gateway.
fn gateway<'a>(inputs: &'a Inputs, subnet: &WantedSubnet) -> Option<(&'a Ref, NewRouteTarget<Id>)> {
    if subnet.is_public {
        let gateway = &inputs.internet_gateway;
        return Some((gateway, NewRouteTarget::InternetGateway(Id::from(gateway))));
    }
    let of_zone = Ref::new(Kind::NatGateway, &subnet.zone);
    let mut gateways = inputs.nat_gateways.iter().map(|gateway| &gateway.target);
    let gateway = gateways.find(|gateway| **gateway == of_zone)?;
    Some((gateway, NewRouteTarget::NatGateway(Id::from(gateway))))
}

fn route(context: &PlanContext<'_>, subnet: &WantedSubnet, table: &RouteTable, plan: &mut Plan) {
    let Some((gateway, target)) = gateway(context.inputs, subnet) else {
        return;
    };
    let wanted = context.ledger.id(gateway);
    let is = table.default_target();
    if wanted.is_some() && is == wanted {
        return;
    }
    let (table, destination) = (Id::from(table.id.as_str()), ANYWHERE.to_owned());
    let (why, call) = match is {
        None => (Why::Missing, Call::CreateRoute { table, destination, target }),
        Some(is) => {
            let why =
                Why::Differs { field: "target", is: is.to_owned(), wanted: wanted.unwrap_or(&gateway.name).to_owned() };
            let call = Call::ReplaceRoute { table, destination, target };
            (why, call)
        }
    };
    let attachment = context.inputs.internet_gateway.part(Kind::InternetGatewayAttachment);
    let after = [attachment, subnet.target.clone()];
    plan.step_after(&subnet.target.part(Kind::Route), why, call, after);
}

fn associate(context: &PlanContext<'_>, subnet: &WantedSubnet, table: &RouteTable, plan: &mut Plan) {
    let target = subnet.target.part(Kind::RouteTableAssociation);
    let id = context.ledger.id(&subnet.target);
    if id.is_some_and(|id| table.association_of(id).is_some()) {
        return;
    }
    let mut tables = context.seen.ec2.route_tables.shown().into_iter().flatten();
    let other = id.and_then(|id| tables.find_map(|other| Some((other, other.association_of(id)?))));
    let Some((other, association)) = other else {
        let call = Call::AssociateRouteTable { table: Id::from(table.id.as_str()), subnet: Id::from(&subnet.target) };
        return plan.step(&target, Why::Missing, call);
    };
    if !context.inputs.names.owns(&other.tags) {
        let message = format!(
            "the subnet {} uses {}, which is not this cluster's: remove the association, and the provider makes its \
             own",
            subnet.target.name, other.id
        );
        return plan.problem(&target, Reason::Conflict, message);
    }
    let why = Why::Differs { field: "routeTableId", is: other.id.clone(), wanted: table.id.clone() };
    let call =
        Call::ReplaceRouteTableAssociation { association: Id::from(association), table: Id::from(table.id.as_str()) };
    plan.step_after(&target, why, call, [subnet.target.clone()]);
}

fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    let tables = context.seen.ec2.route_tables.shown().into_iter().flatten();
    for target in context.ledger.of_kind(Kind::RouteTable) {
        let Some(id) = context.deletable(target, plan) else {
            continue;
        };
        let of_table = tables.clone().filter(|table| table.id == id);
        // AWS deletes the main route table only with the VPC.
        if of_table.clone().any(|table| table.is_main) {
            continue;
        }
        let mut after = vec![];
        for association in of_table.flat_map(|table| &table.associations) {
            let subnet = context.ledger.with_id(&association.subnet_id);
            let is_own = subnet.is_some_and(|subnet| !matches!(context.presence(subnet), Presence::Foreign(_)));
            if !is_own {
                let message = format!(
                    "{id} is also that of {}, which is not this cluster's: remove the association",
                    association.subnet_id
                );
                plan.problem(target, Reason::DeletionBlocked, message);
                continue;
            }
            let part = Ref::new(Kind::RouteTableAssociation, &association.id);
            let call = Call::DisassociateRouteTable { association: Id::from(association.id.as_str()) };
            plan.step(&part, Why::Unwanted, call);
            after.push(part);
        }
        let call = Call::DeleteRouteTable { table: Id::from(id) };
        plan.step_after(target, Why::Unwanted, call, after);
    }
}
