//! Logs conditions that turn bad, and conditions that recover.
//!
//! A status is written only over the version that it was computed from. So each change of a condition is logged once,
//! by the process whose write the API server accepted.

use capa_api::conditions::{ConditionType, Reason};
use serde_json::Value;
use tracing::{debug, info, warn};

/// A condition of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown<'status> {
    condition: &'status str,
    status: &'status str,
    reason: &'status str,
    message: &'status str,
}

impl<'status> Shown<'status> {
    fn of(condition: &'status Value) -> Self {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        Self { condition: text("type"), status: text("status"), reason: text("reason"), message: text("message") }
    }

    fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether the condition is good. `Paused` is the only condition that is good while it is False.
    fn is_good(&self) -> bool {
        self.is_true() || self.reason == Reason::NotPaused.as_str()
    }

    fn is_ready(&self) -> bool {
        self.condition == ConditionType::Ready.as_str()
    }

    /// Whether the condition is bad, not only a normal stage of the object's life.
    fn is_bad(&self) -> bool {
        let is_expected = self.reason.parse().is_ok_and(Reason::is_expected);
        // The condition is unknown until another condition is True, which has its own line.
        let waits = self.status == "Unknown" && self.reason == Reason::NotReady.as_str();
        !self.is_true() && !is_expected && !waits
    }
}

