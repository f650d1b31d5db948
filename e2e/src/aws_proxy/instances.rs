//! The states that moto passes through at once: `pending` and `shutting-down` last here as long as the account says.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::request::Filter;
use super::xml::Element;

/// An instance state as EC2 shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
}

pub(super) const PENDING: State = State {
    code: "0",
    name: "pending",
};
pub(super) const RUNNING: State = State {
    code: "16",
    name: "running",
};
pub(super) const SHUTTING_DOWN: State = State {
    code: "32",
    name: "shutting-down",
};
pub(super) const TERMINATED: State = State {
    code: "48",
    name: "terminated",
};

/// The filters of DescribeInstances that are answered here: two because moto does not know the states shown, one because it does not have it.
pub(super) const FILTERS: [&str; 3] = ["instance-state-name", "instance-state-code", "client-token"];

/// When an instance was launched and terminated.
#[derive(Clone, Copy, Debug)]
struct Life {
    launched: Instant,
    terminated: Option<Instant>,
}

/// The instances of one account, and how long their transitions last.
#[derive(Debug, Default)]
pub(super) struct Instances {
    lives: HashMap<String, Life>,
    pub(super) pending: Duration,
    pub(super) shutting_down: Duration,
}

impl Instances {
    pub(super) fn launched(&mut self, id: &str, now: Instant) {
        self.lives.entry(id.to_owned()).or_insert(Life {
            launched: now,
            terminated: None,
        });
    }

    pub(super) fn terminated(&mut self, id: &str, now: Instant) {
        if let Some(life) = self.lives.get_mut(id) {
            life.terminated.get_or_insert(now);
        }
    }

    /// The state to show, or none where moto's own is right (a stopped instance, a transition that is over, an instance of before).
    fn overridden(&self, id: &str, shown_by_moto: &str, now: Instant) -> Option<State> {
        let life = self.lives.get(id)?;
        match (shown_by_moto, life.terminated) {
            ("terminated", Some(at)) if now.duration_since(at) < self.shutting_down => Some(SHUTTING_DOWN),
            ("pending" | "running", None) if now.duration_since(life.launched) < self.pending => Some(PENDING),
            _ => None,
        }
    }

    /// The state of an instance that moto is not asked about.
    pub(super) fn state(&self, id: &str, now: Instant) -> State {
        let settled = match self.lives.get(id) {
            Some(Life {
                terminated: Some(_), ..
            }) => TERMINATED,
            _ => RUNNING,
        };
        self.overridden(id, settled.name, now).unwrap_or(settled)
    }

    /// Rewrites the states in an answer of DescribeInstances and drops what the filters taken from the request do not match.
    pub(super) fn describe(&self, answer: &mut Element, filters: &[Filter], now: Instant) {
        let Some(reservations) = answer.child_mut("reservationSet") else {
            return;
        };
        for reservation in &mut reservations.children {
            let Some(instances) = reservation.child_mut("instancesSet") else {
                continue;
            };
            for instance in &mut instances.children {
                let shown_by_moto = instance.text_at(&["instanceState", "name"]);
                if let Some(state) = self.overridden(instance.text_at(&["instanceId"]), shown_by_moto, now) {
                    show(instance, "instanceState", state);
                }
            }
            instances
                .children
                .retain(|instance| filters.iter().all(|filter| matches(instance, filter)));
        }
        reservations.children.retain(|reservation| {
            reservation
                .child("instancesSet")
                .is_some_and(|set| !set.children.is_empty())
        });
    }
}

/// Writes a state into the element of this name.
pub(super) fn show(instance: &mut Element, field: &str, state: State) {
    if let Some(element) = instance.child_mut(field) {
        element.children = vec![Element::text("code", state.code), Element::text("name", state.name)];
    }
}

/// The instances in an answer of RunInstances or TerminateInstances.
pub(super) fn listed(answer: &mut Element) -> &mut [Element] {
    answer
        .child_mut("instancesSet")
        .map(|set| set.children.as_mut_slice())
        .unwrap_or_default()
}

