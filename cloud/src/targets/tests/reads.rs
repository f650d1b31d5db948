//! Target groups whose reads fail.

use super::*;

#[test]
fn the_last_read_stands_for_an_interval_longer_under_throttles() {
    for (code, is_stale) in [("AccessDenied", true), ("Throttling", false)] {
        let error = refused(code);
        let mut scene =
            Scene::looked_at(TargetType::Instance, "one", Desired::Registered, &[("i-one", TargetState::Healthy)]);
        let failing_since = SECOND * 600;
        scene.quiet_until(failing_since);
        let mut reports = vec![];
        while scene.now < failing_since + SECOND * 599 {
            assert!(scene.want("one", Desired::Registered).is_healthy(), "{:?}", scene.now);
            if let Some(call) = scene.targets.begin(scene.now) {
                reports.extend(scene.targets.ended(&call, Err(error.clone()), scene.now));
            }
            scene.later(SECOND);
        }
        scene.targets.take_woken();
        let call = loop {
            scene.later(SECOND);
            if let Some(call) = scene.targets.begin(scene.now) {
                break call;
            }
        };
        reports.extend(scene.targets.ended(&call, Err(error.clone()), scene.now));
        let group = call.group.clone();
        assert_eq!(reports, [GroupReport::Failing(group.clone(), error.clone())], "once");
        assert_eq!(scene.want("one", Desired::Registered) == RegistrationState::Stale(error), is_stale);
        assert_eq!(scene.targets.take_woken().is_empty(), !is_stale);
        let call = loop {
            scene.later(SECOND);
            if let Some(call) = scene.targets.begin(scene.now) {
                break call;
            }
        };
        let seen = vec![(target("i-one"), health(TargetState::Healthy))];
        let report = scene.targets.ended(&call, Ok(GroupAnswer::Health(seen)), scene.now);
        assert_eq!(report, Some(GroupReport::Recovered(group)));
        assert!(scene.want("one", Desired::Registered).is_healthy());
    }
}
