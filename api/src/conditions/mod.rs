//! Conditions: their types and reasons, and the merge of new conditions into an earlier list. The time is an argument.

mod condition_type;
mod reason;
mod schema;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use strum::{Display, EnumString, IntoStaticStr};

pub use condition_type::ConditionType;
pub use reason::Reason;
pub use schema::schema;

/// Maximum length of the message of a condition, in bytes. A longer message is cut and ends in `…`.
pub const MESSAGE_LIMIT: usize = 4096;

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The status of the condition is not known.
    Unknown,
}

impl ConditionType {
    /// A condition of this type that is True.
    pub fn is_true(self, reason: Reason) -> ConditionUpdate {
        ConditionUpdate { condition: self, status: ConditionStatus::True, reason, message: String::new() }
    }

    /// A condition of this type that is False.
    pub fn is_false(self, reason: Reason, message: impl Into<String>) -> ConditionUpdate {
        ConditionUpdate { condition: self, status: ConditionStatus::False, reason, message: message.into() }
    }

    /// A condition of this type whose status is not known.
    pub fn is_unknown(self, reason: Reason, message: impl Into<String>) -> ConditionUpdate {
        ConditionUpdate { condition: self, status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}

/// The update of one condition by one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The type of the condition.
    pub condition: ConditionType,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// The reason for the status.
    pub reason: Reason,
    /// The message for people: the failing object, the error, and the corrective action. The message does not change
    /// from pass to pass. Empty if there is no error.
    pub message: String,
}

impl ConditionUpdate {
    /// The same update with a message.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// The type, status, reason and message in one text, for the message of another condition.
    pub fn text(&self) -> String {
        let Self { condition, status, reason, message } = self;
        format!("{condition} is {status} ({reason}): {message}")
    }

    fn into_condition(self, previous: Option<&Condition>, generation: Option<i64>, now: Timestamp) -> Condition {
        let status: &'static str = self.status.into();
        let last_transition_time = previous
            .filter(|previous| previous.status == status)
            .map_or(Time(now), |previous| previous.last_transition_time.clone());
        Condition {
            type_: self.condition.as_str().to_owned(),
            status: status.to_owned(),
            reason: self.reason.as_str().to_owned(),
            message: capped(self.message),
            observed_generation: generation,
            last_transition_time,
        }
    }
}

/// Sets one condition in a list and leaves the others unchanged.
///
/// `lastTransitionTime` changes only if the status changes. The list stays in the order of [`ConditionType`].
pub fn set(conditions: &mut Vec<Condition>, update: ConditionUpdate, generation: Option<i64>, now: Timestamp) {
    let previous = find(conditions, update.condition).cloned();
    remove(conditions, update.condition);
    conditions.push(update.into_condition(previous.as_ref(), generation, now));
    sort(conditions);
}

/// The new list of conditions after a pass. Types without an update are removed; of several updates of one type the
/// last one counts.
pub fn merge(
    previous: &[Condition],
    updates: impl IntoIterator<Item = ConditionUpdate>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for update in updates {
        let before = find(previous, update.condition);
        remove(&mut conditions, update.condition);
        conditions.push(update.into_condition(before, generation, now));
    }
    sort(&mut conditions);
    conditions
}

/// Removes a condition from the list.
pub fn remove(conditions: &mut Vec<Condition>, condition: ConditionType) {
    conditions.retain(|entry| entry.type_ != condition.as_str());
}

/// The condition of this type; `None` if the list does not contain it.
pub fn find(conditions: &[Condition], condition: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|entry| entry.type_ == condition.as_str())
}

/// Whether the list contains the condition with the status True.
pub fn holds(conditions: &[Condition], condition: ConditionType) -> bool {
    find(conditions, condition).is_some_and(|entry| has_status(entry, ConditionStatus::True))
}

/// Whether the status of a condition is False.
pub fn is_false(condition: &Condition) -> bool {
    has_status(condition, ConditionStatus::False)
}

fn has_status(condition: &Condition, status: ConditionStatus) -> bool {
    condition.status == <&'static str>::from(status)
}

