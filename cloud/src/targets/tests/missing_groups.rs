//! Groups that do not exist, or no longer exist.

use super::*;

#[test]
fn a_missing_group_releases_instances_and_fails_new_ones() {
    let missing = refused("TargetGroupNotFound");
    let mut scene = Scene::new();
    scene.want("in", Desired::Registered);
    scene.want("out", Desired::Deregistered);
    scene.answer(&GroupRequest::Facts, Err(missing.clone()));
    assert_eq!(scene.want("in", Desired::Registered), RegistrationState::Failed(missing));
    assert_eq!(scene.want("out", Desired::Deregistered), RegistrationState::Out);
    scene.quiet_until(SECOND * 5);
    assert_eq!(scene.begin(), Some(GroupRequest::Facts));
}

#[test]
fn a_group_that_is_deleted_later_releases_its_instances() {
    let seen = [("i-one", TargetState::Healthy)];
    let mut scene = Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &seen);
    scene.want("one", Desired::Deregistered);
    scene.window();
    scene.answer(&GroupRequest::Deregister(vec![target("i-one")]), Err(refused("TargetGroupNotFound")));
    assert_eq!(scene.want("one", Desired::Deregistered), RegistrationState::Out);
}
