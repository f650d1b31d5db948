//! What the file of each resource offers. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::CloudError;
use capa_cloud::managed::Observed;

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, Scene};
use super::reference::{Kind, Ref};

/// The planner of one resource.
pub(super) struct Planner {
    /// The kinds of its references.
    pub(super) kinds: &'static [Kind],
    /// The condition about the resource.
    pub(super) condition: ConditionType,
    /// The reason of the condition while the resource waits for another one that was not looked at.
    pub(super) waiting: Reason,
    /// Whether a spec may ask for none of the resource.
    pub(super) is_optional: bool,
    /// Whether the cluster has the resource in a VPC of its own only: the user brings it with the VPC, if at all.
    pub(super) is_in_vpc_of_ours_only: bool,
    /// What the spec asks for.
    pub(super) wanted: fn(&Inputs) -> Vec<Ref>,
    /// Whether the look shows the resource.
    pub(super) look: fn(&Observed) -> Result<(), Option<&CloudError>>,
    /// Compares the ledger with the look.
    pub(super) settle: fn(&Inputs, &Observed, &mut Ledger),
    /// Adds the steps, waits and problems of the resource.
    pub(super) plan: fn(&Scene<'_>, &mut Plan),
}
