//! What may go wrong with a call, and which calls it goes wrong with.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;

use crate::calls::{Action, Service};

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process dies before the call leaves it.
    CrashBefore,
    /// The call takes effect, and the process dies before it has the answer.
    CrashAfter,
    /// The call takes effect, and its answer is lost.
    LostAnswer,
    /// The call is lost on its way, and its caller hears nothing.
    Dropped,
    /// The caller hears nothing and gives up; so much later the call takes effect after all.
    LateEffect(Duration),
    /// The service turns it away for now.
    Throttled,
    /// The service refuses it by this code.
    Refused(&'static str),
    /// A read shows the past; a write is shown late by the caches.
    Stale,
    /// The call takes so long.
    Slow(Duration),
    /// The process stands still for so long while the call is under way. Beyond the lease another one leads meanwhile,
    /// and the woken one goes on for a moment.
    Frozen(Duration),
}

/// Decides what goes wrong.
pub(crate) enum Faults {
    /// These calls, by their number in the history.
    Planned(BTreeMap<usize, Fault>),
    /// Calls at random.
    Random(Mix),
}

/// Faults at random, until a time.
pub(crate) struct Mix {
    /// Of 1,000 calls so many go wrong.
    pub(crate) permille: u32,
    /// What may go wrong.
    pub(crate) kinds: Vec<FaultKind>,
    /// From then on nothing goes wrong.
    pub(crate) until: Timestamp,
}

/// A fault whose numbers are yet to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    CrashBefore,
    CrashAfter,
    LostAnswer,
    Dropped,
    LateEffect,
    Throttled,
    Refused,
    Stale,
    Slow,
    Frozen,
}

impl FaultKind {
    pub(crate) const ALL: [Self; 10] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::LostAnswer,
        Self::Dropped,
        Self::LateEffect,
        Self::Throttled,
        Self::Refused,
        Self::Stale,
        Self::Slow,
        Self::Frozen,
    ];

    fn draw(self, action: Action, random: &mut Rng) -> Fault {
        match self {
            Self::CrashBefore => Fault::CrashBefore,
            Self::CrashAfter => Fault::CrashAfter,
            Self::LostAnswer => Fault::LostAnswer,
            Self::Dropped => Fault::Dropped,
            Self::LateEffect => Fault::LateEffect(Duration::from_millis(random.u64(100..30_000))),
            Self::Throttled => Fault::Throttled,
            Self::Refused => refusal(action, random),
            Self::Stale => Fault::Stale,
            Self::Slow => Fault::Slow(Duration::from_millis(random.u64(1_000..150_000))),
            Self::Frozen => Fault::Frozen(Duration::from_secs(random.u64(1..1_200))),
        }
    }
}

fn refusal(action: Action, random: &mut Rng) -> Fault {
    let codes: &[&'static str] = match (action.service, action.name) {
        (Service::Aws, "RunInstances") => &[
            "InsufficientInstanceCapacity",
            "InternalError",
            "VcpuLimitExceeded",
            "InvalidParameterValue",
            "UnauthorizedOperation",
        ],
        (Service::Aws, _) => &["InternalError", "UnauthorizedOperation", "RequestExpired"],
        (Service::Kubernetes | Service::Clock(_), _) => &["500: etcdserver: request timed out"],
    };
    random.choice(codes).map_or(Fault::Dropped, |code| Fault::Refused(code))
}

/// A fault by its name in `call:fault`, as sweeps print it.
impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let fault = Self::SYSTEMATIC.into_iter().find(|fault| format!("{fault:?}") == name);
        fault.ok_or_else(|| format!("{name} is none of {:?}", Self::SYSTEMATIC))
    }
}

impl Fault {
    /// What the sweep tries on every call.
    pub const SYSTEMATIC: [Self; 5] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::LostAnswer,
        Self::Throttled,
        Self::Stale,
    ];
}

impl Faults {
    /// What goes wrong with this call, if anything.
    pub(crate) fn of(&self, number: usize, action: Action, now: Timestamp, random: &mut Rng) -> Option<Fault> {
        match self {
            Self::Planned(faults) => faults.get(&number).copied(),
            Self::Random(mix) => {
                // Writes are fewer than reads, and more depends on them.
                let permille = if action.writes { 2 * mix.permille } else { mix.permille };
                let goes_wrong = now < mix.until && random.u32(0..1_000) < permille;
                let kind = random.choice(&mix.kinds).filter(|_| goes_wrong)?;
                Some(kind.draw(action, random))
            }
        }
    }
}
