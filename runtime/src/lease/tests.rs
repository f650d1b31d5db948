use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::logging::LogFormat;
use crate::testing::{FakeServer, Fault, LEASES, Log, eventually, scrape};

const LEASE_NAME: &str = "test-leader";

#[derive(Debug, Error)]
enum WorkError {
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error("work failed")]
    Work,
}

fn path() -> String {
    format!("{LEASES}/{LEASE_NAME}")
}

fn settings(identity: &str) -> LeaseSettings {
    LeaseSettings { identity: identity.into(), ..LeaseSettings::new("system", LEASE_NAME) }
}

fn candidate(server: &FakeServer, identity: &str) -> (LeaderElection, Registry) {
    let mut registry = Registry::default();
    let metrics = Metrics::register("widgets", &mut registry);
    (LeaderElection::new(server.client(), settings(identity), &metrics).unwrap(), registry)
}

fn record(server: &FakeServer) -> Value {
    server.object(&path()).unwrap_or_default()["spec"].clone()
}

fn held_by_other(server: &FakeServer, renew_time: &str) {
    let spec =
        json!({"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": renew_time, "leaseTransitions": 3});
    server.put_lease(LEASE_NAME, &spec);
}

/// A leader that runs in the background. The flag is set when its work has started; the token ends the work.
struct Leader {
    working: Arc<AtomicBool>,
    finish: CancellationToken,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), WorkError>>,
}

fn start(election: LeaderElection) -> Leader {
    let (working, finish, stop) =
        (Arc::new(AtomicBool::new(false)), CancellationToken::new(), CancellationToken::new());
    let (begun, finished, stopped) = (working.clone(), finish.clone(), stop.clone());
    let task = tokio::spawn(async move {
        let work = || async move {
            begun.store(true, Ordering::SeqCst);
            finished.cancelled().await;
            Ok(())
        };
        election.lead(&stopped, work).await
    });
    Leader { working, finish, stop, task }
}

