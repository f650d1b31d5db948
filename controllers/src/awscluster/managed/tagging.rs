//! Tags of existing resources: tags are added and removed as the spec changes, and tags of other users stay. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::common::Tags;
use capa_api::meta;
use capa_cloud::managed::{Call, Observed};
use capa_cloud::{ec2, elb};

use super::inputs::Inputs;
use super::ledger::{Ledger, Presence};
use super::names::MAX_TAGS;
use super::plan::{Plan, PlanContext, Why};
use super::planner::Planner;
use super::reference::{Id, Kind, Ref};

/// The most characters of the key of a tag.
const MAX_KEY_CHARACTERS: usize = 128;

/// Compares the recorded keys with the tags that an observation shows. A tag that has the value in the spec counts as
/// set by the provider, also after a lost status and on resources that CAPA has created. A key that neither the
/// resource nor the spec has is forgotten: if somebody sets it later, it belongs to them.
pub(super) fn update_ledger(planner: &Planner, inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let shown = owned(planner, inputs, seen);
    for (target, wanted) in (planner.tags)(inputs) {
        let Some(is) = ledger.id(&target).and_then(|id| shown.get(id)) else {
            continue;
        };
        ledger.retain_tag_keys(&target, |key| is.contains_key(key) || wanted.contains_key(key));
        let equal = wanted.iter().filter(|(key, value)| is.get(*key) == Some(value));
        ledger.record_tag_keys(&target, keys_of_spec(inputs, equal.map(|(key, _)| key)));
    }
}

/// The tags, by id, of the resources that AWS shows with the tag of the cluster. AWS may not show the tags of a new
/// resource yet.
fn owned<'a>(planner: &Planner, inputs: &Inputs, seen: &'a Observed) -> BTreeMap<&'a str, &'a Tags> {
    let shown = (planner.tags_shown)(seen).into_iter();
    shown.filter(|(_, tags)| inputs.names.owns(tags)).collect()
}

/// Records the tags that a step may write on a resource before the step is taken, so that the provider can remove them
/// after any change of the spec. `wanted` are the tags that the resource is to have. Returns whether any of them is
/// new.
pub(super) fn record(target: &Ref, wanted: &Tags, inputs: &Inputs, ledger: &mut Ledger) -> bool {
    ledger.record_tag_keys(target, keys_of_spec(inputs, wanted.keys()))
}

/// The keys of tags that can be removed from the spec, and that AWS accepts.
fn keys_of_spec<'a>(inputs: &Inputs, keys: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let of_cluster = meta::cluster_tag(&inputs.names.cluster);
    let can_leave = |key: &&String| {
        let is_fixed = [meta::NAME_TAG, meta::ROLE_TAG, &of_cluster].contains(&key.as_str());
        !is_fixed && (1..=MAX_KEY_CHARACTERS).contains(&key.chars().count())
    };
    keys.filter(can_leave).cloned().collect()
}

/// Adds missing tags to the resources of a planner, and removes tags that the provider has written and the spec no
/// longer names. A resource that AWS shows without its tags at the moment, or about which the spec has a problem, stays
/// unchanged.
pub(super) fn plan(planner: &Planner, context: &PlanContext<'_>, plan: &mut Plan) {
    if !context.inputs.problems.is_empty() {
        return;
    }
    let shown = owned(planner, context.inputs, context.seen);
    for (target, wanted) in (planner.tags)(context.inputs) {
        // A route table has the name of its subnet.
        let has_problem = plan.problems.iter().any(|problem| problem.target.name == target.name);
        let Presence::Shown(id) = context.presence(&target) else {
            continue;
        };
        if has_problem || context.ledger.is_shared(&target) {
            continue;
        }
        if let Some(is) = shown.get(id) {
            correct(context, &target, id, is, &wanted, plan);
        }
    }
}

/// Changes the values of tags, removes tags, and adds tags once there is room for them. A refused call blocks no other
/// one. The role tag stays unchanged, because it shows for what the resource was created, and the provider's IAM policy
/// requires it.
fn correct(context: &PlanContext<'_>, target: &Ref, id: &str, is: &Tags, wanted: &Tags, plan: &mut Plan) {
    let is_surplus = |key: &&String| is.contains_key(*key) && !wanted.contains_key(*key);
    let surplus: BTreeSet<String> = context.ledger.tag_keys(target).filter(is_surplus).cloned().collect();
    let others = wanted.clone().into_iter();
    let differing = others.filter(|(key, value)| key != meta::ROLE_TAG && is.get(key) != Some(value));
    let (changed, missing): (Tags, Tags) = differing.partition(|(key, _)| is.contains_key(key));
    let has_room = is.len() + missing.len() <= MAX_TAGS || surplus.is_empty();
    let missing = if has_room { missing } else { Tags::new() };
    for added in [changed, missing].into_iter().filter(|added| !added.is_empty()) {
        let why = differs(&added.keys().collect::<Vec<_>>(), is, wanted);
        plan.step(&target.tags(), why, add(target.kind, Id::from(id), added));
    }
    if !surplus.is_empty() {
        let why = differs(&surplus.iter().collect::<Vec<_>>(), is, wanted);
        plan.step(&target.tags(), why, remove(target.kind, Id::from(id), surplus));
    }
}

/// The tags with these keys, as they are and as they are to be.
fn differs(keys: &[&String], is: &Tags, wanted: &Tags) -> Why {
    let shown = |tags: &Tags| {
        let words = keys.iter().map(|key| match tags.get(*key) {
            Some(value) => format!("{key}={value}"),
            None => format!("{key} absent"),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    Why::Differs { field: "tagging", is: shown(is), wanted: shown(wanted) }
}

/// The call that adds tags to a resource of this kind.
fn add(kind: Kind, resource: Id, tags: Tags) -> Call<Id> {
    match kind {
        Kind::ClassicLoadBalancer => elb::classic_load_balancer::Call::AddTags { load_balancer: resource, tags }.into(),
        Kind::LoadBalancer | Kind::TargetGroup => elb::tag::Call::AddTags { resource, tags }.into(),
        _ => ec2::tag::Call::CreateTags { resource, tags }.into(),
    }
}

/// The call that removes tags of a resource of this kind.
fn remove(kind: Kind, resource: Id, keys: BTreeSet<String>) -> Call<Id> {
    match kind {
        Kind::ClassicLoadBalancer => {
            elb::classic_load_balancer::Call::RemoveTags { load_balancer: resource, keys }.into()
        }
        Kind::LoadBalancer | Kind::TargetGroup => elb::tag::Call::RemoveTags { resource, keys }.into(),
        _ => ec2::tag::Call::DeleteTags { resource, keys }.into(),
    }
}
