//! The state transitions of instances: `pending`, `stopping` and `shutting-down` last as long as the account's settings
//! say, while moto skips them. Instances can also end in `pending`, and new instances can stay hidden for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::caller::CallerIdentity;
use super::dns_records::DnsRecords;
use super::request::Filter;
use super::xml::Element;

/// An instance state as EC2 shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
}

const fn state(code: &'static str, name: &'static str) -> State {
    State { code, name }
}

pub(super) const PENDING: State = state("0", "pending");
pub(super) const RUNNING: State = state("16", "running");
pub(super) const SHUTTING_DOWN: State = state("32", "shutting-down");
pub(super) const TERMINATED: State = state("48", "terminated");
pub(super) const STOPPING: State = state("64", "stopping");
pub(super) const STOPPED: State = state("80", "stopped");

/// The filters of DescribeInstances that this proxy answers: two because moto does not know the states of this proxy,
/// and one because moto does not support it.
pub(super) const FILTERS: [&str; 3] = ["instance-state-name", "instance-state-code", "client-token"];

/// The network address of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) vpc_id: String,
    pub(super) private_ip: String,
}

/// The history of an instance, with its times.
#[derive(Clone, Debug)]
struct Life {
    region: String,
    address: Address,
    launched: Instant,
    /// The time of the last start; at first that of the launch.
    started: Instant,
    stopped: Option<Instant>,
    terminated: Option<Instant>,
    death: Option<Death>,
}

/// The early end of a launch's instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Death {
    /// AWS's code of the state reason.
    pub(super) reason: String,
    /// The time from the launch to the end.
    pub(super) after: Duration,
}

/// The instances of one account, and how long their transitions last.
#[derive(Debug, Default)]
pub(super) struct Instances {
    lives: HashMap<String, Life>,
    pub(super) pending: Duration,
    pub(super) stopping: Duration,
    pub(super) shutting_down: Duration,
    /// Instances younger than this are hidden.
    pub(super) hidden: Duration,
    pub(super) dns_records: DnsRecords,
}

impl Instances {
    pub(super) fn launched(&mut self, id: &str, region: &str, death: Option<Death>, now: Instant) {
        self.lives.entry(id.to_owned()).or_insert_with(|| Life {
            region: region.to_owned(),
            address: Address::default(),
            launched: now,
            started: now,
            stopped: None,
            terminated: None,
            death,
        });
    }

    pub(super) fn addressed(&mut self, id: &str, address: Address) {
        if let Some(life) = self.lives.get_mut(id) {
            life.address = address;
        }
    }

    /// The instance at an address. Addresses are reused, so of several instances the one launched last counts.
    pub(super) fn at_address(&self, vpc_id: &str, private_ip: &str, now: Instant) -> Option<String> {
        let there = self.lives.iter().filter(|(id, life)| {
            life.address.vpc_id == vpc_id && life.address.private_ip == private_ip && !self.is_over(id, now)
        });
        there.max_by_key(|(_, life)| life.launched).map(|(id, _)| id.clone())
    }

    /// Whether an instance is terminated or shutting down.
    pub(super) fn is_over(&self, id: &str, now: Instant) -> bool {
        [SHUTTING_DOWN, TERMINATED].contains(&self.state(id, now))
    }

    /// Whether an instance with this id exists or existed in a region.
    pub(super) fn exists(&self, id: &str, region: &str) -> bool {
        self.lives.get(id).is_some_and(|life| life.region == region)
    }

    /// Whether an instance is hidden from this caller.
    pub(super) fn is_hidden_from(&self, caller: &CallerIdentity, id: &str, now: Instant) -> bool {
        !caller.meets_no_faults && self.is_hidden(id, now)
    }

    /// Whether the instance exists, in this VPC.
    pub(super) fn is_in_vpc(&self, id: &str, region: &str, vpc_id: &str) -> bool {
        self.exists(id, region) && self.lives.get(id).is_some_and(|life| life.address.vpc_id == vpc_id)
    }

    pub(super) fn started(&mut self, id: &str, now: Instant) {
        if let Some(life) = self.lives.get_mut(id)
            && life.stopped.take().is_some()
        {
            life.started = now;
        }
    }

    pub(super) fn stopped(&mut self, id: &str, now: Instant) {
        if let Some(life) = self.lives.get_mut(id) {
            life.stopped.get_or_insert(now);
        }
    }

    pub(super) fn terminated(&mut self, id: &str, now: Instant) {
        if let Some(life) = self.lives.get_mut(id) {
            life.terminated.get_or_insert(now);
        }
    }

    /// The instances of a region that ended in `pending` since the last call, so that moto can terminate them.
    pub(super) fn take_dead(&mut self, region: &str, now: Instant) -> Vec<String> {
        let mut dead = Vec::new();
        for (id, life) in &mut self.lives {
            if life.region == region && life.terminated.is_none() && life.is_dead(now) {
                life.terminated = Some(now);
                dead.push(id.clone());
            }
        }
        dead
    }

    /// Whether an instance is still hidden.
    pub(super) fn is_hidden(&self, id: &str, now: Instant) -> bool {
        let life = self.lives.get(id);
        life.is_some_and(|life| now.duration_since(life.launched) < self.hidden)
    }

