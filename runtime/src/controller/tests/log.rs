//! What the log tells of passes.

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

/// Three passes: the condition is bad, then the same with an event about an action, then the condition is good.
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
    lines
        .filter(|line| line["name"] == "a" && line["namespace"] == "team")
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_default_log_tells_each_change_and_action_once() {
    let log = Log::start(LogFormat::Json, "info");
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
    let log = Log::start(LogFormat::Json, "debug");
    let reconciler = Scripted::new(|object, before| match before {
        0 => Err(ReconcileError::new("Broken", "the subnet is gone")),
        1 => Ok(Outcome::done(object.clone())
            .with_status(network("False", "NotFound", "no subnet"))
            .with_next(Next::Requeue(Duration::from_secs(60)))),
        _ => Ok(Outcome::done(object.clone()).because("the object is paused")),
    });
    let world = start(server_with(&["a"]), &reconciler);
    eventually("three passes", || reconciler.passes("a") == 3).await;
    world.end().await;
    let lines = of_widget(&log);
    let passes: Vec<_> = lines.iter().filter(|line| line["message"] == "reconciled").collect();
    let why: Vec<_> = passes.iter().map(|line| line["why"].as_str().unwrap()).collect();
    let expected = [
        "the subnet is gone",
        "NetworkReady is False, NotFound: no subnet",
        "the object is paused",
    ];
    assert_eq!(why, expected);
    assert_eq!(passes[1]["next_seconds"], 60.0);
    assert_eq!(passes[2]["next_seconds"], Value::Null, "after the next change");
    assert!(passes.iter().all(|line| line["took_seconds"].is_number()), "{passes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_a_status_is_no_warning() {
    let log = Log::start(LogFormat::Json, "debug");
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
