use std::collections::BTreeMap;

use super::*;
use crate::InstanceState;

struct Rig {
    lookups: Lookups,
    now: Duration,
    replacements: u64,
}

fn rig() -> Rig {
    Rig { lookups: Lookups::new(Timing::default()), now: Duration::from_secs(100), replacements: 0 }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn machine(name: &str) -> MachineKey {
    MachineKey { namespace: "default".into(), name: name.into() }
}

fn wanted(name: &str) -> InstanceLookup {
    InstanceLookup { client_token: format!("uid-{name}-1"), machine_name: format!("default/{name}") }
}

/// An instance with the name of a machine.
fn instance(id: &str, machine: &str) -> Instance {
    Instance {
        id: id.into(),
        state: InstanceState::Running,
        state_reason: None,
        instance_type: "t3.large".into(),
        availability_zone: "eu-west-1a".into(),
        subnet_id: None,
        vpc_id: None,
        primary_interface: None,
        volume_ids: vec![],
        metadata_options: None,
        client_token: None,
        launch_time: None,
        addresses: vec![],
        tags: BTreeMap::from([(meta::MACHINE_NAME_TAG.to_owned(), format!("default/{machine}"))]),
    }
}

fn error(code: &str) -> CloudError {
    CloudError::answered("DescribeInstances", code, "no")
}

impl Rig {
    fn at(&self) -> At {
        At { now: self.now, replacements: self.replacements }
    }

    fn announce(&mut self, name: &str, turn_in: f64) {
        let at = self.at();
        self.lookups.announce(&machine(name), &wanted(name), seconds(turn_in), at);
    }

    fn look_up(&mut self, name: &str) -> LookupAnswer {
        let at = self.at();
        self.lookups.look_up(&machine(name), &wanted(name), at)
    }

    /// The ids of the instances that a machine gets.
    fn found(&mut self, name: &str) -> Option<Vec<String>> {
        match self.look_up(name) {
            LookupAnswer::Found(found) => Some(found.into_iter().map(|instance| instance.id).collect()),
            LookupAnswer::Pending(_) | LookupAnswer::Expired => None,
        }
    }

    fn after(&mut self, later: f64) -> Option<LookupBatch> {
        self.now += seconds(later);
        self.lookups.begin(self.now, Epoch::default)
    }

    fn end(&mut self, batch: LookupBatch, answer: &Result<Vec<Instance>, CloudError>) -> Vec<String> {
        self.lookups.ended(batch, answer, self.now);
        self.lookups.take_woken().into_iter().map(|machine| machine.name).collect()
    }
}

/// The machines whose instances a call looks for.
fn names(batch: &LookupBatch) -> Vec<&str> {
    let Query { filters } = &batch.query();
    assert_eq!(filters.len(), 1, "{filters:?}");
    assert_eq!(filters[0].0, "tag:MachineName");
    batch.names.iter().filter_map(|name| name.strip_prefix("default/")).collect()
}

#[test]
fn machines_that_ask_at_once_share_a_call() {
    let mut rig = rig();
    for name in ["a", "b", "c"] {
        assert_eq!(rig.look_up(name), LookupAnswer::Pending(None));
    }
    assert_eq!(rig.lookups.next_due(), Some(rig.now + seconds(0.2)));
    assert_eq!(rig.after(0.1), None, "gathering");
    let batch = rig.after(0.1).unwrap();
    assert_eq!(names(&batch), ["a", "b", "c"]);
    assert_eq!(rig.lookups.next_due(), None);
    let shown = vec![instance("i-1", "b"), instance("i-2", "b"), instance("i-3", "bb")];
    assert_eq!(rig.end(batch, &Ok(shown)), ["a", "b", "c"], "all are woken");
    assert_eq!(rig.found("a"), Some(vec![]));
    assert_eq!(rig.found("b"), Some(vec!["i-1".into(), "i-2".into()]));
    assert_eq!(rig.found("b"), None, "an answer counts once");
}

#[test]
fn an_answer_counts_only_for_those_who_asked_before_the_call() {
    let mut rig = rig();
    rig.look_up("a");
    let batch = rig.after(0.2).unwrap();
    rig.look_up("late");
    assert_eq!(rig.end(batch, &Ok(vec![])), ["a"]);
    assert_eq!(rig.found("late"), None);
    assert_eq!(rig.after(0.2), None, "more machines may follow");
    let batch = rig.after(0.8).unwrap();
    assert_eq!(names(&batch), ["late"]);
    // A launch in between ends all lookups of the machine.
    rig.lookups.forget(&machine("late"));
    rig.look_up("late");
    assert_eq!(rig.end(batch, &Ok(vec![])), [""; 0]);
    assert_eq!(rig.found("late"), None);
}

#[test]
fn another_object_call_or_key_asks_anew() {
    let mut rig = rig();
    rig.look_up("a");
    let batch = rig.after(0.2).unwrap();
    rig.end(batch, &Ok(vec![]));
    let other = InstanceLookup { client_token: "uid-of-another-1".into(), ..wanted("a") };
    let at = rig.at();
    assert_eq!(rig.lookups.look_up(&machine("a"), &other, at), LookupAnswer::Pending(None));
    let batch = rig.after(1.0).unwrap();
    rig.replacements += 1;
    rig.end(batch, &Ok(vec![]));
    let at = rig.at();
    assert_eq!(rig.lookups.look_up(&machine("a"), &other, at), LookupAnswer::Pending(None), "other credentials");
}

#[test]
fn those_whose_turn_comes_soon_share_the_call() {
    let mut rig = rig();
    rig.look_up("now");
    for (name, turn) in [("soon", 5.0), ("later", 19.0), ("last", 30.0), ("after", 40.0)] {
        rig.announce(name, turn);
    }
    let batch = rig.after(0.2).unwrap();
    assert_eq!(names(&batch), ["later", "now", "soon"]);
    assert_eq!(rig.end(batch, &Ok(vec![])), ["now"], "the others come at their turns");
    assert_eq!(rig.lookups.next_due(), Some(rig.now + seconds(27.8)), "two seconds before");
    rig.now += seconds(4.8);
    assert_eq!(rig.found("soon"), Some(vec![]));
    let batch = rig.after(23.0).unwrap();
    assert_eq!(names(&batch), ["after", "last"]);
    rig.end(batch, &Ok(vec![]));
    rig.now += seconds(2.5);
    assert_eq!(rig.found("last"), Some(vec![]));
    assert_eq!(rig.look_up("later"), LookupAnswer::Expired, "its turn came later than the answer allows");
    assert_eq!(rig.look_up("later"), LookupAnswer::Pending(None), "which is said once");
    rig.announce("after", 40.0);
    rig.now += seconds(31.0);
    assert_eq!(rig.look_up("after"), LookupAnswer::Expired, "so old an answer proves nothing");
}

#[test]
fn machines_that_come_one_after_the_other_share_calls() {
    let mut rig = rig();
    let mut calls = 0;
    for tenth in 0..50 {
        if tenth % 5 == 0 {
            rig.look_up(&format!("m-{tenth}"));
        }
        if let Some(batch) = rig.after(0.1) {
            rig.end(batch, &Ok(vec![]));
            calls += 1;
        }
    }
    assert!(calls <= 5, "{calls} calls for ten machines in five seconds");
    rig.now += seconds(3.1);
    rig.look_up("later");
    assert!(rig.after(0.2).is_some(), "after a pause as soon as at first");
}

#[test]
fn a_call_names_as_many_machines_as_a_filter_takes() {
    let mut rig = rig();
    for number in 0..450 {
        rig.look_up(&format!("m-{number}"));
    }
    rig.now += seconds(0.2);
    let calls = std::iter::from_fn(|| rig.lookups.begin(rig.now, Epoch::default));
    assert_eq!(calls.map(|batch| batch.names.len()).collect::<Vec<_>>(), [200, 200, 50]);
}

#[test]
fn a_failed_call_is_repeated_for_all_and_told_once() {
    for (code, pauses) in [
        ("RequestLimitExceeded", [1.25, 1.25, 1.25]),
        ("UnauthorizedOperation", [15.0, 45.0, 300.0]),
        ("InternalError", [5.0, 10.0, 20.0]),
    ] {
        let mut rig = rig();
        rig.look_up("a");
        let mut batch = rig.after(0.2).unwrap();
        for (failed, pause) in pauses.into_iter().enumerate() {
            let woken = rig.end(batch, &Err(error(code)));
            assert_eq!(woken.len(), usize::from(failed == 0), "{code}: only news wakes");
            assert_eq!(rig.look_up("b"), LookupAnswer::Pending(Some(error(code))), "{code}");
            assert_eq!(rig.lookups.next_due(), Some(rig.now + seconds(pause)), "{code}");
            assert_eq!(rig.after(pause - 0.1), None, "{code}");
            batch = rig.after(0.1).unwrap();
            assert_eq!(names(&batch), ["a", "b"], "{code}");
            assert_eq!(rig.look_up("c"), LookupAnswer::Pending(Some(error(code))), "{code}");
            assert_eq!(rig.after(60.0), None, "{code}: one call shows whether AWS answers");
            rig.lookups.forget(&machine("c"));
        }
        assert_eq!(rig.end(batch, &Ok(vec![])), ["a", "b"], "{code}");
        assert_eq!(rig.look_up("c"), LookupAnswer::Pending(None), "{code}");
    }
}

#[test]
fn calls_that_failed_together_count_once() {
    let mut rig = rig();
    for number in 0..450 {
        rig.look_up(&format!("m-{number}"));
    }
    rig.now += seconds(0.2);
    let batches: Vec<_> = std::iter::from_fn(|| rig.lookups.begin(rig.now, Epoch::default)).collect();
    rig.now += seconds(1.0);
    for batch in batches {
        rig.end(batch, &Err(error("UnauthorizedOperation")));
    }
    assert_eq!(rig.lookups.next_due(), Some(rig.now + seconds(15.0)));
    let again = rig.after(15.0).unwrap();
    rig.end(again, &Err(error("UnauthorizedOperation")));
    assert_eq!(rig.lookups.next_due(), Some(rig.now + seconds(45.0)));
}

#[test]
fn other_credentials_end_the_pause_after_a_failure() {
    let mut rig = rig();
    rig.look_up("a");
    let batch = rig.after(0.2).unwrap();
    rig.end(batch, &Err(error("UnauthorizedOperation")));
    rig.replacements += 1;
    assert_eq!(rig.look_up("a"), LookupAnswer::Pending(None));
    assert!(rig.after(1.0).is_some());
}

#[test]
fn nothing_is_kept_of_machines_that_do_not_come_back() {
    let mut rig = rig();
    rig.announce("a", 10.0);
    rig.look_up("b");
    let batch = rig.after(0.2).unwrap();
    rig.end(batch, &Ok(vec![]));
    assert_eq!(rig.lookups.entries(), 2);
    rig.lookups.forget(&machine("b"));
    assert_eq!(rig.after(601.0), None);
    assert_eq!(rig.lookups.entries(), 0);
}
