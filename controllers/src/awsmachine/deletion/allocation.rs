//! What a deletion says while it waits for the release of what was allocated for the machine. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::CloudError;

use super::abandon;
use crate::awsmachine::blocked::Blocked;
use crate::awsmachine::scope::MachineScope;

/// A kind of resource that is allocated for a machine, costs money, and is released with it.
pub(in crate::awsmachine) struct Allocation {
    /// The name of the kind in AWS: "Dedicated Host".
    pub(in crate::awsmachine) kind: &'static str,
    /// The short form of this name: "host".
    pub(in crate::awsmachine) short: &'static str,
}

impl Allocation {
    /// The block of a deletion that waits for the release.
    pub(in crate::awsmachine) fn awaits(&self, scope: &MachineScope, why: &str, blocked: &Blocked) -> Blocked {
        let Self { kind, short } = self;
        let message = format!(
            "the AWSMachine is released once its {kind} is: {why}; {} lets the deletion end, and leaves the {short} \
             allocated",
            abandon::described(&scope.machine)
        );
        Blocked {
            condition: ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message),
            next: blocked.next,
            cause: blocked.cause,
        }
    }

    /// The same, because a call failed.
    pub(in crate::awsmachine) fn awaits_call(&self, scope: &MachineScope, why: &str, error: &CloudError) -> Blocked {
        self.awaits(scope, why, &Blocked::by_call(ConditionType::InstanceReady, "", error))
    }

    /// The same, because the release failed.
    pub(in crate::awsmachine) fn is_kept(&self, scope: &MachineScope, described: &str, error: &CloudError) -> Blocked {
        let why = format!("{described} is not released, and costs money until then: {error}");
        self.awaits_call(scope, &why, error)
    }
}
