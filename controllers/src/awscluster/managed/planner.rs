//! The interface that the planner of each resource implements. Pure.

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::CloudError;
use capa_cloud::managed::{Observed, Seen};

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext};
use super::reference::{Kind, Ref};

/// The planner of one resource.
pub(super) struct Planner {
    /// The kinds of its references.
    pub(super) kinds: &'static [Kind],
    /// The condition about the resource.
    pub(super) condition: ConditionType,
    /// The reason of the condition while the resource waits for another one that was not observed.
    pub(super) waiting: Reason,
    /// Whether a spec may ask for none of the resource.
    pub(super) is_optional: bool,
    /// Whether the cluster has the resource only in a VPC of its own. In a VPC of the user, the resource belongs to the
    /// user too.
    pub(super) only_in_managed_vpc: bool,
    /// The references that the spec asks for.
    pub(super) wanted: fn(&Inputs) -> Vec<Ref>,
    /// The wanted tags of the resources that the spec asks for.
    pub(super) tags: fn(&Inputs) -> Vec<(Ref, Tags)>,
    /// The ids and tags that an observation shows.
    pub(super) tags_shown: for<'a> fn(&'a Observed) -> Vec<(&'a str, &'a Tags)>,
    /// Whether AWS has answered what the planner needs: `Err(None)` if the observation did not ask.
    pub(super) answer: fn(&Observed) -> Result<(), Option<&CloudError>>,
    /// Compares the ledger with the observation.
    pub(super) update_ledger: fn(&Inputs, &Observed, &mut Ledger),
    /// Adds the steps, waits and problems of the resource.
    pub(super) plan: fn(&PlanContext<'_>, &mut Plan),
}

/// The id and tags that `of` returns for each resource that an observation shows.
pub(super) fn tags_by_id<T>(
    seen: &Seen<Vec<T>>,
    of: for<'a> fn(&'a T) -> (&'a String, &'a Tags),
) -> Vec<(&str, &Tags)> {
    let shown = seen.shown().into_iter().flatten();
    shown
        .map(|resource| {
            let (id, tags) = of(resource);
            (id.as_str(), tags)
        })
        .collect()
}
