//! The faults that a test injects into the calls of an account.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// A fault in the calls of an account, until it is [lifted](super::InjectedFault::lift) or used up. Calls with the
/// [user's key](super::Account::user_key) meet no faults, so that a test can always read the actual state.
///
/// ```no_run
/// # use std::time::Duration;
/// # use capa_e2e::aws_proxy::{Account, Fault};
/// # fn main() { let account: Account = todo!();
/// account.fault(Fault::on("RunInstances").in_zone("eu-west-1a").error("InsufficientInstanceCapacity"));
/// account.fault(Fault::on("RunInstances").delay(Duration::from_millis(1500)));
/// account.fault(Fault::on("TerminateInstances").dropped_after_effect().times(2));
/// let outage = account.fault(Fault::unreachable());
/// outage.lift();
/// # }
/// ```
///
/// All faults that match a call apply in the order of their injection: delays add up, and the first fault with an
/// ending decides how the call ends.
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing before it is injected with Account::fault"]
pub struct Fault {
    action: Option<String>,
    zone: Option<String>,
    subnet: Option<String>,
    by_nodes: bool,
    ending: Ending,
    delay: Duration,
    times: Option<u64>,
    lasting: Option<Duration>,
}

/// The ending of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// The call ends as without a fault.
    #[default]
    Usual,
    /// The call is refused with this error code.
    Refused(String),
    /// The connection is closed before the call has had its effect.
    RequestLost,
    /// The connection is closed after the call has had its effect.
    AnswerLost,
    /// The launch succeeds, and its instances end before they run.
    Dying {
        /// AWS's reason code, e.g. `Server.InsufficientInstanceCapacity`.
        reason: String,
        /// The time from the launch to the end of the instances.
        after: Duration,
    },
}

/// The stage of a call's processing at which a fault applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before AWS evaluates the request.
    Request,
    /// Before AWS launches instances. A launch that repeats an earlier ClientToken never reaches this stage.
    Launch,
}

/// The properties of a call that faults are matched against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) action: &'a str,
    /// The zone of a launch; empty where the request leaves the zone open.
    pub(super) zone: &'a str,
    /// The subnet of a launch.
    pub(super) subnet: Option<&'a str>,
    /// Whether a node makes the call.
    pub(super) by_node: bool,
}

/// The effect of an account's faults on one call.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultEffect {
    pub(super) ending: Ending,
    pub(super) delay: Delay,
}

/// How long an answer is held back: the delays of the faults, each of which ends early when its fault is lifted.
#[derive(Clone, Debug, Default)]
pub(super) struct Delay(Vec<(Duration, CancellationToken)>);

impl Delay {
    pub(super) fn is_zero(&self) -> bool {
        self.0.iter().all(|(duration, _)| duration.is_zero())
    }

    /// Adds another delay after this one.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Waits until the delay is over.
    pub(super) async fn pass(self) {
        for (duration, lifted) in self.0 {
            tokio::select! {
                () = tokio::time::sleep(duration) => {}
                () = lifted.cancelled() => {}
            }
        }
    }
}

impl Fault {
    /// A fault of one action, e.g. `RunInstances`. Without further settings the fault only counts the calls.
    pub fn on(action: &str) -> Self {
        Self { action: Some(action.to_owned()), ..Self::on_everything() }
    }

    /// A fault of every call, including those of services other than EC2.
    pub fn on_everything() -> Self {
        Self {
            action: None,
            zone: None,
            subnet: None,
            by_nodes: false,
            ending: Ending::default(),
            delay: Duration::ZERO,
            times: None,
            lasting: None,
        }
    }

    /// An outage: every connection is closed as soon as a request arrives.
    pub fn unreachable() -> Self {
        Self::on_everything().dropped_before_effect()
    }

    /// Limits the fault to launches into this zone.
    pub fn in_zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    /// Limits the fault to launches into this subnet.
    pub fn in_subnet(mut self, subnet: &str) -> Self {
        self.subnet = Some(subnet.to_owned());
        self
    }

