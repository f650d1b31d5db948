mod plan {
    use capa_cloud::CloudError;
    use capa_cloud::targets::{Health, Refusal, TargetState};

    use crate::awsmachine::targets::plan::MachineTargetState::{
        Deregistered, Deregistering, InService, Registered, Registering,
    };

    use super::super::*;

    fn view(stored: Option<MachineTargetState>, shown: RegistrationState) -> TargetView {
        TargetView { group: Group::Classic("api".into()), cluster: "team-a/dev".into(), stored, shown }
    }

    fn registered(state: TargetState, by_us: bool) -> RegistrationState {
        let health = Health { state, reason: None };
        RegistrationState::Registered { health, by_us }
    }

    fn failed() -> CloudError {
        CloudError::answered("RegisterTargets", "AccessDenied", "no")
    }

    fn stored(statuses: &[MachineTargetStatus]) -> Option<MachineTargetState> {
        statuses.first().map(|status| status.state)
    }

    #[test]
    fn the_state_of_a_wanted_instance_follows_the_target() {
        let unhealthy = || registered(TargetState::Unhealthy, false);
        let table = [
            (None, RegistrationState::Unknown, Some(Registering)),
            (Some(InService), RegistrationState::Unknown, Some(InService)),
            (Some(Registered), RegistrationState::Unreadable(failed()), Some(Registered)),
            (Some(InService), RegistrationState::Stale(failed()), Some(InService)),
            (None, RegistrationState::Registering, Some(Registering)),
            (Some(InService), RegistrationState::Registering, Some(Registering)),
            (Some(InService), RegistrationState::Failed(failed()), Some(Registering)),
            (Some(Registering), unhealthy(), Some(Registered)),
            (Some(InService), unhealthy(), Some(InService)),
            (Some(Registered), registered(TargetState::Healthy, false), Some(InService)),
            (Some(Registering), RegistrationState::Unsuitable("alb".into()), None),
            (Some(InService), RegistrationState::Refused(Refusal::Untagged), None),
        ];
        for (before, shown, expected) in table {
            let (statuses, _) = after_registering("i-1", &[view(before, shown.clone())]);
            assert_eq!(stored(&statuses), expected, "{shown:?} after {before:?}");
        }
    }

    #[test]
    fn the_state_of_a_leaving_instance_follows_the_target() {
        let table = [
            (Some(InService), RegistrationState::Leaving, Some(Deregistering)),
            (Some(InService), registered(TargetState::Healthy, false), Some(Deregistering)),
            (Some(InService), RegistrationState::Unknown, Some(InService)),
            (None, RegistrationState::Unknown, None),
            (Some(Deregistering), RegistrationState::Failed(failed()), Some(Deregistering)),
            (Some(Deregistering), RegistrationState::Overdue, Some(Deregistering)),
            (Some(Deregistering), RegistrationState::Out, Some(Deregistered)),
            (None, RegistrationState::Out, Some(Deregistered)),
            (Some(Registered), RegistrationState::Unsuitable("alb".into()), Some(Deregistered)),
        ];
        for (before, shown, expected) in table {
            let (statuses, _) = after_deregistering("i-1", &[view(before, shown.clone())]);
            assert_eq!(stored(&statuses), expected, "{shown:?} after {before:?}");
        }
    }

    #[test]
    fn each_write_that_took_effect_is_one_event() {
        let ours = || registered(TargetState::Initial, true);
        let table = [
            (Some(Registering), ours(), 1),
            (Some(Registering), registered(TargetState::Initial, false), 0),
            (Some(Registered), ours(), 0),
            (None, ours(), 0),
        ];
        for (before, shown, expected) in table {
            let (_, events) = after_registering("i-1", &[view(before, shown.clone())]);
            assert_eq!(events.len(), expected, "{shown:?} after {before:?}");
        }
        for (before, expected) in [(Some(Deregistering), 1), (Some(InService), 0), (None, 0), (Some(Deregistered), 0)] {
            let (_, events) = after_deregistering("i-1", &[view(before, RegistrationState::Out)]);
            assert_eq!(events.len(), expected, "{before:?}");
        }
    }

    #[test]
    fn the_state_of_another_instance_or_group_does_not_count() {
        let group = Group::Classic("api".into());
        let (statuses, _) = after_registering("i-1", &[view(None, RegistrationState::Registering)]);
        assert_eq!(stored_state(&statuses, "i-1", &group), Some(Registering));
        assert_eq!(stored_state(&statuses, "i-2", &group), None);
        assert_eq!(stored_state(&statuses, "i-1", &Group::Classic("other".into())), None);
    }

    #[test]
    fn two_ports_of_a_group_have_the_least_advanced_state() {
        let views = [view(None, registered(TargetState::Healthy, false)), view(None, RegistrationState::Registering)];
        let (statuses, _) = after_registering("i-1", &views);
        assert_eq!((statuses.len(), stored(&statuses)), (1, Some(Registering)));
    }

    #[test]
    fn a_stored_state_is_one_of_a_registration_or_of_a_departure() {
        let table = [
            (None, (false, false)),
            (Some(Registering), (true, false)),
            (Some(Registered), (true, false)),
            (Some(InService), (true, false)),
            (Some(Deregistering), (false, true)),
            (Some(Deregistered), (false, true)),
        ];
        for (before, expected) in table {
            let view = view(before, RegistrationState::Unknown);
            assert_eq!((view.was_registering(), view.was_leaving()), expected, "{before:?}");
        }
    }
}

