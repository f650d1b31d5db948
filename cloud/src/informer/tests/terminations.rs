//! Tests of terminations: batches, split batches, and the errors that machines receive.

use super::*;
use crate::ClusterKey;
use crate::limits::{Flow, Limiter, Share};

const WINDOW: Duration = Duration::from_secs(1);

fn in_zone(id: &str, zone: &str) -> Instance {
    Instance { availability_zone: zone.into(), ..running(id) }
}

fn refused(code: &str) -> CloudError {
    CloudError::answered("TerminateInstances", code, "no")
}

impl Rig {
    fn terminate(&mut self, id: &str) -> Result<(), CloudError> {
        self.informer.terminate(&machine(id), "dev", id, self.now)
    }

    /// The batches that are due now.
    fn batches(&mut self) -> Vec<TerminationBatch> {
        std::iter::from_fn(|| self.informer.next_termination(self.now)).collect()
    }

    /// Waits for the batches and answers their calls by `aws` until no batch is left. Returns the ids of each call.
    fn flush(&mut self, aws: impl Fn(&[String]) -> Result<(), CloudError>) -> Vec<Vec<String>> {
        self.now += 3 * WINDOW;
        let mut calls = Vec::new();
        while let Some(batch) = self.informer.next_termination(self.now) {
            assert!(calls.len() < 1000, "calls without end");
            let ids = batch.ids().to_vec();
            let states = |()| ids.iter().map(|id| (id.clone(), InstanceState::ShuttingDown)).collect();
            let answer = aws(&ids).map(states);
            calls.push(ids);
            self.informer.termination_ended(batch, answer);
        }
        calls
    }

    fn states(&mut self, ids: &[&str]) -> Vec<Option<InstanceState>> {
        ids.iter().map(|id| state(&self.watch(id))).collect()
    }
}

const ACCEPT: fn(&[String]) -> Result<(), CloudError> = |_| Ok(());

#[test]
fn simultaneous_terminations_are_one_call() {
    let mut rig = Rig::listed(&[in_zone("i-1", "a"), in_zone("i-2", "b"), in_zone("i-3", "a")]);
    let began = rig.now;
    for id in ["i-1", "i-2", "i-3", "i-1"] {
        assert_eq!(rig.terminate(id), Ok(()));
    }
    assert_eq!(rig.batches(), [], "the batch is still open");
    assert_eq!(rig.informer.next_due(), Some(began + WINDOW));
    assert_eq!(rig.flush(ACCEPT), [["i-1", "i-2", "i-3"]]);
    assert_eq!(rig.states(&["i-1", "i-2", "i-3"]), [Some(InstanceState::ShuttingDown); 3]);
    assert_eq!(rig.woken(), ["i-1", "i-2", "i-3"]);
    assert_eq!(rig.flush(ACCEPT).len(), 0);
}

#[test]
fn terminations_that_follow_each_other_are_gathered_for_longer() {
    let instances: Vec<_> = (0..100).map(|index| running(&format!("i-{index:03}"))).collect();
    let mut rig = Rig::listed(&instances);
    let began = rig.now;
    let mut sizes = Vec::new();
    for (index, instance) in (0_u32..).zip(&instances) {
        rig.now = began + Duration::from_millis(140) * index;
        rig.terminate(&instance.id).unwrap();
        sizes.extend(rig.batches().iter().map(|batch| batch.ids().len()));
    }
    rig.now += 3 * WINDOW;
    sizes.extend(rig.batches().iter().map(|batch| batch.ids().len()));
    assert_eq!(sizes.iter().sum::<usize>(), 100);
    assert!(sizes.len() <= 6, "seven a second for fourteen seconds: {sizes:?}");
    // After a pause a batch is as short as at first.
    rig.now += 60 * WINDOW;
    rig.terminate("i-late").unwrap();
    assert_eq!(rig.batches(), []);
    rig.now += WINDOW;
    assert_eq!(rig.batches().len(), 1);
}

#[test]
fn a_refused_batch_is_split_by_zone_first() {
    let shown = [("i-1", "a"), ("i-2", "b"), ("i-bad", "a"), ("i-3", "b")];
    let mut rig = Rig::listed(&shown.map(|(id, zone)| in_zone(id, zone)));
    for (id, _) in shown {
        rig.terminate(id).unwrap();
    }
    let calls = rig
        .flush(|ids| if ids.iter().any(|id| id == "i-bad") { Err(refused("OperationNotPermitted")) } else { Ok(()) });
    let expected =
        [vec!["i-1", "i-2", "i-bad", "i-3"], vec!["i-1", "i-bad"], vec!["i-2", "i-3"], vec!["i-1"], vec!["i-bad"]];
    assert_eq!(calls, expected);
}

#[test]
fn a_batch_that_is_full_does_not_wait() {
    let instances: Vec<_> = (0..100).map(|index| running(&format!("i-{index:03}"))).collect();
    let mut rig = Rig::listed(&instances);
    for instance in &instances {
        rig.terminate(&instance.id).unwrap();
    }
    let sizes: Vec<usize> = rig.batches().iter().map(|batch| batch.ids().len()).collect();
    assert_eq!(sizes, [40, 40]);
    rig.now += 2 * WINDOW;
    assert_eq!(rig.flush(ACCEPT).iter().map(Vec::len).collect::<Vec<_>>(), [20]);
}