    /// Limits the fault to calls of [nodes](Account::node_key).
    pub fn by_nodes(mut self) -> Self {
        self.by_nodes = true;
        self
    }

    /// Refuses the call with this code, with AWS's HTTP status and envelope for the code. A launch with a ClientToken
    /// that has launched before still gets its first answer, unless the code concerns the caller (throttling,
    /// permissions) or the service (`InternalError`, `Unavailable`…) and not the launch.
    pub fn error(self, code: &str) -> Self {
        self.ending(Ending::Refused(code.to_owned()))
    }

    /// Holds the answer back for this long, or until the fault is lifted. The call has its effect.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Closes the connection without an answer. The call has no effect.
    pub fn dropped_before_effect(self) -> Self {
        self.ending(Ending::RequestLost)
    }

    /// Closes the connection without an answer. The call has its effect.
    pub fn dropped_after_effect(self) -> Self {
        self.ending(Ending::AnswerLost)
    }

    /// Lets the launch succeed; after this time its instances change from `pending` to `terminated`, with this code as
    /// their state reason, e.g. `Client.VolumeLimitExceeded`.
    pub fn dies_in_pending(self, reason: &str, after: Duration) -> Self {
        let reason = reason.to_owned();
        self.ending(Ending::Dying { reason, after })
    }

    /// Limits the fault to this number of calls. Default: no limit.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Ends the fault this long after its injection.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.lasting = Some(duration);
        self
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    fn stage(&self) -> Stage {
        match &self.ending {
            Ending::Dying { .. } => Stage::Launch,
            Ending::Refused(code) if self.action.as_deref() == Some("RunInstances") && !is_about_the_caller(code) => {
                Stage::Launch
            }
            _ => Stage::Request,
        }
    }

    fn concerns(&self, target: &Target<'_>) -> bool {
        (target.by_node || !self.by_nodes)
            && self.action.as_deref().is_none_or(|action| action == target.action)
            && self.zone.as_deref().is_none_or(|zone| zone == target.zone)
            && self.subnet.as_deref().is_none_or(|subnet| Some(subnet) == target.subnet)
    }
}

/// Whether AWS answers with this code before it evaluates the launch itself.
fn is_about_the_caller(code: &str) -> bool {
    matches!(
        code,
        "RequestLimitExceeded"
            | "AuthFailure"
            | "UnauthorizedOperation"
            | "ExpiredToken"
            | "RequestExpired"
            | "OptInRequired"
            | "PendingVerification"
            | "Blocked"
            | "InternalError"
            | "InternalFailure"
            | "Unavailable"
            | "ServiceUnavailable"
    )
}

/// The faults of one account, including those that have ended.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Active>);

#[derive(Debug)]
struct Active {
    fault: Fault,
    until: Option<Instant>,
    lifted: CancellationToken,
    hits: u64,
}

impl Faults {
    /// Adds a fault and returns its index.
    pub(super) fn add(&mut self, fault: Fault, now: Instant) -> usize {
        self.0.push(Active {
            until: fault.lasting.map(|lasting| now + lasting),
            fault,
            lifted: CancellationToken::new(),
            hits: 0,
        });
        self.0.len() - 1
    }

    pub(super) fn lift(&self, index: usize) {
        if let Some(active) = self.0.get(index) {
            active.lifted.cancel();
        }
    }

    pub(super) fn hits(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |active| active.hits)
    }

    /// The effect of the faults on a call at this stage.
    pub(super) fn apply(&mut self, target: &Target<'_>, stage: Stage, now: Instant) -> FaultEffect {
        let mut effect = FaultEffect::default();
        let active = self.0.iter_mut().filter(|active| active.is_active(now));
        for active in active.filter(|active| active.fault.stage() == stage && active.fault.concerns(target)) {
            active.hits += 1;
            effect.delay.0.push((active.fault.delay, active.lifted.clone()));
            if active.fault.ending != Ending::Usual {
                effect.ending = active.fault.ending.clone();
                break;
            }
        }
        effect
    }
}

