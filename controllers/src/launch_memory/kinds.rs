//! Launches that differ only in the machine: the machines of one template and one version. If EC2 refuses one of them
//! because of a parameter that all have, it refuses all of them. So one machine asks, and the others show the answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::ConditionUpdate;
use capa_cloud::Timing;
use parking_lot::Mutex;

/// The time after its last use at which a kind is removed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// The hash of all inputs that the launches of a kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaunchKind(pub(crate) u64);

/// Whether a machine may ask EC2 for an instance of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// It may.
    Granted,
    /// Another machine of the kind is the first one to ask.
    Waits,
    /// EC2 has refused the kind, and is asked again after this time.
    Refused(Box<ConditionUpdate>, Duration),
}

/// The knowledge about one kind.
#[derive(Default)]
struct Known {
    used: Duration,
    /// Whether EC2 has accepted the parameters since the last refusal.
    is_accepted: bool,
    refused: Option<Refused>,
    /// UID of the machine that asks, and the time of its last pass.
    trial: Option<(String, Duration)>,
}

struct Refused {
    condition: ConditionUpdate,
    at: Duration,
    /// Number of earlier refusals in a row.
    before: u32,
}

/// The kinds that this process has launched lately.
#[derive(Clone, Default)]
pub(crate) struct LaunchKinds(Arc<Mutex<HashMap<LaunchKind, Known>>>);

impl LaunchKinds {
    /// Whether a machine may ask EC2 now. A machine that may becomes the one to ask, until EC2 has answered or the
    /// machine does not come back.
    pub(crate) fn begin(&self, kind: LaunchKind, uid: &str, now: Duration, timing: &Timing) -> Permission {
        let mut kinds = self.0.lock();
        kinds.retain(|_, known| now < known.used + FORGOTTEN_AFTER);
        let known = kinds.entry(kind).or_default();
        known.used = now;
        if known.is_accepted {
            return Permission::Granted;
        }
        if let Some(refused) = &known.refused {
            let remaining = refused.remaining(now, timing);
            if !remaining.is_zero() {
                return Permission::Refused(Box::new(refused.condition.clone()), remaining);
            }
        }
        // A machine that waits for its turn comes back later than this: another one may come before it.
        let timeout = timing.transition_interval;
        match &known.trial {
            Some((other, since)) if other != uid && now < *since + timeout => match &known.refused {
                Some(refused) => Permission::Refused(Box::new(refused.condition.clone()), timeout),
                None => Permission::Waits,
            },
            _ => {
                known.trial = Some((uid.to_owned(), now));
                Permission::Granted
            }
        }
    }

    /// The refusal of a kind, until EC2 is asked again.
    pub(crate) fn active_backoff(
        &self,
        kind: LaunchKind,
        now: Duration,
        timing: &Timing,
    ) -> Option<(ConditionUpdate, Duration)> {
        let kinds = self.0.lock();
        let refused = kinds.get(&kind)?.refused.as_ref()?;
        let remaining = refused.remaining(now, timing);
        (!remaining.is_zero()).then(|| (refused.condition.clone(), remaining))
    }

    /// Records that EC2 refuses a parameter that all launches of the kind have. The refusals of simultaneous calls
    /// count once.
    pub(crate) fn refused(&self, kind: LaunchKind, condition: ConditionUpdate, now: Duration, timing: &Timing) {
        let mut kinds = self.0.lock();
        let known = kinds.entry(kind).or_default();
        if known.refused.as_ref().is_some_and(|refused| !refused.remaining(now, timing).is_zero()) {
            return;
        }
        let before = known.refused.as_ref().map_or(0, |refused| refused.before.saturating_add(1));
        *known =
            Known { used: now, is_accepted: false, refused: Some(Refused { condition, at: now, before }), trial: None };
    }

    /// Records that EC2 accepts the parameters.
    pub(crate) fn accepted(&self, kind: LaunchKind, now: Duration) {
        self.0.lock().insert(kind, Known { used: now, is_accepted: true, refused: None, trial: None });
    }

    /// Records that a machine no longer asks EC2 and has no answer about the parameters, so that the next machine asks.
    pub(crate) fn undecided(&self, kind: LaunchKind, uid: &str) {
        if let Some(known) = self.0.lock().get_mut(&kind) {
            known.trial.take_if(|(asks, _)| asks == uid);
        }
    }