#[test]
fn a_submitted_instance_waits_for_the_answer_of_aws() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.terminate("i-1").unwrap();
    rig.now += WINDOW;
    let under_way = rig.batches().remove(0);
    assert_eq!(rig.terminate("i-1"), Ok(()));
    rig.now += WINDOW;
    assert_eq!(rig.batches(), []);
    rig.informer.termination_ended(under_way, Ok(vec![]));
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running), "the answer did not show it");
    rig.terminate("i-1").unwrap();
    assert_eq!(rig.flush(ACCEPT), [["i-1"]], "a living instance is submitted again");
}

#[test]
fn one_bad_instance_never_delays_the_others() {
    for code in ["InvalidInstanceID.NotFound", "OperationNotPermitted", "UnauthorizedOperation"] {
        let ids: Vec<String> = (0..16).map(|index| format!("i-{index:02}")).collect();
        let mut rig = Rig::listed(&ids.iter().map(|id| running(id)).collect::<Vec<_>>());
        for id in &ids {
            rig.terminate(id).unwrap();
        }
        let bad = |id: &String| id == "i-05" || id == "i-06";
        let calls = rig.flush(|ids| if ids.iter().any(bad) { Err(refused(code)) } else { Ok(()) });
        for id in &ids {
            let expected = if bad(id) { InstanceState::Running } else { InstanceState::ShuttingDown };
            assert_eq!(state(&rig.watch(id)), Some(expected), "{code}: {id}");
        }
        for id in ["i-05", "i-06"] {
            assert!(calls.contains(&vec![id.to_owned()]), "{code}: {id} alone is refused: {calls:?}");
        }
        assert!(calls.len() <= 13, "{code}: {calls:?}");
        assert_eq!(rig.woken().len(), 16, "{code}: every machine is woken");
        assert_eq!(rig.terminate("i-05"), Err(refused(code)));
    }
}

#[test]
fn an_instance_refused_alone_never_shares_a_call_again() {
    let ids = ["i-1", "i-2", "i-3", "i-bad"];
    let mut rig = Rig::listed(&ids.map(running));
    let refuse = |ids: &[String]| {
        let is_bad = ids.iter().any(|id| id == "i-bad");
        if is_bad { Err(refused("OperationNotPermitted")) } else { Ok(()) }
    };
    for id in ["i-1", "i-bad"] {
        rig.terminate(id).unwrap();
    }
    assert_eq!(rig.flush(refuse), [vec!["i-1", "i-bad"], vec!["i-1"], vec!["i-bad"]]);
    assert!(rig.terminate("i-bad").is_err(), "the machine receives the error");
    for id in ["i-2", "i-bad", "i-3"] {
        let _ = rig.terminate(id);
    }
    assert_eq!(rig.flush(refuse), [vec!["i-bad"], vec!["i-2", "i-3"]]);
}

#[test]
fn instances_of_different_clusters_share_no_call() {
    let mut rig = Rig::listed(&[running("i-1"), running("i-2"), running("i-3")]);
    let of_team = |namespace: &str| MachineKey { namespace: namespace.into(), name: "m".into() };
    let clusters = [("team-a", "dev", "i-1"), ("team-a", "prod", "i-2"), ("team-b", "dev", "i-3")];
    for (namespace, cluster, id) in clusters {
        rig.informer.terminate(&of_team(namespace), cluster, id, rig.now).unwrap();
    }
    rig.now += WINDOW;
    let flows: Vec<_> = rig.batches().iter().map(|batch| (batch.rate_request().flow, batch.ids().to_vec())).collect();
    let expected = clusters.map(|(namespace, name, id)| {
        let cluster = ClusterKey { namespace: namespace.into(), name: name.into() };
        (Flow::Cluster(cluster), vec![id.to_owned()])
    });
    assert_eq!(flows, expected);
}

