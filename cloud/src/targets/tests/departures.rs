//! Deregistrations of instances, and the limits of the wait for them.

use super::*;
use crate::limits::{Flow, Priority};

#[test]
fn a_deregistered_address_is_released_for_good() {
    let mut scene = Scene::new();
    scene.want("one", Desired::Forgotten);
    scene.want("other", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[("10.0.0.3", TargetState::Healthy), ("10.0.0.5", TargetState::Healthy)]);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("10.0.0.3")]), Ok(GroupAnswer::Done));
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Out);
    for _ in 0..3 {
        scene.quiet_until(scene.now + SECOND * 600);
        scene.shows(&[("10.0.0.3", TargetState::Healthy), ("10.0.0.5", TargetState::Healthy)]);
        assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Out, "it is somebody else's now");
    }
}

#[test]
fn a_departure_lasts_while_a_registration_may_still_show() {
    let register = GroupRequest::Register(vec![target("i-one")]);
    let deregister = GroupRequest::Deregister(vec![target("i-one")]);
    for answer in [Ok(GroupAnswer::Done), Err(CloudError::no_answer("RegisterTargets", "none"))] {
        let is_answered = answer.is_ok();
        let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
        scene.window();
        let call = scene.targets.begin(scene.now).expect("a registration");
        assert_eq!(call.request, register);
        assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving, "under way");
        scene.targets.ended(&call, answer, scene.now);
        assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving, "{is_answered}");
        scene.window();
        scene.answer(&deregister, Ok(GroupAnswer::Done));
        scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND * 120)));
        scene.quiet_until(scene.now + SECOND * 10);
        scene.shows(&[]);
        assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
    }
}

#[test]
fn a_registration_that_does_not_show_yet_is_undone() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    scene.window();
    scene.answer(&GroupRequest::Register(vec![target("i-one")]), Ok(GroupAnswer::Done));
    scene.quiet_until(scene.now + SECOND * 10);
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("i-one")]), Ok(GroupAnswer::Done));
}

#[test]
fn five_minutes_count_from_the_accepted_deregistration() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Deregistered, &seen);
    scene.window();
    scene.later(SECOND * 200);
    scene.answer(&GroupRequest::Deregister(vec![target("i-one")]), Ok(GroupAnswer::Done));
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND * 3600)));
    let begun = scene.now;
    scene.now = begun + SECOND * 299;
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.now = begun + SECOND * 300;
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Overdue);
}

#[test]
fn a_read_from_before_the_departure_does_not_prove_it() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    scene.later(SECOND * 400);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
}

#[test]
fn calls_for_departures_go_first_including_reads() {
    for (desired, priority) in [(Desired::Registered, Priority::Describe), (Desired::Deregistered, Priority::Terminate)]
    {
        let mut scene = Scene::new();
        scene.want("one", desired);
        let call = scene.targets.begin(scene.now).unwrap();
        let turn = call.rate_request(&Flow::Session("one".into()));
        assert_eq!((&call.request, turn.priority), (&GroupRequest::Facts, priority));
    }
}

#[test]
fn calls_use_the_turns_of_the_cluster_that_uses_the_group() {
    let mut scene = Scene::new();
    let ask = |scene: &mut Scene, namespace: &str, used_by: Option<&str>| {
        let mut request = target_group();
        request.user.used_by = used_by.map(str::to_owned);
        let machine = MachineKey { namespace: namespace.into(), name: "one".into() };
        scene.targets.ask(&machine, &[request], scene.now);
    };
    ask(&mut scene, "team-a", Some("team-b/dev"));
    ask(&mut scene, "team-b", None);
    let call = scene.targets.begin(scene.now).unwrap();
    let cluster =
        |namespace: &str| Flow::Cluster(crate::ClusterKey { namespace: namespace.into(), name: "dev".into() });
    let session = Flow::Session("one".into());
    assert_eq!(call.rate_request(&session).flow, cluster("team-b"));
    let unused = GroupCall { cluster: None, ..call };
    assert_eq!(unused.rate_request(&session).flow, session);
}

#[test]
fn an_unreadable_group_is_read_at_its_time_even_when_overdue() {
    let mut scene = Scene::new();
    scene.want("one", Desired::Deregistered);
    scene.answer(&GroupRequest::Facts, Err(refused("AccessDenied")));
    scene.now = SECOND * 400;
    scene.answer(&GroupRequest::Facts, Err(refused("AccessDenied")));
    assert_eq!(scene.begin(), None);
    assert!(scene.targets.next_due().is_some_and(|due| due > scene.now));
}

#[test]
fn a_target_removed_from_a_machine_is_not_registered_again() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    let now = scene.now;
    let states = scene.targets.want(&machine("one"), &instance("one"), &[classic()], Desired::Registered, now);
    assert_eq!(states, [RegistrationState::Unknown]);
    while let Some(call) = scene.targets.begin(scene.now + SECOND * 3600) {
        assert_eq!(call.group, Group::Classic("api".into()));
        let error = Err(refused("Throttling"));
        scene.targets.ended(&call, error, scene.now + SECOND * 3600);
    }
}

