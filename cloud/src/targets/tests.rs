mod access;
mod departures;
mod missing_groups;
mod reads;

use capa_api::common::ControlPlaneTarget;

use super::*;
use crate::elb::{AddressFamily, TargetType};

const ARN: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
const SECOND: Duration = Duration::from_secs(1);

/// The targets under test; the tests answer the calls.
struct Scene {
    targets: Targets,
    now: Duration,
}

fn machine(name: &str) -> MachineKey {
    MachineKey { namespace: "default".into(), name: name.into() }
}

fn instance(name: &str) -> TargetInstance {
    TargetInstance { id: format!("i-{name}"), addresses: vec![format!("10.0.0.{}", name.len())] }
}

/// A request for the control plane of the Cluster `default/dev`.
fn request(target: ControlPlaneTarget) -> TargetRequest {
    TargetRequest {
        target,
        user: TargetUser {
            cluster: "default/dev".into(),
            cluster_tag: "dev".into(),
            policy: TargetPolicy::Any,
            used_by: None,
        },
        on_record: false,
    }
}

fn target_group() -> TargetRequest {
    request(ControlPlaneTarget { target_group_arn: Some(ARN.into()), ..ControlPlaneTarget::default() })
}

fn classic() -> TargetRequest {
    request(ControlPlaneTarget { classic_load_balancer_name: Some("api".into()), ..ControlPlaneTarget::default() })
}

fn target(id: &str) -> Target {
    Target { id: id.into(), port: Some(6443) }
}

fn health(state: TargetState) -> Health {
    let reason = (state == TargetState::Unhealthy).then(|| "Target.FailedHealthChecks".to_owned());
    Health { state, reason }
}

/// The registration state of an instance that another client has registered.
fn found(state: TargetState) -> RegistrationState {
    RegistrationState::Registered { health: health(state), by_us: false }
}

fn facts(target_type: TargetType) -> GroupAnswer {
    GroupAnswer::Facts(GroupFacts { target_type, port: Some(6443) })
}

fn refused(code: &str) -> CloudError {
    CloudError::answered("RegisterTargets", code, "refused for the test")
}

impl Scene {
    /// A scene of a process that has run for a long time and whose registrations are all answered.
    fn new() -> Self {
        Self::with(Timing { late_registration: Duration::ZERO, ..Timing::default() })
    }

    /// A scene whose instances drain for five minutes at most, which is longer than most other periods.
    fn with(timing: Timing) -> Self {
        let timing = Timing { drain_limit: SECOND * 300, ..timing };
        Self { targets: Targets::new(timing), now: Duration::ZERO }
    }

    /// A scene whose group was read and has these targets.
    fn looked_at(target_type: TargetType, name: &str, desired: Desired, seen: &[(&str, TargetState)]) -> Self {
        let mut scene = Self::new();
        scene.want(name, desired);
        scene.answer(&GroupRequest::Facts, Ok(facts(target_type)));
        scene.shows(seen);
        scene
    }

    fn want(&mut self, name: &str, desired: Desired) -> RegistrationState {
        let (machine, instance) = (machine(name), instance(name));
        let states = self.targets.want(&machine, &instance, &[target_group()], desired, self.now);
        states.into_iter().next().unwrap()
    }

    fn begin(&mut self) -> Option<GroupRequest> {
        self.next_call().map(|call| call.request)
    }

    /// The next call, except reads of tags, which are answered with no tags.
    fn next_call(&mut self) -> Option<GroupCall> {
        loop {
            let call = self.targets.begin(self.now)?;
            if call.request != GroupRequest::Tags {
                return Some(call);
            }
            let untagged = GroupAnswer::Tags(GroupTags::default());
            self.targets.ended(&call, Ok(untagged), self.now);
        }
    }

    /// Expects this call to be due, and answers it.
    fn answer(&mut self, expected: &GroupRequest, answer: Result<GroupAnswer, CloudError>) {
        let call = match expected {
            GroupRequest::Tags => self.targets.begin(self.now),
            _ => self.next_call(),
        };
        let call = call.expect("a call is due");
        assert_eq!(call.request, *expected, "at {:?}", self.now);
        assert_eq!(self.targets.begin(self.now), None, "one call at a time");
        self.targets.ended(&call, answer, self.now);
    }

    fn shows(&mut self, seen: &[(&str, TargetState)]) {
        let seen = seen.iter().map(|(id, state)| (target(id), health(*state))).collect();
        self.answer(&GroupRequest::Health, Ok(GroupAnswer::Health(seen)));
    }