mod conditions {
    use capa_api::machine::MachineTargetState;
    use capa_cloud::CloudError;
    use capa_cloud::targets::Refusal;

    use super::super::*;

    const ID: &str = "i-1";

    fn group(name: &str) -> Group {
        Group::Classic(name.to_owned())
    }

    fn shows(state: TargetState, reason: Option<&str>) -> RegistrationState {
        let reason = reason.map(str::to_owned);
        RegistrationState::Registered { health: Health { state, reason }, by_us: false }
    }

    fn view(name: &str, was_in_service: bool, shown: RegistrationState) -> TargetView {
        TargetView {
            group: group(name),
            cluster: "team-a/dev".to_owned(),
            stored: was_in_service.then_some(MachineTargetState::InService),
            shown,
        }
    }

    fn told(update: &ConditionUpdate) -> String {
        let status = match update.status {
            ConditionStatus::True => "True",
            _ => "False",
        };
        format!("{status}/{}: {}", update.reason.as_str(), update.message)
    }

    #[test]
    fn the_worst_target_decides_the_condition_of_an_instance() {
        let refused = CloudError::answered("RegisterTargets", "AccessDenied", "no");
        let failed = shows(TargetState::Unhealthy, Some("Target.FailedHealthChecks"));
        let unused = shows(TargetState::Unused, Some("Target.NotInUse"));
        let healthy = shows(TargetState::Healthy, None);
        let table = [
            (RegistrationState::Unknown, false, "False/Registering", "is being read"),
            (RegistrationState::Stale(refused.clone()), true, "False/Unauthorized", "is not known any more"),
            (RegistrationState::Unreadable(refused.clone()), false, "False/Unauthorized", "is being read: "),
            (RegistrationState::Registering, true, "False/Registering", "is being registered in"),
            (shows(TargetState::Initial, None), false, "False/Registering", "not checked yet"),
            (failed.clone(), false, "False/Registering", "not healthy: Target.FailedHealthChecks"),
            (failed, true, "False/Failed", "not healthy: Target.FailedHealthChecks"),
            (unused, false, "False/Registering", "gets no traffic: Target.NotInUse"),
            (RegistrationState::Unsuitable("lambda".into()), false, "False/InvalidSpec", "of type lambda"),
            (
                RegistrationState::Refused(Refusal::UsedBy("team-b/prod".into())),
                false,
                "False/Conflict",
                "is used or named by the control plane of Cluster team-b/prod",
            ),
            (RegistrationState::Failed(refused), false, "False/Unauthorized", "AccessDenied"),
            (healthy.clone(), false, "True/Ready", ""),
        ];
        for (shown, was_in_service, expected, message) in table {
            let views = [view("good", true, healthy.clone()), view("api", was_in_service, shown)];
            let update = told(&registration(ID, &views, &[]));
            assert!(update.starts_with(expected) && update.contains(message), "{update}");
        }
    }

