//! The faults of calls, and the choice of the calls that have one.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;

use crate::calls::{Action, Service};

/// The fault of a call.
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

/// Faults at random.
pub(crate) struct Mix {
    /// Of 1,000 calls so many go wrong.
    pub(crate) permille: u32,
    /// The possible faults.
    pub(crate) kinds: Vec<FaultKind>,
    /// Of 1,000 calls of RunInstances so many go wrong.
    pub(crate) launch_permille: u32,
    /// Their possible faults.
    pub(crate) launch_kinds: Vec<FaultKind>,
}

/// A fault whose numbers are yet to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// [`Fault::CrashBefore`]
    CrashBefore,
    /// [`Fault::CrashAfter`]
    CrashAfter,
    /// [`Fault::LostAnswer`]
    LostAnswer,
    /// [`Fault::Dropped`]
    Dropped,
    /// [`Fault::LateEffect`]
    LateEffect,
    /// [`Fault::Throttled`]
    Throttled,
    /// [`Fault::Refused`]
    Refused,
    /// [`Fault::Stale`]
    Stale,
    /// [`Fault::Slow`]
    Slow,
    /// [`Fault::Frozen`]
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

    /// Whether the process that makes a call never gets its answer, or may get it too late to use it.
    pub(crate) fn leaves_caller_without_answer(self) -> bool {
        match self {
            Self::CrashBefore
            | Self::CrashAfter
            | Self::LostAnswer
            | Self::Dropped
            | Self::LateEffect
            | Self::Frozen => true,
            Self::Throttled | Self::Refused | Self::Stale | Self::Slow => false,
        }
    }

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
            Self::Frozen => Fault::Frozen(standstill(random)),
        }
    }
}

/// A process stands still for minutes, and seldom, as the machine that it runs on may, for hours.
fn standstill(random: &mut Rng) -> Duration {
    let longest = if random.u32(0..20) == 0 { 60_000 } else { 1_200 };
    Duration::from_secs(random.u64(1..longest))
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
    /// The faults that the sweep tries on every call.
    pub const SYSTEMATIC: [Self; 5] =
        [Self::CrashBefore, Self::CrashAfter, Self::LostAnswer, Self::Throttled, Self::Stale];

    /// The kind of the call.
    pub(crate) fn kind(self) -> FaultKind {
        match self {
            Self::CrashBefore => FaultKind::CrashBefore,
            Self::CrashAfter => FaultKind::CrashAfter,
            Self::LostAnswer => FaultKind::LostAnswer,
            Self::Dropped => FaultKind::Dropped,
            Self::LateEffect(_) => FaultKind::LateEffect,
            Self::Throttled => FaultKind::Throttled,
            Self::Refused(_) => FaultKind::Refused,
            Self::Stale => FaultKind::Stale,
            Self::Slow(_) => FaultKind::Slow,
            Self::Frozen(_) => FaultKind::Frozen,
        }
    }
}

impl Faults {
    /// The fault of this call, if it has one. `chaos`: calls go wrong at random.
    pub(crate) fn of(&self, number: usize, action: Action, chaos: bool, random: &mut Rng) -> Option<Fault> {
        match self {
            Self::Planned(faults) => faults.get(&number).copied(),
            Self::Random(mix) => {
                let (permille, kinds) = mix.of(action);
                let goes_wrong = chaos && random.u32(0..1_000) < permille;
                let kind = random.choice(kinds).filter(|_| goes_wrong)?;
                Some(kind.draw(action, random))
            }
        }
    }
}

impl Mix {
    /// How often such a call goes wrong, and how. Writes are fewer than reads, and more depends on them; launches are
    /// the fewest, and most depends on them.
    fn of(&self, action: Action) -> (u32, &[FaultKind]) {
        if action.is_launch() && self.launch_permille > 0 {
            (self.launch_permille, &self.launch_kinds)
        } else if action.writes {
            (2 * self.permille, &self.kinds)
        } else {
            (self.permille, &self.kinds)
        }
    }
}