    /// Advances the time to `then`, and expects no call to be due before.
    fn quiet_until(&mut self, then: Duration) {
        while let Some(due) = self.targets.next_due().filter(|due| *due < then) {
            self.now = due.max(self.now);
            assert_eq!(self.begin(), None, "at {:?}", self.now);
            assert!(self.targets.next_due() != Some(due), "it comes back for nothing at {due:?}");
        }
        self.now = then;
    }

    fn later(&mut self, by: Duration) {
        self.now += by;
    }

    /// Advances the time past the window in which writes are collected.
    fn window(&mut self) {
        assert_eq!(self.begin(), None, "others may join");
        self.later(SECOND);
    }
}

#[test]
fn a_healthy_target_is_registered_once_and_read_per_interval() {
    let mut scene = Scene::new();
    assert_eq!(scene.want("one", Desired::Registered), RegistrationState::Unknown);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Instance)));
    scene.shows(&[("i-of-others", TargetState::Healthy)]);
    assert_eq!(scene.want("one", Desired::Registered), RegistrationState::Registering);
    scene.window();
    scene.answer(&GroupRequest::Register(vec![target("i-one")]), Ok(GroupAnswer::Done));
    let initial = RegistrationState::Registered { health: health(TargetState::Initial), by_us: true };
    assert_eq!(scene.want("one", Desired::Registered), initial);
    scene.quiet_until(scene.now + SECOND * 10);
    scene.targets.take_woken();
    scene.shows(&[("i-one", TargetState::Healthy)]);
    assert_eq!(scene.targets.take_woken(), BTreeSet::from([machine("one")]));
    for _ in 0..3 {
        scene.quiet_until(scene.now + SECOND * 600);
        scene.shows(&[("i-one", TargetState::Healthy)]);
    }
    assert!(scene.targets.take_woken().is_empty());
}

#[test]
fn a_registered_target_is_not_registered_again() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    let healthy = found(TargetState::Healthy);
    assert_eq!(scene.want("one", Desired::Registered), healthy);
    scene.quiet_until(SECOND * 600);
}

#[test]
fn an_unreadable_group_differs_from_one_that_does_not_exist() {
    for (error, expected) in [
        (refused("Throttling"), RegistrationState::Unreadable(refused("Throttling"))),
        (refused("TargetGroupNotFound"), RegistrationState::Failed(refused("TargetGroupNotFound"))),
    ] {
        let mut scene = Scene::new();
        scene.want("one", Desired::Registered);
        scene.answer(&GroupRequest::Facts, Err(error));
        assert_eq!(scene.want("one", Desired::Registered), expected);
    }
}

#[test]
fn machines_share_reads_and_are_registered_together() {
    let mut scene = Scene::new();
    for name in ["a", "bb", "ccc"] {
        scene.want(name, Desired::Registered);
    }
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[]);
    scene.window();
    let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(target).to_vec();
    scene.answer(&GroupRequest::Register(all), Ok(GroupAnswer::Done));
    scene.quiet_until(scene.now + SECOND * 10);
    let healthy = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|id| (id, TargetState::Healthy));
    scene.shows(&healthy);
    scene.quiet_until(scene.now + SECOND * 600);
}

#[test]
fn a_lost_registration_is_repaired_after_the_next_read() {
    for left in [vec![], vec![("i-one", TargetState::Draining)]] {
        let seen = [("i-one", TargetState::Healthy)];
        let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
        scene.quiet_until(SECOND * 600);
        scene.shows(&left);
        assert_eq!(scene.want("one", Desired::Registered), RegistrationState::Registering);
        scene.window();
        scene.answer(&GroupRequest::Register(vec![target("i-one")]), Ok(GroupAnswer::Done));
    }
}

#[test]
fn a_registration_that_does_not_show_is_not_repeated_at_once() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    scene.window();
    let register = GroupRequest::Register(vec![target("i-one")]);
    scene.answer(&register, Ok(GroupAnswer::Done));
    let registered_at = scene.now;
    for look in 1..=3 {
        scene.quiet_until(registered_at + SECOND * 10 * look);
        scene.shows(&[]);
    }
    scene.window();
    scene.answer(&register, Ok(GroupAnswer::Done));
}

