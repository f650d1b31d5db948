//! Tests of the control planes that may use a group.

use super::*;

fn untagged() -> GroupAnswer {
    GroupAnswer::Tags(GroupTags::default())
}

/// The tags of a group that the cluster `prod` owns.
fn of_prod() -> GroupAnswer {
    let tag = ("kubernetes.io/cluster/prod".to_owned(), "owned".to_owned());
    GroupAnswer::Tags([tag].into_iter().collect())
}

fn refusal() -> Refusal {
    Refusal::OwnedBy("kubernetes.io/cluster/prod: owned".into())
}

impl Scene {
    fn ask(&mut self, name: &str) -> TargetAccess {
        let answers = self.targets.ask(&machine(name), &[target_group()], self.now);
        answers.into_iter().next().unwrap()
    }

    /// As [`Scene::want`], for a recorded target.
    fn want_recorded(&mut self, name: &str, desired: Desired) -> RegistrationState {
        let request = TargetRequest { on_record: true, ..target_group() };
        let (machine, instance) = (machine(name), instance(name));
        let states = self.targets.want(&machine, &instance, &[request], desired, self.now);
        states.into_iter().next().unwrap()
    }
}

#[test]
fn tags_are_read_once_before_the_first_registration() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    scene.answer(&GroupRequest::Tags, Ok(untagged()));
    scene.want("other", Desired::Registered);
    scene.later(SECOND);
    assert_eq!(scene.targets.begin(scene.now), None, "others may join");
    scene.later(SECOND);
    let both = vec![target("i-one"), target("i-other")];
    scene.answer(&GroupRequest::Register(both), Ok(GroupAnswer::Done));
}

#[test]
fn the_tags_of_what_is_registered_are_not_read() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    for _ in 0..3 {
        assert_eq!(scene.targets.begin(scene.now), None);
        scene.later(SECOND * 600);
        let look = scene.targets.begin(scene.now).expect("a look");
        assert_eq!(look.request, GroupRequest::Health);
        let seen = vec![(target("i-one"), health(TargetState::Healthy))];
        scene.targets.ended(&look, Ok(GroupAnswer::Health(seen)), scene.now);
    }
}

#[test]
fn a_refused_control_plane_is_not_registered_until_tags_change() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    scene.answer(&GroupRequest::Tags, Ok(of_prod()));
    let refused = RegistrationState::Refused(refusal());
    assert_eq!(scene.want("one", Desired::Registered), refused);
    let mut reads = Vec::new();
    while scene.now < SECOND * 3000 {
        while let Some(call) = scene.targets.begin(scene.now) {
            let answer = match call.request {
                GroupRequest::Tags => {
                    reads.push(scene.now);
                    Ok(of_prod())
                }
                GroupRequest::Health => Ok(GroupAnswer::Health(Vec::new())),
                other => panic!("{other:?}"),
            };
            scene.targets.ended(&call, answer, scene.now);
        }
        scene.later(SECOND);
    }
    let last = reads.windows(2).next_back().expect("two reads");
    assert_eq!(last[1].checked_sub(last[0]), Some(SECOND * 300), "{reads:?}");
    scene.targets.take_woken();
    scene.later(SECOND * 300);
    scene.answer(&GroupRequest::Tags, Ok(untagged()));
    assert_eq!(scene.targets.take_woken(), BTreeSet::from([machine("one")]));
    assert_eq!(scene.want("one", Desired::Registered), RegistrationState::Registering);
}

#[test]
fn a_refusal_takes_nothing_out_that_is_registered() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    scene.want("new", Desired::Registered);
    scene.answer(&GroupRequest::Tags, Ok(of_prod()));
    assert_eq!(scene.want("new", Desired::Registered), RegistrationState::Refused(refusal()));
    assert!(scene.want("one", Desired::Registered).is_healthy());
    scene.want("one", Desired::Deregistered);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("i-one")]), Ok(GroupAnswer::Done));
}

#[test]
fn tags_that_cannot_be_read_hold_registrations_and_no_looks() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    let denied = CloudError::answered("DescribeTags", "AccessDenied", "no");
    let call = scene.targets.begin(scene.now).expect("a read of the tags");
    let report = scene.targets.ended(&call, Err(denied.clone()), scene.now);
    let group = call.group.clone();
    assert_eq!(report, Some(GroupReport::Failing(group, denied.clone())));
    assert_eq!(scene.want("one", Desired::Registered), RegistrationState::Failed(denied.clone()));
    scene.later(SECOND * 5);
    let call = scene.targets.begin(scene.now).expect("another read of the tags");
    assert_eq!(call.request, GroupRequest::Tags);
    assert_eq!(scene.targets.ended(&call, Err(denied), scene.now), None, "told once");
    scene.later(SECOND * 5);
    scene.shows(&[]);
}