#[test]
fn a_refusal_from_before_the_departure_proves_nothing() {
    let mut scene = Scene::new();
    scene.want("one", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Err(refused("TargetGroupNotFound")));
    scene.later(SECOND * 400);
    assert!(matches!(scene.want("one", Desired::Deregistered), RegistrationState::Unreadable(_)));
    scene.answer(&GroupRequest::Facts, Err(refused("TargetGroupNotFound")));
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}

#[test]
fn a_read_under_way_when_the_departure_began_proves_nothing() {
    let mut scene = Scene::new();
    scene.want("one", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Instance)));
    let look = scene.targets.begin(scene.now).expect("a look");
    scene.later(SECOND);
    scene.want("one", Desired::Deregistered);
    let nothing = Ok(GroupAnswer::Health(Vec::new()));
    scene.targets.ended(&look, nothing, scene.now);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
}

#[test]
fn a_write_for_one_instance_does_not_count_as_a_read() {
    let seen = [("10.0.0.5", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Ip(AddressFamily::Ipv4), "other", Desired::Registered, &seen);
    scene.later(SECOND * 5);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.want("other", Desired::Deregistered);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("10.0.0.5")]), Ok(GroupAnswer::Done));
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
}

#[test]
fn an_overdue_address_is_tried_again_once_its_instance_is_gone() {
    let seen = [("10.0.0.3", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Ip(AddressFamily::Ipv4), "one", Desired::Deregistered, &seen);
    let deregister = GroupRequest::Deregister(vec![target("10.0.0.3")]);
    scene.window();
    scene.answer(&deregister, Err(CloudError::no_answer("DeregisterTargets", "none")));
    scene.later(SECOND * 300);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Overdue);
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Leaving, "its time begins anew");
    scene.shows(&seen);
    scene.window();
    scene.answer(&deregister, Ok(GroupAnswer::Done));
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Out);
}

#[test]
fn a_returning_target_drains_anew_for_a_bounded_time() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Deregistered, &seen);
    let deregister = GroupRequest::Deregister(vec![target("i-one")]);
    scene.window();
    scene.answer(&deregister, Ok(GroupAnswer::Done));
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND * 60)));
    for again in 1..=8 {
        scene.quiet_until(scene.now + SECOND * 10);
        scene.shows(&seen);
        scene.window();
        scene.answer(&deregister, Ok(GroupAnswer::Done));
        scene.later(SECOND * 30);
        assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving, "{again}");
        scene.shows(&[("i-one", TargetState::Draining)]);
    }
    assert!(scene.now > SECOND * 300, "{:?}", scene.now);
    let last = scene.now.saturating_sub(SECOND * 30);
    scene.quiet_until(scene.now + SECOND * 10);
    scene.shows(&seen);
    scene.window();
    scene.answer(&deregister, Ok(GroupAnswer::Done));
    scene.now = last + SECOND * 60;
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}

#[test]
fn answers_to_credentials_of_another_account_are_forgotten() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Deregistered, &[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
    scene.targets.forget_answers();
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Unknown);
    let of_the_other = scene.targets.begin(scene.now).expect("a look");
    scene.targets.forget_answers();
    let nothing = Err(refused("TargetGroupNotFound"));
    scene.targets.ended(&of_the_other, nothing, scene.now);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Unknown);
    scene.shows(&[("i-one", TargetState::Healthy)]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
}

#[test]
fn a_predecessors_registration_may_come_in_the_first_minute() {
    let mut scene = Scene::with(Timing::default());
    scene.want("one", Desired::Deregistered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.quiet_until(SECOND * 10);
    scene.shows(&[("10.0.0.3", TargetState::Initial)]);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("10.0.0.3")]), Ok(GroupAnswer::Done));
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND)));
    scene.later(SECOND * 49);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}

/// A scene in which the registration of an address has just got no answer.
fn unanswered_registration() -> Scene {
    let mut scene = Scene::with(Timing::default());
    scene.want("one", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[]);
    scene.later(SECOND * 100);
    scene.shows(&[]);
    scene.window();
    let register = GroupRequest::Register(vec![target("10.0.0.3")]);
    scene.answer(&register, Err(CloudError::no_answer("RegisterTargets", "none")));
    scene
}

#[test]
fn an_unanswered_registration_may_take_effect_for_a_minute() {
    let mut scene = unanswered_registration();
    scene.want("one", Desired::Deregistered);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("10.0.0.3")]), Ok(GroupAnswer::Done));
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND)));
    scene.later(SECOND * 20);
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.later(SECOND * 40);
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}