    /// The state to show; `None` where moto's own state is right (the transition is over, or the instance is unknown
    /// here).
    fn overridden(&self, id: &str, shown_by_moto: &str, now: Instant) -> Option<State> {
        let life = self.lives.get(id)?;
        let within = |since: Instant, duration: Duration| now.duration_since(since) < duration;
        if life.is_dead(now) {
            return Some(TERMINATED);
        }
        if life.death.is_some() && life.terminated.is_none() {
            return Some(PENDING);
        }
        match shown_by_moto {
            "terminated" => {
                let ends = life.terminated.is_some_and(|at| within(at, self.shutting_down));
                ends.then_some(SHUTTING_DOWN)
            }
            "stopped" => {
                let stops = life.stopped.is_some_and(|at| within(at, self.stopping));
                stops.then_some(STOPPING)
            }
            "pending" | "running" => within(life.started, self.pending).then_some(PENDING),
            _ => None,
        }
    }

    /// The state of an instance, computed without moto's answer.
    pub(super) fn state(&self, id: &str, now: Instant) -> State {
        let settled = match self.lives.get(id) {
            Some(life) if life.terminated.is_some() => TERMINATED,
            Some(life) if life.stopped.is_some() => STOPPED,
            _ => RUNNING,
        };
        self.overridden(id, settled.name, now).unwrap_or(settled)
    }

    /// The time since an instance was last started, whether or not it still runs.
    pub(super) fn up(&self, id: &str, now: Instant) -> Duration {
        let started = self.lives.get(id).map(|life| life.started);
        started.map_or(Duration::ZERO, |started| now.duration_since(started))
    }

    /// Rewrites the states in an answer of DescribeInstances. Removes hidden instances (unless the caller `sees_all`)
    /// and instances that the filters do not match.
    pub(super) fn describe(&self, answer: &mut Element, filters: &[Filter], sees_all: bool, now: Instant) {
        let Some(reservations) = answer.child_mut("reservationSet") else {
            return;
        };
        for reservation in &mut reservations.children {
            let Some(instances) = reservation.child_mut("instancesSet") else {
                continue;
            };
            for instance in &mut instances.children {
                let shown_by_moto = instance.text_at(&["instanceState", "name"]);
                let id = instance.text_at(&["instanceId"]).to_owned();
                if let Some(state) = self.overridden(&id, shown_by_moto, now) {
                    show(instance, "instanceState", state);
                }
                self.set_state_reason(instance, &id, now);
                self.dns_records.show(instance, &id);
            }
            instances.children.retain(|instance| {
                let shown = sees_all || !self.is_hidden(instance.text_at(&["instanceId"]), now);
                shown && filters.iter().all(|filter| matches(instance, filter))
            });
        }
        reservations
            .children
            .retain(|reservation| reservation.child("instancesSet").is_some_and(|set| !set.children.is_empty()));
    }

    fn set_state_reason(&self, instance: &mut Element, id: &str, now: Instant) {
        let life = self.lives.get(id).filter(|life| life.is_dead(now));
        if let Some(Death { reason, .. }) = life.and_then(|life| life.death.as_ref()) {
            let message = format!("{reason}: the launch did not succeed");
            let state_reason = vec![Element::text("code", reason), Element::text("message", &message)];
            instance.set(Element::parent("stateReason", state_reason));
        }
    }
}

impl Life {
    fn is_dead(&self, now: Instant) -> bool {
        let death = self.death.as_ref();
        death.is_some_and(|death| {
            let due = self.launched + death.after;
            // An instance that was terminated before the time of its early end has ended by the termination.
            due <= now && self.terminated.is_none_or(|terminated| due <= terminated)
        })
    }
}

/// The instances in an answer of DescribeInstances.
pub(super) fn described(answer: &Element) -> impl Iterator<Item = &Element> {
    let reservations = answer.child("reservationSet").into_iter().flat_map(|set| &set.children);
    let sets = reservations.filter_map(|reservation| reservation.child("instancesSet"));
    sets.flat_map(|set| &set.children)
}

/// The instances in an answer of RunInstances, with their addresses.
pub(super) fn addresses(answer: &Element) -> Vec<(String, Address)> {
    let instances = answer.child("instancesSet").map(|set| set.children.as_slice());
    let address = |instance: &Element| Address {
        vpc_id: instance.text_at(&["vpcId"]).to_owned(),
        private_ip: instance.text_at(&["privateIpAddress"]).to_owned(),
    };
    let instances = instances.unwrap_or_default().iter();
    instances.map(|instance| (instance.text_at(&["instanceId"]).to_owned(), address(instance))).collect()
}

/// Writes a state into the element with this name.
pub(super) fn show(instance: &mut Element, field: &str, state: State) {
    if let Some(element) = instance.child_mut(field) {
        element.children = vec![Element::text("code", state.code), Element::text("name", state.name)];
    }
}

/// The instances in an answer of RunInstances, TerminateInstances, StopInstances or StartInstances.
pub(super) fn listed(answer: &mut Element) -> &mut [Element] {
    answer.child_mut("instancesSet").map(|set| set.children.as_mut_slice()).unwrap_or_default()
}

/// The instance ids in an answer of RunInstances, TerminateInstances, StopInstances or StartInstances.
pub(super) fn ids(answer: &Element) -> Vec<String> {
    let instances = answer.child("instancesSet").map(|set| set.children.as_slice()).unwrap_or_default();
    instances.iter().map(|instance| instance.text_at(&["instanceId"]).to_owned()).collect()
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
