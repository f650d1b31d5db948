//! Subnets and their attributes. Pure.

use std::collections::BTreeSet;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::meta;
use capa_cloud::ec2;
use capa_cloud::ec2::subnet::{Attribute, Call};
use capa_cloud::managed::Observed;

use super::inputs::{Inputs, WantedSubnet, shown_name};
use super::ledger::{IsOwned, Ledger};
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{HAVE_INTERFACES, Id, Kind, Ref};

/// The planner of the subnets.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::Subnet, Kind::SubnetAttributes],
    condition: ConditionType::SubnetsReady,
    waiting: Reason::WaitingForVpc,
    is_optional: false,
    only_in_managed_vpc: false,
    wanted: |inputs| inputs.subnets.iter().map(|subnet| subnet.target.clone()).collect(),
    tags: |inputs| {
        let wanted = inputs.subnets.iter();
        wanted.map(|subnet| (subnet.target.clone(), subnet.tags.clone())).collect()
    },
    tags_shown: |seen| tags_by_id(&seen.ec2.subnets, |subnet| (&subnet.id, &subnet.tags)),
    answer: |seen| seen.ec2.subnets.answer(),
    update_ledger,
    plan,
};

/// Compares the ledger with the observation. A subnet with the tag of the cluster belongs to it, and its range
/// identifies the wanted one. Other subnets with the tag are recorded under their names.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(subnets) = seen.ec2.subnets.shown() else {
        return;
    };
    if inputs.vpc.brought.is_some() {
        for wanted in &inputs.subnets {
            ledger.shared(&wanted.target, &wanted.target.name);
        }
        let shared = ledger.of_kind(Kind::Subnet).filter(|target| ledger.is_shared(target));
        let shared: BTreeSet<String> = shared.map(|target| target.name.clone()).collect();
        return ledger.update(Kind::Subnet, |id| {
            let shown = subnets.iter().find(|subnet| subnet.id == id)?;
            // Another entry comes from a time at which the VPC did not belong to the user.
            let is_listed = shared.contains(id);
            Some(if is_listed { IsOwned::Yes } else { inputs.names.ownership(&shown.tags) })
        });
    }
    let owned: Vec<&ec2::Subnet> = subnets.iter().filter(|subnet| inputs.names.owns(&subnet.tags)).collect();
    let names = (PLANNER.wanted)(inputs);
    for wanted in &inputs.subnets {
        let range = wanted.cidr_block.to_string();
        let Some(found) = owned.iter().find(|subnet| subnet.cidr_block == range) else {
            continue;
        };
        ledger.found(&wanted.target, &found.id, &names);
    }
    for subnet in &owned {
        if ledger.with_id(&subnet.id).is_none() {
            let name = shown_name(&subnet.tags, &subnet.id);
            let mut target = Ref::new(Kind::Subnet, name);
            if ledger.id(&target).is_some() || names.contains(&target) {
                target = Ref::new(Kind::Subnet, &subnet.id);
            }
            ledger.made(&target, &subnet.id);
        }
    }
    ledger.update(Kind::Subnet, |id| {
        let shown = subnets.iter().find(|subnet| subnet.id == id);
        shown.map(|subnet| inputs.names.ownership(&subnet.tags))
    });
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    if context.inputs.vpc.brought.is_some() && !context.is_deleted {
        return check(context, plan);
    }
    if context.is_unseen(&context.seen.ec2.subnets) {
        return;
    }
    if context.is_deleted {
        return delete(context, plan);
    }
    for wanted in &context.inputs.subnets {
        match context.wanted(&wanted.target, plan) {
            Some(Wanted::Missing) => create(context, wanted, plan),
            Some(Wanted::Shown(id)) => keep(context, wanted, id, plan),
            None => {}
        }
    }
}