#[test]
fn an_unhealthy_target_is_read_often_for_a_limited_time() {
    let seen = [("i-one", TargetState::Unhealthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    let unhealthy = found(TargetState::Unhealthy);
    assert_eq!(scene.want("one", Desired::Registered), unhealthy);
    let mut looks = 0;
    while scene.now < SECOND * 3600 {
        scene.now = scene.targets.next_due().unwrap().max(scene.now);
        if let Some(call) = scene.targets.begin(scene.now) {
            assert_eq!(call.request, GroupRequest::Health);
            let seen = vec![(target("i-one"), health(TargetState::Unhealthy))];
            scene.targets.ended(&call, Ok(GroupAnswer::Health(seen)), scene.now);
            looks += 1;
        }
    }
    assert!((60..=68).contains(&looks), "{looks}");
}

#[test]
fn a_departure_ends_once_reads_omit_the_target() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("i-one")]), Ok(GroupAnswer::Done));
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND * 120)));
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.quiet_until(scene.now + SECOND * 10);
    scene.shows(&[("i-one", TargetState::Draining)]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.quiet_until(scene.now + SECOND * 10);
    scene.targets.take_woken();
    scene.shows(&[]);
    assert_eq!(scene.targets.take_woken(), BTreeSet::from([machine("one")]));
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}

/// The registration states of an instance that AWS shows as draining for ever, each with the time of the change, for
/// one deregistration delay of the group.
fn draining_for_ever(delay: Option<u64>) -> Vec<(u64, RegistrationState)> {
    let seen = [("i-one", TargetState::Draining)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Deregistered, &seen);
    let mut told = vec![];
    while scene.now < SECOND * 400 {
        let state = scene.want("one", Desired::Deregistered);
        if told.last().is_none_or(|(_, last)| *last != state) {
            told.push((scene.now.as_secs(), state));
        }
        while let Some(call) = scene.targets.begin(scene.now) {
            let answer = match (&call.request, delay) {
                (GroupRequest::Health, _) => {
                    Ok(GroupAnswer::Health(vec![(target("i-one"), health(TargetState::Draining))]))
                }
                (GroupRequest::Delay, Some(delay)) => Ok(GroupAnswer::Delay(SECOND * u32::try_from(delay).unwrap())),
                (GroupRequest::Delay, None) => Err(refused("AccessDenied")),
                (request, _) => panic!("{request:?}"),
            };
            scene.targets.ended(&call, answer, scene.now);
        }
        scene.later(SECOND);
    }
    told
}

#[test]
fn an_instance_drains_for_the_group_delay_or_five_minutes() {
    let leaving = (0, RegistrationState::Leaving);
    assert_eq!(draining_for_ever(Some(120)), [leaving.clone(), (120, RegistrationState::Out)]);
    assert_eq!(draining_for_ever(Some(3600)), [leaving.clone(), (300, RegistrationState::Overdue)]);
    assert_eq!(draining_for_ever(None), [leaving, (300, RegistrationState::Overdue)]);
}

#[test]
fn a_refused_deregistration_backs_off_and_ends_in_five_minutes() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    scene.want("one", Desired::Deregistered);
    let error = refused("AccessDenied");
    let mut tries = vec![];
    while scene.want("one", Desired::Deregistered) != RegistrationState::Overdue {
        assert!(scene.now <= SECOND * 300, "it is given up");
        while let Some(call) = scene.targets.begin(scene.now) {
            let answer = match call.request {
                GroupRequest::Deregister(_) => {
                    tries.push(scene.now.as_secs());
                    Err(error.clone())
                }
                _ => Ok(GroupAnswer::Health(vec![(target("i-one"), health(TargetState::Healthy))])),
            };
            scene.targets.ended(&call, answer, scene.now);
        }
        scene.later(SECOND);
    }
    assert_eq!(scene.now, SECOND * 300);
    assert_eq!(tries.len(), 6, "{tries:?}");
}

#[test]
fn a_target_that_is_refused_does_not_hold_up_the_others() {
    let mut scene = Scene::new();
    for name in ["a", "bad"] {
        scene.want(name, Desired::Registered);
    }
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Instance)));
    scene.shows(&[]);
    scene.window();
    let refusal = refused("InvalidTarget");
    scene.answer(&GroupRequest::Register(vec![target("i-a"), target("i-bad")]), Err(refusal.clone()));
    scene.window();
    scene.answer(&GroupRequest::Register(vec![target("i-a")]), Ok(GroupAnswer::Done));
    scene.window();
    scene.answer(&GroupRequest::Register(vec![target("i-bad")]), Err(refusal.clone()));
    assert_eq!(scene.want("bad", Desired::Registered), RegistrationState::Failed(refusal));
    assert!(matches!(scene.want("a", Desired::Registered), RegistrationState::Registered { .. }));
}