#[test]
fn the_address_of_a_gone_instance_may_be_registered_late() {
    let mut scene = unanswered_registration();
    scene.want("one", Desired::Forgotten);
    let deregister = GroupRequest::Deregister(vec![target("10.0.0.3")]);
    scene.window();
    scene.answer(&deregister, Ok(GroupAnswer::Done));
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Leaving);
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND * 300)));
    scene.later(SECOND * 20);
    // The registration has taken effect after the deregistration.
    scene.shows(&[("10.0.0.3", TargetState::Initial)]);
    scene.window();
    scene.answer(&deregister, Ok(GroupAnswer::Done));
    scene.later(SECOND * 60);
    scene.shows(&[("10.0.0.3", TargetState::Draining)]);
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Out);
}

#[test]
fn an_unreadable_group_holds_a_departure_five_minutes_at_most() {
    let drains = [("10.0.0.3", TargetState::Draining)];
    // Another client registers the instance while its desired state is registered, and within the first minute of a
    // process.
    for desired in [Desired::Registered, Desired::Deregistered] {
        let mut scene = Scene::with(Timing::default());
        scene.want("one", desired);
        scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
        scene.shows(&drains);
        scene.want("one", Desired::Deregistered);
        scene.later(SECOND);
        while let Some(call) = scene.targets.begin(scene.now) {
            let answer = match call.request {
                GroupRequest::Delay => Ok(GroupAnswer::Delay(SECOND)),
                _ => Err(refused("AccessDenied")),
            };
            scene.targets.ended(&call, answer, scene.now);
        }
        scene.later(SECOND * 301);
        assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Overdue, "{desired:?}");
    }
}

#[test]
fn an_address_hidden_from_other_credentials_is_deregistered() {
    let seen = [("10.0.0.3", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Ip(AddressFamily::Ipv4), "one", Desired::Forgotten, &seen);
    scene.targets.forget_answers();
    scene.answer(&GroupRequest::Health, Err(refused("TargetGroupNotFound")));
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Out, "of a group that is not there");
    scene.targets.forget_answers();
    scene.shows(&seen);
    scene.window();
    assert_eq!(scene.want("one", Desired::Forgotten), RegistrationState::Leaving);
    scene.answer(&GroupRequest::Deregister(vec![target("10.0.0.3")]), Ok(GroupAnswer::Done));
}

#[test]
fn an_unreadable_delay_does_not_stop_reads_of_health() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Deregistered, &seen);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("i-one")]), Ok(GroupAnswer::Done));
    scene.answer(&GroupRequest::Delay, Err(refused("AccessDenied")));
    for _ in 0..3 {
        scene.quiet_until(scene.now + SECOND * 10);
        scene.shows(&[("i-one", TargetState::Draining)]);
    }
    scene.quiet_until(scene.now + SECOND * 10);
    scene.shows(&[]);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}

#[test]
fn a_short_drain_limit_leaves_time_for_late_registrations() {
    let mut scene = Scene::new();
    let timing = Timing { drain_limit: SECOND * 5, ..Timing::default() };
    scene.targets = Targets::new(timing);
    scene.want("one", Desired::Deregistered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
    scene.shows(&[]);
    scene.now = SECOND * 79;
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.now = SECOND * 80;
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Overdue);
}

#[test]
fn a_deregistration_that_is_under_way_is_waited_for() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    scene.want("one", Desired::Deregistered);
    scene.window();
    let Some(call) = scene.next_call() else {
        panic!("nothing is deregistered");
    };
    assert!(matches!(call.request, GroupRequest::Deregister(_)), "{call:?}");
    scene.later(SECOND * 400);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    let unanswered = CloudError::no_answer("DeregisterTargets", "timed out");
    scene.targets.ended(&call, Err(unanswered), scene.now);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Overdue);
}

#[test]
fn the_wait_of_a_deletion_begins_with_the_deletion() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    scene.want("one", Desired::Departing);
    scene.later(SECOND * 400);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Leaving);
    scene.later(SECOND * 300);
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Overdue);
}

#[test]
fn all_but_the_last_healthy_target_depart_early() {
    let both = [("i-one", TargetState::Healthy), ("i-other", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &both);
    scene.want("other", Desired::Registered);
    scene.want("one", Desired::Departing);
    scene.want("other", Desired::Departing);
    scene.shows(&both);
    scene.window();
    let write = GroupRequest::Deregister(vec![target("i-one")]);
    scene.answer(&write, Ok(GroupAnswer::Done));
    assert_eq!(scene.want("one", Desired::Departing), RegistrationState::Leaving);
    assert!(scene.want("other", Desired::Departing).is_healthy());
    scene.answer(&GroupRequest::Delay, Ok(GroupAnswer::Delay(SECOND * 900)));

    // The drain limit applies to machines that wait, and this machine does not wait yet.
    scene.later(SECOND * 400);
    let left = [("i-one", TargetState::Draining), ("i-other", TargetState::Unhealthy)];
    scene.shows(&left);
    assert_eq!(scene.want("one", Desired::Departing), RegistrationState::Leaving);
    assert_eq!(scene.want("other", Desired::Departing), RegistrationState::Leaving);
}