/// Adds a problem or a wait if AWS does not show the user's subnets and their routes, which determine which subnets are
/// public. Other errors in these subnets are problems of the spec.
fn check(context: &PlanContext<'_>, plan: &mut Plan) {
    let subnets = context.inputs.vpc.target.part(Kind::Subnet);
    let ec2 = &context.seen.ec2;
    let answers = [ec2.subnets.answer(), ec2.route_tables.answer()];
    for error in answers.into_iter().filter_map(|answer| answer.err().flatten()) {
        plan.problem(&subnets, error.class.reason(), error.to_string());
    }
    let is_shown = answers.into_iter().all(|answer| answer.is_ok());
    if is_shown && context.inputs.subnets.is_empty() && context.inputs.problems.is_empty() {
        let message = "AWS does not show the main route table of the VPC, without which nobody knows whether a subnet \
                       is public";
        plan.wait(&subnets, Reason::WaitingForVpc, message);
    }
}

fn create(context: &PlanContext<'_>, wanted: &WantedSubnet, plan: &mut Plan) {
    let call = Call::CreateSubnet {
        vpc: Id::from(&context.inputs.vpc.target),
        cidr_block: wanted.cidr_block.to_string(),
        zone: wanted.zone.clone(),
        tags: wanted.tags.clone(),
    };
    let mut secondary = context.inputs.secondary_cidr_blocks.iter().copied();
    let secondary = secondary.find(|range| range.contains(&wanted.cidr_block));
    plan.step_after(&wanted.target, Why::Missing, call, secondary.map(Ref::secondary_cidr_block));
}

fn keep(context: &PlanContext<'_>, wanted: &WantedSubnet, id: &str, plan: &mut Plan) {
    let mut subnets = context.seen.ec2.subnets.shown().into_iter().flatten();
    let Some(subnet) = subnets.find(|subnet| subnet.id == id) else {
        return;
    };
    let target = &wanted.target;
    if subnet.cidr_block != wanted.cidr_block.to_string() || subnet.zone != wanted.zone {
        let message = format!(
            "{id} has the range {} in {}, which AWS does not change: set {} back from {} in {}, or list a subnet with \
             another id",
            subnet.cidr_block, subnet.zone, target.name, wanted.cidr_block, wanted.zone
        );
        return plan.problem(target, Reason::InvalidSpec, message);
    }
    let class = subnet.tags.get(meta::ROLE_TAG);
    if class.is_some_and(|class| Some(class) != wanted.tags.get(meta::ROLE_TAG)) {
        let message = format!(
            "{id} was created with isPublic: {}, which does not change: set isPublic of {} back, or list a subnet with \
             another id and range",
            !wanted.is_public, target.name
        );
        return plan.problem(target, Reason::InvalidSpec, message);
    }
    if !subnet.is_available() {
        return plan.wait(target, Reason::Creating, format!("{id} is {}", subnet.state));
    }
    let attributes = target.part(Kind::SubnetAttributes);
    let mut change = |field, is: String, to: String, attribute| {
        let why = Why::Differs { field, is, wanted: to };
        let subnet = Id::from(target);
        plan.step(&attributes, why, Call::ModifySubnetAttribute { subnet, attribute });
    };
    if wanted.is_public != subnet.assigns_public_ip {
        let attribute = Attribute::MapPublicIpOnLaunch(wanted.is_public);
        let [is, to] = [subnet.assigns_public_ip, wanted.is_public].map(|value| value.to_string());
        change("mapPublicIpOnLaunch", is, to, attribute);
    } else if let Some(form) = context.inputs.hostname_type
        && subnet.hostname_type != Some(form)
    {
        let shown = |form: capa_api::common::HostnameType| <&str>::from(form).to_owned();
        let is = subnet.hostname_type.map(shown).unwrap_or_default();
        change("privateDnsHostnameTypeOnLaunch", is, shown(form), Attribute::HostnameType(form));
    }
}

fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    let users = context.recorded(&HAVE_INTERFACES);
    for target in context.ledger.of_kind(Kind::Subnet) {
        if let Some(id) = context.deletable(target, plan) {
            let call = Call::DeleteSubnet { subnet: Id::from(id) };
            plan.step_after(target, Why::Unwanted, call, users.clone());
        }
    }
}