#[test]
fn only_addresses_of_a_gone_instance_are_deregistered() {
    let mut scene = Scene::new();
    scene.want("one", Desired::Forgotten);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Instance)));
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Out);
    scene.quiet_until(SECOND * 600);

    let mut scene = Scene::new();
    scene.want("one", Desired::Forgotten);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[("10.0.0.3", TargetState::Unhealthy)]);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("10.0.0.3")]), Ok(GroupAnswer::Done));
}

#[test]
fn an_address_that_another_machine_has_taken_stays() {
    let mut scene = Scene::new();
    scene.want("old", Desired::Forgotten);
    scene.want("new", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[("10.0.0.3", TargetState::Healthy)]);
    assert_eq!(scene.want("old", Desired::Forgotten), RegistrationState::Out);
    scene.quiet_until(SECOND * 600);
}

#[test]
fn a_group_of_addresses_takes_those_of_its_family() {
    let by_ipv6 = || facts(TargetType::Ip(AddressFamily::Ipv6));
    let dual = TargetInstance { id: "i-dual".into(), addresses: vec!["10.0.0.4".into(), "2001:db8::4".into()] };
    let mut scene = Scene::new();
    scene.targets.want(&machine("dual"), &dual, &[target_group()], Desired::Registered, scene.now);
    scene.answer(&GroupRequest::Facts, Ok(by_ipv6()));
    scene.shows(&[]);
    scene.window();
    scene.answer(&GroupRequest::Register(vec![target("2001:db8::4")]), Ok(GroupAnswer::Done));
    let more = TargetInstance { addresses: vec!["2001:db8::1".into(), "2001:db8::4".into()], ..dual };
    scene.quiet_until(scene.now + SECOND * 10);
    scene.shows(&[("2001:db8::4", TargetState::Healthy)]);
    scene.targets.want(&machine("dual"), &more, &[target_group()], Desired::Registered, scene.now);
    scene.quiet_until(scene.now + SECOND * 100);

    let mut scene = Scene::new();
    scene.want("one", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(by_ipv6()));
    scene.shows(&[]);
    let unsuitable = RegistrationState::Unsuitable("ip with IPv6 addresses".into());
    assert_eq!(scene.want("one", Desired::Registered), unsuitable);
    scene.quiet_until(SECOND * 600);
}

#[test]
fn a_group_of_another_target_type_is_unsuitable() {
    let mut scene = Scene::new();
    scene.want("one", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Other("lambda".into()))));
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Registered), RegistrationState::Unsuitable("lambda".into()));
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
    scene.quiet_until(SECOND * 600);
}

#[test]
fn a_classic_load_balancer_needs_no_facts_and_has_no_ports() {
    let mut targets = Targets::new(Timing::default());
    let want = |targets: &mut Targets| {
        let both = [classic(), target_group()];
        targets.want(&machine("one"), &instance("one"), &both, Desired::Registered, Duration::ZERO)
    };
    assert_eq!(want(&mut targets), [RegistrationState::Unknown, RegistrationState::Unknown]);
    let calls: Vec<GroupCall> = std::iter::from_fn(|| targets.begin(Duration::ZERO)).collect();
    let questions: Vec<&GroupRequest> = calls.iter().map(|call| &call.request).collect();
    assert_eq!(questions, [&GroupRequest::Facts, &GroupRequest::Health]);
    let classic = calls.last().unwrap();
    assert_eq!(classic.group, Group::Classic("api".into()));
    targets.ended(classic, Ok(GroupAnswer::Health(vec![])), Duration::ZERO);
    let tags = targets.begin(Duration::ZERO).unwrap();
    assert_eq!((&tags.group, tags.action()), (&classic.group, "DescribeTags"));
    targets.ended(&tags, Ok(GroupAnswer::Tags(GroupTags::default())), Duration::ZERO);
    assert_eq!(targets.begin(Duration::ZERO), None);
    let register = targets.begin(SECOND).unwrap();
    let target = Target { id: "i-one".into(), port: None };
    assert_eq!(register.request, GroupRequest::Register(vec![target]));
}

#[test]
fn forgotten_machines_cause_no_calls() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    scene.targets.forget(&machine("one"));
    assert_eq!(scene.targets.next_due(), None);
    scene.later(SECOND * 10_000);
    assert_eq!(scene.begin(), None);
}