    #[test]
    fn a_lasting_problem_gives_the_reason_and_all_are_named() {
        let views = [
            view("one", false, RegistrationState::Registering),
            view("two", false, RegistrationState::Unsuitable("alb".into())),
        ];
        let update = told(&registration(ID, &views, &["arn:x is wrong".to_owned()]));
        assert!(update.starts_with("False/InvalidSpec: arn:x is wrong; "), "{update}");
        assert!(update.contains("load balancer one; ") && update.contains("load balancer two"), "{update}");
    }

    #[test]
    fn a_departure_names_what_holds_it_up() {
        let refused = CloudError::answered("DeregisterTargets", "AccessDenied", "no");
        let table = [
            (RegistrationState::Leaving, false, "False/Deregistering", "is being deregistered from"),
            (RegistrationState::Unknown, false, "False/Deregistering", "is being read"),
            (RegistrationState::Failed(refused), false, "False/Unauthorized", "AccessDenied"),
            (RegistrationState::Overdue, true, "False/Failed", "in time"),
            (RegistrationState::Out, true, "False/Deregistering", "has left"),
        ];
        for (shown, over, expected, message) in table {
            let views = [view("good", true, RegistrationState::Out), view("api", true, shown)];
            let [_, leaving] = &views;
            assert_eq!(leaving.is_over(), over, "{leaving:?}");
            let update = told(&departure(ID, &views));
            assert!(update.starts_with(expected) && update.contains(message), "{update}");
        }
    }

    #[test]
    fn a_condition_stands_until_its_groups_are_read() {
        let healthy = shows(TargetState::Healthy, None);
        let unread = |stored: Option<MachineTargetState>| TargetView {
            group: group("api"),
            cluster: "team-a/dev".to_owned(),
            stored,
            shown: RegistrationState::Unknown,
        };
        let in_service = || unread(Some(MachineTargetState::InService));
        let kept = |views: &[TargetView], was_true| registration_or_kept(ID, views, &[], was_true).is_none();
        assert!(kept(&[in_service()], Some(true)));
        assert!(kept(&[in_service()], Some(false)));
        assert!(kept(&[in_service(), view("good", true, healthy.clone())], Some(true)));
        assert!(!kept(&[in_service(), view("bad", true, RegistrationState::Registering)], Some(true)));
        assert!(!kept(&[in_service()], None));
        assert!(!kept(&[unread(None)], Some(false)), "the former condition is about another state");
        assert!(!kept(&[view("good", true, healthy)], Some(true)), "all is read");
    }
}

mod refusals {
    use super::super::*;

    #[test]
    fn a_refusal_names_the_group_the_holder_and_the_tag_to_set() {
        let arn = "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/api/1";
        let group = Group::TargetGroup(arn.to_owned());
        for (refusal, holder) in [
            (Refusal::GivenTo("team-b/prod".into()), "team-b/prod"),
            (Refusal::Untagged, "--control-plane-targets=Tagged"),
            (Refusal::OwnedBy("kubernetes.io/cluster/prod: owned".into()), "kubernetes.io/cluster/prod: owned"),
            (Refusal::UsedBy("team-b/prod".into()), "Cluster team-b/prod"),
        ] {
            let told = refused(&group, "team-a/dev", &refusal);
            let tag = "infrastructure.cluster.x-k8s.io/control-plane: team-a/dev";
            for part in ["target group api/1 ", holder, tag] {
                assert!(told.contains(part), "{part} is not in {told}");
            }
        }
    }
}