    /// Whether EC2 accepts the parameters, as far as is known.
    pub(crate) fn is_accepted(&self, kind: LaunchKind) -> bool {
        self.0.lock().get(&kind).is_some_and(|known| known.is_accepted)
    }
}

impl Refused {
    fn remaining(&self, now: Duration, timing: &Timing) -> Duration {
        (self.at + timing.refusal_wait(self.before)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use capa_api::conditions::{ConditionType, Reason};

    use super::*;

    const KIND: LaunchKind = LaunchKind(1);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn condition() -> ConditionUpdate {
        ConditionType::InstanceReady.is_false(Reason::NotFound, "there is no such image")
    }

    /// Runs a pass of each machine every second for `long` seconds, while EC2 refuses the kind. Returns the times of
    /// the calls.
    fn calls(machines: usize, long: u64) -> Vec<u64> {
        let (kinds, timing) = (LaunchKinds::default(), Timing::default());
        let mut calls = Vec::new();
        for second in 0..long {
            for machine in 0..machines {
                match kinds.begin(KIND, &machine.to_string(), at(second), &timing) {
                    Permission::Granted => {
                        calls.push(second);
                        kinds.refused(KIND, condition(), at(second), &timing);
                        kinds.refused(KIND, condition(), at(second), &timing);
                    }
                    Permission::Refused(shown, _) => assert_eq!(*shown, condition()),
                    Permission::Waits => panic!("the first machine has its answer"),
                }
            }
        }
        calls
    }

    #[test]
    fn many_refused_machines_ask_as_often_as_one() {
        let expected = [0, 15, 60, 360, 660, 960];
        assert_eq!(calls(1, 1_000), expected);
        assert_eq!(calls(100, 1_000), expected);
    }

    #[test]
    fn the_first_machine_asks_and_the_others_wait() {
        let (kinds, timing) = (LaunchKinds::default(), Timing::default());
        let ask = |uid: &str, second| kinds.begin(KIND, uid, at(second), &timing);
        assert_eq!(ask("a", 0), Permission::Granted);
        assert_eq!(ask("b", 1), Permission::Waits);
        assert_eq!(ask("a", 4), Permission::Granted, "it comes back at its turn");
        assert_eq!(ask("b", 8), Permission::Waits);
        assert_eq!(ask("b", 9), Permission::Granted, "the first one does not come back");
        assert_eq!(ask("a", 9), Permission::Waits);
        kinds.undecided(KIND, "a");
        assert_eq!(kinds.begin(KIND, "a", at(9), &timing), Permission::Waits, "another one asks");
        kinds.undecided(KIND, "b");
        assert_eq!(kinds.begin(KIND, "c", at(9), &timing), Permission::Granted);
        kinds.accepted(KIND, at(9));
        for uid in ["a", "b", "c"] {
            assert_eq!(kinds.begin(KIND, uid, at(9), &timing), Permission::Granted);
        }
        assert_eq!(kinds.begin(LaunchKind(2), "d", at(9), &timing), Permission::Granted, "another kind");
    }

    #[test]
    fn one_machine_tries_a_refused_kind_again() {
        let (kinds, timing) = (LaunchKinds::default(), Timing::default());
        kinds.refused(KIND, condition(), at(0), &timing);
        assert_eq!(kinds.active_backoff(KIND, at(5), &timing), Some((condition(), at(10))));
        assert_eq!(kinds.active_backoff(KIND, at(15), &timing), None);
        assert_eq!(kinds.begin(KIND, "a", at(15), &timing), Permission::Granted);
        let refused = Permission::Refused(Box::new(condition()), at(5));
        assert_eq!(kinds.begin(KIND, "b", at(15), &timing), refused);
        kinds.accepted(KIND, at(16));
        assert_eq!(kinds.begin(KIND, "b", at(16), &timing), Permission::Granted);
    }

    #[test]
    fn a_kind_that_nobody_uses_is_removed() {
        let (kinds, timing) = (LaunchKinds::default(), Timing::default());
        for kind in 0..1_000 {
            kinds.begin(LaunchKind(kind), "a", at(0), &timing);
        }
        assert_eq!(kinds.0.lock().len(), 1_000);
        kinds.begin(KIND, "a", at(3_600), &timing);
        assert_eq!(kinds.0.lock().len(), 1);
    }
}