/// Whether the condition is True for this generation of its object.
pub fn holds_for(conditions: &[Condition], condition: ConditionType, generation: Option<i64>) -> bool {
    let current = find(conditions, condition).is_some_and(|entry| entry.observed_generation == generation);
    current && holds(conditions, condition)
}

/// Sorts the known types in the order of [`ConditionType`], followed by other types in the order of their names.
fn sort(conditions: &mut [Condition]) {
    conditions.sort_by_cached_key(|entry| {
        let known = entry.type_.parse::<ConditionType>().ok();
        (known.is_none(), known, entry.type_.clone())
    });
}

fn capped(mut message: String) -> String {
    const MARK: &str = "…";
    if message.len() > MESSAGE_LIMIT {
        message.truncate(message.floor_char_boundary(MESSAGE_LIMIT - MARK.len()));
        message.push_str(MARK);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn types(conditions: &[Condition]) -> Vec<&str> {
        conditions.iter().map(|entry| entry.type_.as_str()).collect()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let pending = ConditionType::InstanceReady.is_false(Reason::Launching, "launching");
        set(&mut conditions, pending, Some(1), at(10));
        let still_pending = ConditionType::InstanceReady.is_false(Reason::Pending, "starting");
        set(&mut conditions, still_pending, Some(2), at(20));
        let entry = find(&conditions, ConditionType::InstanceReady).unwrap();
        assert_eq!((entry.reason.as_str(), entry.observed_generation), ("Pending", Some(2)));
        assert_eq!(entry.last_transition_time, Time(at(10)));

        set(&mut conditions, ConditionType::InstanceReady.is_true(Reason::Ready), Some(2), at(30));
        assert_eq!(find(&conditions, ConditionType::InstanceReady).unwrap().last_transition_time, Time(at(30)));
        assert!(holds(&conditions, ConditionType::InstanceReady));
    }

    #[test]
    fn the_order_of_conditions_is_that_of_the_types() {
        let updates = || {
            [
                ConditionType::NetworkReady.is_true(Reason::Ready),
                ConditionType::Ready.is_true(Reason::Ready),
                ConditionType::Paused.is_false(Reason::NotPaused, ""),
            ]
        };
        let forwards = merge(&[], updates(), Some(1), at(1));
        let backwards = merge(&[], updates().into_iter().rev(), Some(1), at(1));
        assert_eq!(forwards, backwards);
        assert_eq!(types(&forwards), ["Ready", "Paused", "NetworkReady"]);
    }

    #[test]
    fn merge_drops_types_without_update_and_keeps_unchanged_ones() {
        let mut previous = Vec::new();
        set(&mut previous, ConditionType::Ready.is_true(Reason::Ready), Some(1), at(1));
        set(&mut previous, ConditionType::NetworkReady.is_true(Reason::Ready), Some(1), at(1));
        let next = merge(&previous, [ConditionType::Ready.is_true(Reason::Ready)], Some(1), at(9));
        assert_eq!(next, [find(&previous, ConditionType::Ready).unwrap().clone()]);
    }

    #[test]
    fn setting_leaves_foreign_conditions_alone_and_last() {
        let foreign = Condition {
            type_: "Audited".to_owned(),
            status: "True".to_owned(),
            reason: "Yes".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(0)),
        };
        let mut conditions = vec![foreign];
        set(&mut conditions, ConditionType::Ready.is_true(Reason::Ready), None, at(1));
        assert_eq!(types(&conditions), ["Ready", "Audited"]);
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let message = "ü".repeat(MESSAGE_LIMIT);
        let conditions = merge(&[], [ConditionType::Ready.is_false(Reason::Failed, message)], None, at(1));
        let cut = &conditions[0].message;
        assert!(cut.len() <= MESSAGE_LIMIT && cut.ends_with("ü…"));
    }

    #[test]
    fn types_and_reasons_have_the_names_of_the_api() {
        assert_eq!(ConditionType::ControlPlaneTargetsReady.as_str(), "ControlPlaneTargetsReady");
        assert_eq!(Reason::NoSubnetInFailureDomain.as_str(), "NoSubnetInFailureDomain");
        assert_eq!("IdentityReady".parse(), Ok(ConditionType::IdentityReady));
    }
}