impl Leader {
    fn works(&self) -> bool {
        self.working.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_renewed_and_released_after_the_work() {
    let server = FakeServer::default();
    let (election, registry) = candidate(&server, "me");
    let leader = start(election);
    eventually("leadership", || leader.works()).await;
    assert!(scrape(&registry).contains("leader_election_master_status{name=\"test-leader\"} 1"));
    let first = record(&server);
    assert_eq!((&first["holderIdentity"], &first["leaseDurationSeconds"]), (&json!("me"), &json!(15)));
    let renewals = server.writes().len();
    eventually("renewals", || server.writes().len() > renewals + 2).await;
    assert_eq!(record(&server)["acquireTime"], first["acquireTime"]);
    leader.stop.cancel();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(record(&server)["holderIdentity"], "me", "held until the work has ended");
    leader.finish.cancel();
    leader.task.await.unwrap().unwrap();
    assert_eq!(record(&server)["holderIdentity"], "");
    assert!(scrape(&registry).contains("leader_election_master_status{name=\"test-leader\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lease_is_taken_only_after_its_duration() {
    let server = FakeServer::default();
    // The written times are ahead of the local clock or behind it. Neither has an effect.
    for written in ["2001-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
        held_by_other(&server, written);
        let (election, _) = candidate(&server, "me");
        let began = Instant::now();
        let leader = start(election);
        eventually("leadership", || leader.works()).await;
        let waited = began.elapsed();
        assert!((15..=18).contains(&waited.as_secs()), "{waited:?}");
        assert_eq!(record(&server)["leaseTransitions"], 4);
        leader.finish.cancel();
        leader.task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_its_holder_renews_is_never_taken() {
    let server = FakeServer::default();
    let (election, _) = candidate(&server, "me");
    held_by_other(&server, "2025-01-01T00:00:00.000000Z");
    let leader = start(election);
    for minute in 1..20 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        held_by_other(&server, &format!("2025-01-01T00:{minute:02}:00.000000Z"));
    }
    assert!(!leader.works());
    leader.stop.cancel();
    leader.task.await.unwrap().unwrap();
    assert_eq!(record(&server)["holderIdentity"], "other");
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_is_lost_and_its_work_dropped() {
    let server = FakeServer::default();
    let (election, registry) = candidate(&server, "me");
    let leader = start(election);
    eventually("leadership", || leader.works()).await;
    held_by_other(&server, "2025-01-01T00:00:00.000000Z");
    let error = leader.task.await.unwrap().unwrap_err();
    assert!(matches!(&error, WorkError::Lease(LeaseError::Taken { holder, .. }) if holder == "other"), "{error}");
    assert_eq!(record(&server)["holderIdentity"], "other");
    assert!(scrape(&registry).contains("leader_election_master_status{name=\"test-leader\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn an_unrenewed_lease_is_lost_before_others_may_take_it() {
    for fault in [Fault::Refuse(500), Fault::Hang] {
        let server = FakeServer::default();
        let (election, _) = candidate(&server, "me");
        let leader = start(election);
        eventually("leadership", || leader.works()).await;
        let last_renewal = Instant::now();
        server.set_fault("PUT", Some(fault));
        let error = leader.task.await.unwrap().unwrap_err();
        assert!(matches!(error, WorkError::Lease(LeaseError::Expired { .. })), "{error}");
        assert!(last_renewal.elapsed() < Duration::from_secs(15), "{:?}", last_renewal.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_knows_until_when_it_leads_and_renewals_move_that() {
    let server = FakeServer::default();
    let (election, _) = candidate(&server, "me");
    let until = election.leads_until();
    assert_eq!(*until.borrow(), None, "it does not lead yet");
    let leader = start(election);
    eventually("leadership", || leader.works()).await;
    let first = until.borrow().unwrap();
    assert!(Instant::now() < first && first <= Instant::now() + Duration::from_secs(10));
    eventually("a renewal", || until.borrow().is_some_and(|until| first < until)).await;
    server.set_fault("PUT", Some(Fault::Hang));
    let last = until.borrow().unwrap();
    tokio::time::sleep_until(last - Duration::from_millis(1)).await;
    assert_eq!(*until.borrow(), Some(last), "what is not renewed is not moved");
    leader.task.await.unwrap().unwrap_err();
    assert_eq!(*until.borrow(), None, "it leads no more");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_and_a_foreign_edit_do_not_end_leadership() {
    let server = FakeServer::default();
    let (election, _) = candidate(&server, "me");
    let leader = start(election);
    eventually("leadership", || leader.works()).await;
    server.set_fault("PUT", Some(Fault::Refuse(500)));
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.set_fault("PUT", None);
    server.edit(&path(), |lease| lease["metadata"]["labels"] = json!({"edited": "yes"}));
    let renewals = server.writes().len();
    eventually("renewals", || server.writes().len() > renewals + 3).await;
    assert!(!leader.task.is_finished());
    leader.finish.cancel();
    leader.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_lease_are_logged_once_and_conflicts_never() {
    let log = Log::start(LogFormat::Json, 0);
    let server = FakeServer::default();
    server.set_fault("POST", Some(Fault::Refuse(403)));
    let (election, _) = candidate(&server, "me");
    let leader = start(election);
    tokio::time::sleep(Duration::from_mins(1)).await;
    server.set_fault("POST", None);
    eventually("leadership", || leader.works()).await;
    server.set_fault("PUT", Some(Fault::Refuse(500)));
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.set_fault("PUT", None);
    server.edit(&path(), |lease| lease["metadata"]["labels"] = json!({"edited": "yes"}));
    let renewals = server.writes().len();
    eventually("renewals", || server.writes().len() > renewals + 3).await;
    let lines = log.objects();
    let failures: Vec<_> = lines.iter().filter(|line| line["level"] == "WARN").collect();
    let messages: Vec<_> = failures.iter().map(|line| line["message"].as_str().unwrap()).collect();
    let failed = |verb: &str| format!("failed to {verb} the Lease system/{LEASE_NAME}, trying again");
    assert_eq!(messages, [failed("take"), failed("renew")], "{lines:?}");
    let hints: Vec<_> = failures.iter().map(|line| line["hint"].is_string()).collect();
    assert_eq!(hints, [true, false], "only a permission is missing");
    leader.finish.cancel();
    leader.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_one_leads_and_the_other_follows_it() {
    let server = FakeServer::default();
    let leaders = ["one", "two"].map(|identity| start(candidate(&server, identity).0));
    eventually("a leader", || leaders.iter().any(Leader::works)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let [one, two] = leaders;
    let (first, second) = if one.works() { (one, two) } else { (two, one) };
    assert!(!second.works());
    first.finish.cancel();
    first.task.await.unwrap().unwrap();
    let released = Instant::now();
    eventually("the second leader", || second.works()).await;
    assert!(released.elapsed() < Duration::from_secs(4), "a released lease need not expire: {:?}", released.elapsed());
    second.finish.cancel();
    second.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_failed_work_the_lease_is_left_to_expire() {
    let server = FakeServer::default();
    let (election, _) = candidate(&server, "me");
    let result = election.lead(&CancellationToken::new(), async || Err(WorkError::Work)).await;
    assert!(matches!(result, Err(WorkError::Work)));
    assert_eq!(record(&server)["holderIdentity"], "me");
}

#[tokio::test]
async fn durations_that_contradict_each_other_are_refused() {
    let metrics = Metrics::register("widgets", &mut Registry::default());
    let seconds = Duration::from_secs_f64;
    let refused = [(10.0, 10.0, 2.0), (15.0, 2.0, 2.0), (15.0, 10.0, 0.0), (0.0, 0.0, 0.0), (15.9, 15.5, 2.0)];
    for (duration, renew_deadline, retry_period) in refused {
        let settings = LeaseSettings {
            duration: seconds(duration),
            renew_deadline: seconds(renew_deadline),
            retry_period: seconds(retry_period),
            ..settings("me")
        };
        let client = FakeServer::default().client();
        assert!(matches!(LeaderElection::new(client, settings, &metrics), Err(LeaseError::Settings { .. })));
    }
}

#[test]
fn two_processes_of_one_pod_have_two_identities() {
    assert_ne!(LeaseSettings::new("a", "l").identity, LeaseSettings::new("a", "l").identity);
}

const SEEN: &str = "test.example.org/seen";

#[tokio::test(start_paused = true)]
async fn what_a_lease_remembers_outlives_renewals_and_its_holder() {
    let server = FakeServer::default();
    let memory = LeaseMemory::new(server.client(), "system", LEASE_NAME);
    assert!(!memory.recalls(SEEN).await.unwrap(), "there is no Lease");
    let leader = start(candidate(&server, "me").0);
    eventually("leadership", || leader.works()).await;
    assert!(!memory.recalls(SEEN).await.unwrap());
    memory.remember(SEEN).await.unwrap();
    let renewals = server.writes().len();
    eventually("renewals", || server.writes().len() > renewals + 3).await;
    assert!(memory.recalls(SEEN).await.unwrap());
    leader.finish.cancel();
    leader.task.await.unwrap().unwrap();
    let next = start(candidate(&server, "next").0);
    eventually("the next leader", || next.works()).await;
    let writes = server.writes().len();
    memory.remember(SEEN).await.unwrap();
    assert!(memory.recalls(SEEN).await.unwrap());
    assert_eq!(server.writes().len(), writes, "it is remembered already");
    next.finish.cancel();
    next.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_lease_that_is_not_there_remembers_nothing() {
    let server = FakeServer::default();
    let memory = LeaseMemory::new(server.client(), "system", LEASE_NAME);
    let error = memory.remember(SEEN).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_not_found()));
}
