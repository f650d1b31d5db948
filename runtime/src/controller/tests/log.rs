//! The log lines about passes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::*;

/// A status with one condition, `NetworkReady`.
fn network(status: &str, reason: &str, message: &str) -> WidgetStatus {
    WidgetStatus {
        conditions: vec![Condition {
            type_: "NetworkReady".into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }],
        ..WidgetStatus::default()
    }
}

/// Three passes: the condition is bad; the condition is still bad, with an event about an action; the condition is
/// good.
fn passes() -> Scripted {
    Scripted::new(|object, before| {
        let bad = || network("False", "NotFound", "subnet-1 does not exist");
        let outcome = Outcome::done(object.clone());
        let again = Next::Requeue(Duration::from_secs(1));
        Ok(match before {
            0 => outcome
                .with_status(bad())
                .with_events([EventDraft::of_condition("NotFound", "subnet-1 does not exist")])
                .with_next(again),
            1 => outcome
                .with_status(bad())
                .with_events([EventDraft::normal("SuccessfulCreate", "launched instance i-1")])
                .with_next(again),
            _ => outcome.with_status(network("True", "Ready", "")),
        })
    })
}

/// The lines that are about the widget.
fn of_widget(log: &Log) -> Vec<Value> {
    let lines = log.objects().into_iter();
    lines.filter(|line| line["name"] == "a" && line["namespace"] == "team").collect()
}

fn messages(lines: &[Value]) -> Vec<String> {
    let message = |line: &Value| line["message"].as_str().unwrap_or_default().to_owned();
    lines.iter().map(message).collect()
}

#[tokio::test(start_paused = true)]
async fn the_default_log_tells_each_change_and_action_once() {
    let log = Log::start(LogFormat::Json, 0);
    let reconciler = passes();
    let world = start(server_with(&["a"]), &reconciler);
    eventually("three passes", || reconciler.passes("a") == 3).await;
    world.end().await;
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let told: Vec<_> = of_widget(&log)
        .iter()
        .map(|line| [text(line, "level"), text(line, "message"), text(line, "event")].join(" "))
        .collect();
    let expected = [
        "WARN NetworkReady is False: subnet-1 does not exist ",
        "INFO launched instance i-1 SuccessfulCreate",
        "INFO NetworkReady has recovered ",
    ];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn each_pass_says_at_debug_why_it_ended_and_how_long_it_took() {
    let log = Log::start(LogFormat::Json, 4);
    let reconciler = Scripted::new(|object, before| match before {
        0 => Err(ReconcileError::new("Broken", "the subnet is gone")),
        1 => Ok(Outcome::done(object.clone())
            .with_status(network("False", "NotFound", "no subnet"))
            .with_next(Next::Requeue(Duration::from_secs(30)))),
        _ => Ok(Outcome::done(object.clone()).because("the object is paused")),
    });
    let world = start(server_with(&["a"]), &reconciler);
    eventually("three passes", || reconciler.passes("a") == 3).await;
    world.end().await;
    let lines = of_widget(&log);
    let passes: Vec<_> = lines.iter().filter(|line| line["message"] == "reconciled").collect();
    let why: Vec<_> = passes.iter().map(|line| line["why"].as_str().unwrap()).collect();
    let expected = ["the subnet is gone", "NetworkReady is False, NotFound: no subnet", "the object is paused"];
    assert_eq!(why, expected);
    assert_eq!(passes[1]["next_seconds"], 30.0);
    assert_eq!(passes[2]["next_seconds"], Value::Null, "after the next change");
    assert!(passes.iter().all(|line| line["took_seconds"].is_number()), "{passes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_a_status_is_no_warning() {
    let log = Log::start(LogFormat::Json, 4);
    let server = server_with(&["a"]);
    let other = server.clone();
    let reconciler = Scripted::new(move |object, before| {
        if before == 0 {
            other.edit(&path("a"), touch);
        }
        Ok(Outcome::done(object.clone()).with_status(network("False", "NotFound", "no")))
    });
    let world = start(server, &reconciler);
    eventually("a second pass", || reconciler.passes("a") == 2).await;
    world.end().await;
    let lines = of_widget(&log);
    let conflict = |line: &&Value| line["message"] == "reconciled" && line["result"] == "requeue";
    assert_eq!(lines.iter().filter(conflict).count(), 1, "{lines:?}");
    let warnings: Vec<_> = lines.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warnings.len(), 1, "only that of the condition: {warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn an_action_is_logged_once_around_a_conflict_of_its_status() {
    let log = Log::start(LogFormat::Json, 0);
    let server = server_with(&["a"]);
    let other = server.clone();
    let reconciler = Scripted::new(move |object, before| {
        if before == 0 {
            other.edit(&path("a"), touch);
        }
        let again = EventDraft::normal("Attached", "registered instance i-1");
        let stored = EventDraft::normal("Created", "launched instance i-1").recorded();
        let stored = (before == 0).then_some(stored);
        Ok(Outcome::done(object.clone()).with_status(phase("Running")).with_events(stored.into_iter().chain([again])))
    });
    let world = start(server, &reconciler);
    eventually("a second pass", || reconciler.passes("a") == 2).await;
    world.end().await;
    assert_eq!(messages(&of_widget(&log)), ["launched instance i-1", "registered instance i-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pass_logs_and_publishes_what_it_had_stored() {
    let log = Log::start(LogFormat::Json, 0);
    let reconciler = Scripted::new(|object, before| {
        let again = EventDraft::normal("Attached", "registered instance i-1");
        if before > 0 {
            return Ok(Outcome::done(object.clone()).with_events([again]));
        }
        let stored = EventDraft::normal("Created", "launched instance i-1").recorded();
        Err(ReconcileError::new("Broken", "no answer").with_events([stored, again]))
    });
    let world = start(server_with(&["a"]), &reconciler);
    eventually("both events", || world.server.writes().len() == 2).await;
    let published: Vec<_> = world.server.writes().iter().map(|write| write.body["reason"].clone()).collect();
    world.end().await;
    assert_eq!(published, ["Created", "Attached"]);
    let lines = messages(&of_widget(&log));
    let expected = ["launched instance i-1", "reconcile failed: no answer", "registered instance i-1"];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_its_permission_is_logged_once_with_a_hint() {
    let log = Log::start(LogFormat::Json, 0);
    let server = server_with(&["a"]);
    server.set_fault("GET", Some(Fault::Refuse(403)));
    let reconciler = Scripted::idle();
    let world = start(server, &reconciler);
    tokio::time::sleep(Duration::from_mins(5)).await;
    let failures = log.objects();
    assert_eq!(messages(&failures), ["failed to watch Widget, trying again"]);
    let text = |field: &str| failures[0][field].as_str().unwrap_or_default();
    assert!(text("error").contains("403 Forbidden"), "{failures:?}");
    assert!(text("hint").contains("RBAC manifests of the release"), "{failures:?}");
    world.server.set_fault("GET", None);
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    let ends = messages(&log.objects()).into_iter().filter(|line| line == "it is possible again to watch Widget");
    assert_eq!(ends.count(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_expired_is_no_line() {
    let log = Log::start(LogFormat::Json, 0);
    let reconciler = Scripted::idle();
    let world = start(server_with(&["a"]), &reconciler);
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    let before = log.objects().len();
    world.server.hold_watches(true);
    world.server.put_widget(&widget("b"));
    world.server.expire_watches();
    eventually("the object of the next list", || reconciler.passes("b") == 1).await;
    assert_eq!(messages(&log.objects()[before..]), [""; 0]);
    world.end().await;
}