/// Tenant `team-a` submits a thousand instances that AWS refuses, and again ten minutes later. The neighbour `team-b`
/// of the same identity submits an instance shortly after each time.
#[test]
fn refused_terminations_of_a_tenant_delay_no_neighbour() {
    let (mut rig, mut limiter) = (rig(), Limiter::new(Share::default(), Share::WHOLE));
    let of_team = |namespace: &str, name: &str| MachineKey { namespace: namespace.into(), name: name.into() };
    let bad: Vec<String> = (0..1_000).map(|number| format!("i-bad-{number}")).collect();
    let submitted = [10, 610].map(|second| (Duration::from_secs(second), format!("i-good-{second}")));
    let mut waiting: Vec<(Duration, TerminationBatch)> = Vec::new();
    let mut calls: Vec<(Duration, Vec<String>)> = Vec::new();
    for tenth in 0..12_000 {
        rig.now = Duration::from_millis(100) * tenth;
        if tenth % 6_000 == 0 {
            // The second submission follows the receipt of the error.
            for id in bad.iter().chain(&bad) {
                let _ = rig.informer.terminate(&of_team("team-a", id), "dev", id, rig.now);
            }
        }
        for (_, id) in submitted.iter().filter(|(at, _)| *at == rig.now) {
            rig.informer.terminate(&of_team("team-b", id), "dev", id, rig.now).unwrap();
        }
        let new = rig.batches();
        waiting.extend(new.into_iter().map(|batch| (rig.now, batch)));
        let (due, later) = std::mem::take(&mut waiting).into_iter().partition(|(at, _)| *at <= rig.now);
        waiting = later;
        for (_, batch) in Vec::from_iter::<Vec<_>>(due) {
            if let Err(wait) = limiter.acquire(&batch.rate_request(), rig.now) {
                waiting.push((rig.now + wait, batch));
                continue;
            }
            calls.push((rig.now, batch.ids().to_vec()));
            let is_bad = batch.ids().iter().any(|id| id.starts_with("i-bad"));
            let answer = if is_bad { Err(refused("OperationNotPermitted")) } else { Ok(vec![]) };
            rig.informer.termination_ended(batch, answer);
        }
    }
    for (at, id) in submitted {
        let called = calls.iter().find(|(_, ids)| *ids == [id.as_str()]).map(|(at, _)| *at);
        let delay = called.unwrap().saturating_sub(at);
        assert!(delay <= Duration::from_secs(5), "{id}: {delay:?}");
    }
    let again = calls.iter().filter(|(at, _)| *at >= Duration::from_secs(600));
    assert_eq!(again.count(), 1_001, "each alone, and once");
}

#[test]
fn a_failure_is_returned_until_a_termination_succeeds() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let protected = || Err(refused("OperationNotPermitted"));
    rig.terminate("i-1").unwrap();
    rig.flush(|_| protected());
    assert_eq!(rig.woken(), ["i-1"]);
    assert_eq!(rig.terminate("i-1"), protected());
    assert_eq!(rig.flush(ACCEPT).len(), 0, "the machine waits before it submits again");
    assert_eq!(rig.terminate("i-1"), protected());
    assert_eq!(rig.flush(|_| protected()), [["i-1"]]);
    assert_eq!(rig.woken(), [""; 0], "the error is the same as before");
    assert_eq!(rig.terminate("i-1"), protected());
    assert_eq!(rig.flush(|_| Err(unauthorized())), [["i-1"]]);
    assert_eq!(rig.woken(), ["i-1"], "that is");
    assert_eq!(rig.terminate("i-1"), Err(unauthorized()));
    assert_eq!(rig.terminate("i-1"), Err(unauthorized()));
    assert_eq!(rig.flush(ACCEPT), [["i-1"]]);
    assert_eq!(rig.states(&["i-1"]), [Some(InstanceState::ShuttingDown)]);
    assert_eq!(rig.terminate("i-1"), Ok(()), "the former failure is removed");
}

#[test]
fn every_machine_of_an_unanswered_batch_tries_again() {
    let mut rig = Rig::listed(&[running("i-1"), running("i-2")]);
    for error in [unreachable(), unauthorized()] {
        for id in ["i-1", "i-2"] {
            let _ = rig.terminate(id);
        }
        assert_eq!(rig.flush(|_| Err(error.clone())).len(), 1, "an error of the whole call splits no batch");
        assert_eq!(rig.woken(), ["i-1", "i-2"]);
        for id in ["i-1", "i-2"] {
            assert_eq!(rig.terminate(id), Err(error.clone()));
        }
    }
}

#[test]
fn a_throttled_batch_is_repeated_unchanged() {
    let mut rig = Rig::listed(&[running("i-1"), running("i-2")]);
    for id in ["i-1", "i-2"] {
        rig.terminate(id).unwrap();
    }
    rig.now += WINDOW;
    let batch = rig.batches().remove(0);
    rig.informer.termination_ended(batch.clone(), Err(refused("RequestLimitExceeded")));
    assert_eq!(rig.woken(), [""; 0]);
    assert_eq!(rig.informer.next_due(), Some(Duration::ZERO));
    assert_eq!(rig.batches(), [batch]);
}

#[test]
fn a_submitted_instance_is_terminated_without_watchers() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.terminate("i-1").unwrap();
    rig.informer.forget(&machine("i-1"));
    assert!(rig.informer.next_due().is_some());
    assert_eq!(rig.flush(|_| Err(refused("OperationNotPermitted"))), [["i-1"]]);
    assert_eq!(rig.informer.entries(), 0, "no machine watches the instance");
    rig.watch("i-1");
    rig.informer.forget(&machine("i-1"));
    assert_eq!(rig.terminate("i-1"), Ok(()), "a failure is forgotten with its machine");
}

#[test]
fn a_listing_that_began_before_a_termination_cannot_undo_it() {
    let mut rig = Rig::listed(&[instance("i-1", InstanceState::Stopped)]);
    rig.pass(60);
    let listing = rig.call();
    rig.terminate("i-1").unwrap();
    rig.flush(ACCEPT);
    rig.end(listing, &[instance("i-1", InstanceState::Stopped)]);
    assert_eq!(rig.states(&["i-1"]), [Some(InstanceState::ShuttingDown)]);
}