/// A change of a condition.
#[derive(Debug, PartialEq, Eq)]
enum Change<'status> {
    /// The condition is bad, and it was not bad before or had another reason.
    Bad(Shown<'status>),
    /// The condition was bad and is good now. `now` is absent if an object that is Ready no longer has the condition.
    Recovered { was: Shown<'status>, now: Option<Shown<'status>> },
    /// `Ready` has become True. A new reason of a `Ready` that stays True is not this change.
    Ready { was: Option<Shown<'status>> },
    /// Any other change.
    Other(Shown<'status>),
}

/// Logs the changes between two statuses.
pub(crate) fn log(before: &Value, after: &Value) {
    for change in changes(before, after) {
        match change {
            Change::Bad(now) => {
                let Shown { condition, status, reason, message } = now;
                let message = one_line(message);
                warn!(condition, status, reason, "{condition} is {status}: {message}");
            }
            Change::Recovered { was, now } => {
                let (status, reason) = (now.map(|now| now.status), now.map(|now| now.reason));
                let Shown { condition, reason: was, .. } = was;
                info!(condition, status, reason, was, "{condition} has recovered");
            }
            Change::Ready { was } => {
                let was = was.map(|was| was.reason);
                info!(condition = "Ready", status = "True", was, "the object is Ready");
            }
            Change::Other(now) => {
                let Shown { condition, status, reason, message } = now;
                let message = one_line(message);
                debug!(condition, status, reason, "{condition} is {status}: {message}");
            }
        }
    }
}

/// The summary of the conditions: `Ready`, or the only condition of a kind that has no `Ready`.
pub(crate) fn summary(status: &Value) -> Option<String> {
    let all = shown(status);
    let shown = all.iter().find(|shown| shown.is_ready()).or_else(|| all.first())?;
    let Shown { condition, status, reason, message } = shown;
    let message = one_line(message);
    Some(match (shown.is_true(), message.is_empty()) {
        (true, true) => format!("{condition} is True"),
        (_, true) => format!("{condition} is {status}, {reason}"),
        (_, false) => format!("{condition} is {status}, {reason}: {message}"),
    })
}

/// The text with spaces instead of line breaks and other control characters. Parts of messages come from users, and one
/// line of the log must not look like several lines.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn shown(status: &Value) -> Vec<Shown<'_>> {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().map(Shown::of).collect()
}

fn changes<'status>(before: &'status Value, after: &'status Value) -> Vec<Change<'status>> {
    let (before, after) = (shown(before), shown(after));
    let of_type = |all: &[Shown<'status>], condition: &str| all.iter().find(|one| one.condition == condition).copied();
    // If the object is not Ready, the pass may have ended before it set the condition.
    let object_is_ready = after.iter().any(|now| now.is_ready() && now.is_true());
    let gone = before.iter().filter(|was| object_is_ready && was.is_bad() && of_type(&after, was.condition).is_none());
    let gone = gone.map(|was| Change::Recovered { was: *was, now: None });
    // A bad `Ready` repeats the reason of another condition, which has its own line.
    let repeats = |now: &Shown<'_>| {
        let mut others = after.iter().filter(|other| !other.is_ready());
        now.is_ready() && others.any(|other| other.is_bad() && other.reason == now.reason)
    };
    let changed = after.iter().filter_map(|now| {
        let was = of_type(&before, now.condition);
        let is_same = was.is_some_and(|was| was.status == now.status && was.reason == now.reason);
        let was_true = was.is_some_and(|was| was.is_true());
        let bad_before = was.filter(Shown::is_bad);
        if was == Some(*now) {
            None
        } else if is_same {
            Some(Change::Other(*now))
        } else if now.is_ready() && now.is_true() && !was_true {
            Some(Change::Ready { was })
        } else if now.is_bad() {
            (!repeats(now)).then_some(Change::Bad(*now))
        } else if let Some(was) = bad_before.filter(|_| now.is_good()) {
            Some(Change::Recovered { was, now: Some(*now) })
        } else {
            // A normal stage after a bad condition is not a recovery, because it may lead back to the bad condition.
            Some(Change::Other(*now))
        }
    });
    gone.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logging::LogFormat;
    use crate::testing::logged;

    /// A status with these conditions, each `type status reason message`.
    fn status(conditions: &[&str]) -> Value {
        let condition = |text: &&str| {
            let mut words = text.splitn(4, ' ');
            let [kind, status, reason, message] = [(); 4].map(|()| words.next().unwrap_or_default());
            json!({"type": kind, "status": status, "reason": reason, "message": message})
        };
        json!({"conditions": conditions.iter().map(condition).collect::<Vec<_>>()})
    }

    /// The lines about this change at the level `info`, without their times.
    fn told(before: &[&str], after: &[&str]) -> Vec<String> {
        let lines = logged(LogFormat::Text, 0, || log(&status(before), &status(after)));
        let line = |line: &String| {
            let level = line.split_whitespace().nth(1).unwrap().to_owned();
            let text = line.split_once("condition_log: ").unwrap().1;
            format!("{level} {}", text.split(" condition=").next().unwrap())
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn a_condition_that_turns_bad_and_recovers_is_logged_once_each() {
        let bad = ["NetworkReady False NotFound subnet-1 does not exist", "Ready False NotFound x"];
        let changed = ["NetworkReady False NotFound subnet-2 does not exist", "Ready False NotFound x"];
        let worse = ["NetworkReady False Unauthorized no", "Ready False Unauthorized no"];
        let good = ["NetworkReady True Ready", "Ready True Ready"];
        let line = "WARN NetworkReady is False: subnet-1 does not exist";
        let recovered = ["INFO NetworkReady has recovered", "INFO the object is Ready"];
        assert_eq!(told(&good, &bad), [line]);
        assert_eq!(told(&[], &bad), [line]);
        assert_eq!(told(&bad, &bad), [""; 0]);
        assert_eq!(told(&bad, &changed), [""; 0]);
        assert_eq!(told(&bad, &worse), ["WARN NetworkReady is False: no"]);
        assert_eq!(told(&worse, &good), recovered);
        assert_eq!(told(&bad, &["Ready True Ready"]), recovered);
    }

    #[test]
    fn normal_stages_of_life_are_not_logged() {
        let stages = [
            "Ready False Launching the instance starts",
            "NetworkReady Unknown NotReady looked up once the identity works",
            "InstanceReady False Pending x",
            "Paused False NotPaused",
        ];
        assert_eq!(told(&[], &stages), [""; 0]);
        assert_eq!(told(&stages[2..], &["InstanceReady True Ready"]), [""; 0]);
        assert_eq!(told(&stages[3..], &["Paused True Paused"]), [""; 0]);
    }

    #[test]
    fn a_normal_stage_of_life_after_a_bad_one_is_no_recovery() {
        let short = ["InstanceReady False InsufficientCapacity none", "Ready False InsufficientCapacity none"];
        let again = ["InstanceReady False Launching x", "Ready False Launching x"];
        let looked_up = ["InstanceReady Unknown NotReady x", "Ready Unknown NotReady x"];
        let runs = ["InstanceReady True Ready", "Ready False Launching x"];
        assert_eq!(told(&short, &again), [""; 0]);
        assert_eq!(told(&short, &looked_up), [""; 0]);
        assert_eq!(told(&short, &runs), ["INFO InstanceReady has recovered"]);
    }

    #[test]
    fn a_condition_that_the_pass_did_not_reach_has_not_recovered() {
        let bad = ["NetworkReady False NotFound x", "Ready False NotFound x"];
        let earlier = ["IdentityReady False NotAllowed no", "Ready False NotAllowed no"];
        let waiting = ["Ready False WaitingForOwnerCluster x"];
        let ready = ["Ready True Ready"];
        assert_eq!(told(&bad, &earlier), ["WARN IdentityReady is False: no"]);
        assert_eq!(told(&bad, &waiting), [""; 0]);
        assert_eq!(told(&bad, &[]), [""; 0]);
        assert_eq!(told(&bad, &ready), ["INFO NetworkReady has recovered", "INFO the object is Ready"]);
    }

    #[test]
    fn an_interrupted_move_has_recovered_once_nothing_is_left_of_it() {
        let (interrupted, over) = (["Paused False MoveInterrupted x"], ["Paused False NotPaused"]);
        assert_eq!(told(&over, &interrupted), ["WARN Paused is False: x"]);
        assert_eq!(told(&interrupted, &over), ["INFO Paused has recovered"]);
    }

    #[test]
    fn an_object_that_stays_ready_is_called_ready_once() {
        let (ready, worn) = (status(&["Ready True Ready"]), status(&["Ready True NotFound x"]));
        for (before, after) in [(&ready, &worn), (&worn, &ready)] {
            assert_eq!(changes(before, after), [Change::Other(shown(after)[0])]);
        }
        for before in [&[][..], &["Ready False Launching x"], &["Ready Unknown Failed x"]] {
            assert_eq!(told(before, &["Ready True NotFound x"]), ["INFO the object is Ready"]);
        }
    }

    #[test]
    fn a_line_has_condition_status_reason_and_former_reason() {
        let (bad, good) = (status(&["NetworkReady False NotFound no"]), status(&["NetworkReady True Ready"]));
        let lines = logged(LogFormat::Json, 0, || {
            log(&good, &bad);
            log(&bad, &good);
        });
        let fields = |line: &String, names: &[&str]| -> Vec<String> {
            let line: Value = serde_json::from_str(line).unwrap();
            names.iter().map(|name| line[name].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(fields(&lines[0], &["condition", "status", "reason"]), ["NetworkReady", "False", "NotFound"]);
        assert_eq!(
            fields(&lines[1], &["condition", "status", "reason", "was"]),
            ["NetworkReady", "True", "Ready", "NotFound"]
        );
    }

    #[test]
    fn a_message_of_a_user_stays_on_one_line() {
        let forged = json!({"conditions": [{
            "type": "NetworkReady", "status": "False", "reason": "InvalidSpec", "message": "a\nINFO b\u{1b}[31m"
        }]});
        let lines = logged(LogFormat::Text, 0, || log(&Value::Null, &forged));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("NetworkReady is False: a INFO b [31m"), "{lines:?}");
    }

    #[test]
    fn a_summary_says_why_the_object_is_not_ready() {
        let summary = |conditions: &[&str]| summary(&status(conditions));
        assert_eq!(summary(&[]), None);
        let waiting = ["NetworkReady True Ready", "Ready False Launching i-1 starts"];
        assert_eq!(summary(&waiting).unwrap(), "Ready is False, Launching: i-1 starts");
        assert_eq!(summary(&["Ready True Ready"]).unwrap(), "Ready is True");
        assert_eq!(summary(&["CapacityReady Unknown MissingField"]).unwrap(), "CapacityReady is Unknown, MissingField");
    }
}