#[test]
fn a_machine_is_told_before_its_launch_whether_it_may() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask("one"), TargetAccess::Unknown);
    assert_eq!(scene.ask("other"), TargetAccess::Unknown);
    scene.answer(&GroupRequest::Tags, Ok(untagged()));
    let both = BTreeSet::from([machine("one"), machine("other")]);
    assert_eq!(scene.targets.take_woken(), both);
    assert_eq!(scene.ask("one"), TargetAccess::Granted);
    assert_eq!(scene.targets.begin(scene.now), None);
    assert_eq!(scene.targets.next_due(), None, "nothing is called for what is not registered");
    scene.want("one", Desired::Registered);
    scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Instance)));
    scene.shows(&[]);
    assert_eq!(scene.targets.begin(scene.now), None, "the tags are known");
}

#[test]
fn a_refused_machine_is_told_when_tags_change() {
    let mut scene = Scene::new();
    scene.ask("one");
    scene.answer(&GroupRequest::Tags, Ok(of_prod()));
    scene.targets.take_woken();
    assert_eq!(scene.ask("one"), TargetAccess::Refused(refusal()));
    scene.later(SECOND * 5);
    scene.answer(&GroupRequest::Tags, Ok(of_prod()));
    assert_eq!(scene.targets.take_woken(), BTreeSet::new(), "no news");
    scene.later(SECOND * 10);
    scene.answer(&GroupRequest::Tags, Ok(untagged()));
    assert_eq!(scene.targets.take_woken(), BTreeSet::from([machine("one")]));
    assert_eq!(scene.ask("one"), TargetAccess::Granted);
}

#[test]
fn old_tags_grant_nothing_and_go_on_refusing() {
    for (answer, expected) in [(untagged(), TargetAccess::Unknown), (of_prod(), TargetAccess::Refused(refusal()))] {
        let mut scene = Scene::new();
        scene.ask("one");
        scene.answer(&GroupRequest::Tags, Ok(answer));
        scene.later(SECOND * 600);
        assert_eq!(scene.ask("other"), expected);
        assert_eq!(scene.targets.begin(scene.now).unwrap().request, GroupRequest::Tags);
    }
}

#[test]
fn another_user_of_a_group_counts_until_it_is_gone() {
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[]);
    let used = || {
        let mut request = target_group();
        request.user.used_by = Some("team-b/prod".into());
        request
    };
    let want = |scene: &mut Scene, request: TargetRequest| {
        let now = scene.now;
        let states = scene.targets.want(&machine("one"), &instance("one"), &[request], Desired::Registered, now);
        states.into_iter().next().unwrap()
    };
    want(&mut scene, used());
    scene.answer(&GroupRequest::Tags, Ok(untagged()));
    let refused = RegistrationState::Refused(Refusal::UsedBy("team-b/prod".into()));
    assert_eq!(want(&mut scene, used()), refused);
    assert_eq!(want(&mut scene, target_group()), RegistrationState::Registering);
    scene.window();
    scene.answer(&GroupRequest::Register(vec![target("i-one")]), Ok(GroupAnswer::Done));
}

#[test]
fn an_address_in_a_refused_group_is_taken_out_only_on_record() {
    // Networks may overlap: the address may belong to an instance of the other cluster.
    for desired in [Desired::Deregistered, Desired::Forgotten] {
        let seen = [("10.0.0.3", TargetState::Healthy)];
        let mut scene = Scene::looked_at(TargetType::Ip(AddressFamily::Ipv4), "one", desired, &seen);
        assert_eq!(scene.want("one", desired), RegistrationState::Unknown);
        scene.answer(&GroupRequest::Tags, Ok(of_prod()));
        assert_eq!(scene.want("one", desired), RegistrationState::Out);
        scene.later(SECOND);
        assert_eq!(scene.targets.begin(scene.now), None, "{desired:?}");

        let mut scene = Scene::new();
        scene.want_recorded("one", desired);
        scene.answer(&GroupRequest::Facts, Ok(facts(TargetType::Ip(AddressFamily::Ipv4))));
        scene.shows(&seen);
        scene.window();
        let deregister = GroupRequest::Deregister(vec![target("10.0.0.3")]);
        scene.answer(&deregister, Ok(GroupAnswer::Done));
    }
}

#[test]
fn unreadable_tags_hold_a_departure_five_minutes_at_most() {
    let seen = [("10.0.0.3", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Ip(AddressFamily::Ipv4), "one", Desired::Deregistered, &seen);
    let denied = CloudError::answered("DescribeTags", "AccessDenied", "no");
    scene.answer(&GroupRequest::Tags, Err(denied.clone()));
    let stands = |scene: &mut Scene| scene.want("one", Desired::Deregistered);
    assert_eq!(stands(&mut scene), RegistrationState::Unreadable(denied));
    scene.later(SECOND * 300);
    assert_eq!(stands(&mut scene), RegistrationState::Overdue);
}

#[test]
fn a_machine_that_asks_no_more_is_forgotten() {
    let mut scene = Scene::new();
    scene.ask("one");
    scene.targets.forget(&machine("one"));
    assert_eq!(scene.targets.next_due(), None);
    assert!(scene.targets.groups.is_empty());
}