/// The instance ids in an answer of RunInstances or TerminateInstances.
pub(super) fn ids(answer: &Element) -> Vec<String> {
    let instances = answer
        .child("instancesSet")
        .map(|set| set.children.as_slice())
        .unwrap_or_default();
    instances
        .iter()
        .map(|instance| instance.text_at(&["instanceId"]).to_owned())
        .collect()
}

fn matches(instance: &Element, filter: &Filter) -> bool {
    let path: &[&str] = match filter.name.as_str() {
        "instance-state-name" => &["instanceState", "name"],
        "instance-state-code" => &["instanceState", "code"],
        _ => &["clientToken"],
    };
    let value = instance.text_at(path);
    filter.values.iter().any(|wanted| wanted == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn answer(state: &str) -> Element {
        Element::parse(&format!(
            "<R><reservationSet><item><instancesSet><item><clientToken>t</clientToken><instanceId>i-1</instanceId>\
             <instanceState><code>0</code><name>{state}</name></instanceState></item></instancesSet></item></reservationSet></R>"
        ))
        .unwrap()
    }

    fn filter(name: &str, value: &str) -> Filter {
        Filter {
            name: name.into(),
            values: vec![value.into()],
        }
    }

    fn shown(instances: &Instances, state: &str, filters: &[Filter], now: Instant) -> Option<String> {
        let mut answer = answer(state);
        instances.describe(&mut answer, filters, now);
        answer.find("name").map(|name| name.text.clone())
    }

    #[test]
    fn a_launched_instance_is_pending_for_as_long_as_the_account_says() {
        let start = Instant::now();
        let mut instances = Instances {
            pending: HOUR,
            ..Instances::default()
        };
        instances.launched("i-1", start);
        assert_eq!(shown(&instances, "running", &[], start).as_deref(), Some("pending"));
        assert_eq!(
            shown(&instances, "running", &[], start + HOUR).as_deref(),
            Some("running")
        );
        instances.pending = Duration::ZERO;
        assert_eq!(shown(&instances, "running", &[], start).as_deref(), Some("running"));
    }

    #[test]
    fn a_terminated_instance_is_shutting_down_first_and_a_second_termination_does_not_prolong_it() {
        let start = Instant::now();
        let mut instances = Instances {
            pending: HOUR,
            shutting_down: HOUR,
            ..Instances::default()
        };
        instances.launched("i-1", start);
        instances.terminated("i-1", start);
        instances.terminated("i-1", start + HOUR);
        assert_eq!(
            shown(&instances, "terminated", &[], start).as_deref(),
            Some("shutting-down")
        );
        assert_eq!(instances.state("i-1", start), SHUTTING_DOWN);
        assert_eq!(
            shown(&instances, "terminated", &[], start + HOUR).as_deref(),
            Some("terminated")
        );
        assert_eq!(instances.state("i-1", start + HOUR), TERMINATED);
    }

    #[test]
    fn a_stopped_instance_stays_stopped() {
        let start = Instant::now();
        let mut instances = Instances {
            pending: HOUR,
            ..Instances::default()
        };
        instances.launched("i-1", start);
        assert_eq!(shown(&instances, "stopped", &[], start).as_deref(), Some("stopped"));
    }

    #[test]
    fn filters_agree_with_the_state_shown() {
        let start = Instant::now();
        let mut instances = Instances {
            pending: HOUR,
            ..Instances::default()
        };
        instances.launched("i-1", start);
        let see = |filter: Filter| shown(&instances, "running", &[filter], start).is_some();
        assert!(see(filter("instance-state-name", "pending")));
        assert!(!see(filter("instance-state-name", "running")));
        assert!(see(filter("instance-state-code", "0")));
        assert!(see(filter("client-token", "t")));
        assert!(!see(filter("client-token", "other")));
    }
}