impl Active {
    fn is_active(&self, now: Instant) -> bool {
        !self.lifted.is_cancelled()
            && self.until.is_none_or(|until| now < until)
            && self.fault.times.is_none_or(|times| self.hits < times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn target(zone: &'static str) -> Target<'static> {
        Target { action: "RunInstances", zone, subnet: Some("subnet-1"), by_node: false }
    }

    fn refused(code: &str) -> Ending {
        Ending::Refused(code.to_owned())
    }

    #[test]
    fn a_fault_concerns_its_action_zone_and_subnet_only() {
        let now = Instant::now();
        let mut faults = Faults::default();
        let launch = Fault::on("RunInstances").in_zone("a").in_subnet("subnet-1");
        faults.add(launch.error("InsufficientInstanceCapacity"), now);
        let mut ending_of = |target: Target<'_>| faults.apply(&target, Stage::Launch, now).ending;
        assert_eq!(ending_of(target("a")), refused("InsufficientInstanceCapacity"));
        for spared in
            [target("b"), Target { subnet: None, ..target("a") }, Target { action: "CreateTags", ..target("a") }]
        {
            assert_eq!(ending_of(spared), Ending::Usual, "{spared:?}");
        }
        assert_eq!(faults.hits(0), 1);
    }

    #[test]
    fn a_fault_of_nodes_spares_the_manager() {
        let now = Instant::now();
        let mut faults = Faults::default();
        faults.add(Fault::on_everything().by_nodes().error("AccessDeniedException"), now);
        let mut ending_of = |by_node| {
            let target = Target { by_node, ..target("a") };
            faults.apply(&target, Stage::Request, now).ending
        };
        assert_eq!(ending_of(false), Ending::Usual);
        assert_eq!(ending_of(true), refused("AccessDeniedException"));
    }

    #[test]
    fn a_fault_ends_when_it_is_used_up_over_or_lifted() {
        let start = Instant::now();
        let mut faults = Faults::default();
        faults.add(Fault::on_everything().error("Once").times(1), start);
        faults.add(Fault::on_everything().error("Brief").lasting(SECOND), start);
        faults.add(Fault::unreachable(), start);
        let mut ending_of = |now| faults.apply(&target("a"), Stage::Request, now).ending;
        assert_eq!(ending_of(start), refused("Once"));
        assert_eq!(ending_of(start), refused("Brief"));
        assert_eq!(ending_of(start + SECOND), Ending::RequestLost);
        faults.lift(2);
        let effect = faults.apply(&target("a"), Stage::Request, start + SECOND);
        assert!(effect.ending == Ending::Usual && effect.delay.is_zero(), "{effect:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn delays_add_up_until_a_fault_ends_the_call_or_is_lifted() {
        let now = Instant::now();
        let mut faults = Faults::default();
        faults.add(Fault::on_everything().delay(SECOND), now);
        faults.add(Fault::on("RunInstances").delay(SECOND).dropped_after_effect(), now);
        faults.add(Fault::on_everything().delay(SECOND), now);
        let effect = faults.apply(&target("a"), Stage::Request, now);
        assert_eq!(effect.ending, Ending::AnswerLost);
        let passed = async |delay: Delay| {
            let began = tokio::time::Instant::now();
            delay.pass().await;
            began.elapsed()
        };
        assert_eq!(passed(effect.delay.clone()).await, 2 * SECOND);
        faults.lift(1);
        assert_eq!(passed(effect.delay).await, SECOND);
    }

    #[test]
    fn a_refused_launch_fails_at_the_stage_of_its_error_code() {
        let stage = |code| Fault::on("RunInstances").error(code).stage();
        assert_eq!(stage("InsufficientInstanceCapacity"), Stage::Launch);
        assert_eq!(stage("InvalidAMIID.NotFound"), Stage::Launch);
        assert_eq!(stage("RequestLimitExceeded"), Stage::Request);
        assert_eq!(Fault::on("TerminateInstances").error("IncorrectState").stage(), Stage::Request);
    }
}
