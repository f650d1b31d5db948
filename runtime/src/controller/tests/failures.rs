use super::*;

#[tokio::test(start_paused = true)]
async fn failures_back_off_per_object() {
    let reconciler = Scripted::new(|object, before| match object.name_any().as_str() {
        "failing" => Err(ReconcileError::new("Broken", "broken")),
        "waiting" if before < 3 => Ok(Outcome::done(object.clone()).with_next(Next::Retry)),
        _ => Ok(Outcome::done(object.clone())),
    });
    let world = start(server_with(&["failing", "waiting", "fine"]), &reconciler);
    eventually("failures", || reconciler.passes("failing") == 5).await;
    let times = reconciler.times("failing");
    let delays: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    for (delay, full) in delays.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        assert!((full * 0.75..full + 0.1).contains(delay), "{delays:?}");
    }
    assert_eq!((reconciler.passes("waiting"), reconciler.passes("fine")), (4, 1));
    let scraped = scrape(&world.registry);
    for line in ["reconcile_errors_total{controller=\"widget\"} 5", "result=\"requeue\"} 3", "result=\"success\"} 2"] {
        assert!(scraped.contains(line), "{line} is missing in\n{scraped}");
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_rate_limited_object_backs_off() {
    let reconciler = Scripted::new(|object, before| {
        let next = match before % 2 {
            0 => Next::Deferred(Duration::from_millis(100)),
            _ => Next::Retry,
        };
        Ok(Outcome::done(object.clone()).with_next(next))
    });
    let world = start(server_with(&["a"]), &reconciler);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let passes = reconciler.passes("a");
    assert!((12..=18).contains(&passes), "{passes} passes in a minute");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_write_on_every_failure_keeps_the_back_off() {
    let reconciler = Scripted::new(|object, before| {
        let status = phase(&format!("failure {before}"));
        Ok(Outcome::done(object.clone()).with_status(status).with_next(Next::Retry))
    });
    let world = start(server_with(&["a"]), &reconciler);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let passes = reconciler.passes("a");
    assert!((6..=9).contains(&passes), "{passes} passes in a minute");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_of_its_object_only() {
    let reconciler = Scripted::new(|object, before| {
        assert!(object.name_any() != "bomb" || before > 0, "boom");
        Ok(Outcome::done(object.clone()))
    });
    let world = start(server_with(&["bomb", "fine"]), &reconciler);
    eventually("both", || reconciler.passes("bomb") == 2 && reconciler.passes("fine") == 1).await;
    let scraped = scrape(&world.registry);
    assert!(scraped.contains("controller_runtime_reconcile_panics_total{controller=\"widget\"} 1"), "{scraped}");
    assert!(scraped.contains("controller_runtime_reconcile_errors_total{controller=\"widget\"} 1"), "{scraped}");
    world.server.edit(&path("fine"), touch);
    eventually("the controller goes on", || reconciler.passes("fine") == 2).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_with_the_object_it_belongs_to() {
    let log = Log::start(LogFormat::Json, 0);
    let mut object = widget("a");
    object.labels_mut().insert("cluster.x-k8s.io/cluster-name".into(), "prod".into());
    let server = FakeServer::default();
    server.put_widget(&object);
    let reconciler = Scripted::new(|_, _| Err(ReconcileError::new("Broken", "the subnet is gone")));
    let world = start(server, &reconciler);
    eventually("a second try", || reconciler.passes("a") == 2).await;
    world.end().await;
    let lines = log.objects();
    let is_failure = |line: &&Value| line["message"] == "reconcile failed: the subnet is gone";
    let line = lines.iter().find(is_failure).unwrap();
    let names = ["controller", "cluster", "namespace", "name", "reason"];
    let fields = names.map(|field| line[field].as_str().unwrap_or_default());
    assert_eq!(fields, ["widget", "prod", "team", "a", "Broken"], "{line}");
    assert_eq!(line["reconcile_id"].as_str().map(str::len), Some(16), "{line}");
    assert!(line["retry_in_seconds"].as_f64().is_some_and(|delay| delay > 0.5), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_takes_too_long_is_cancelled_and_repeated() {
    let reconciler = Scripted::idle().taking(Duration::from_hours(1));
    let world = start(server_with(&["a"]), &reconciler);
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    tokio::time::sleep(Duration::from_secs(125)).await;
    assert_eq!(reconciler.passes("a"), 2, "after 2 min and the first delay");
    assert!(scrape(&world.registry).contains("reconcile_errors_total{controller=\"widget\"} 1"));
    world.stop.cancel();
    assert!(matches!(world.task.await.unwrap(), Err(TaskError::Aborted { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_failed_status_write_is_a_failed_pass() {
    let reconciler = Scripted::new(|object, _| Ok(Outcome::done(object.clone()).with_status(phase("Running"))));
    let server = server_with(&["a"]);
    server.set_fault("PUT", Some(Fault::Refuse(500)));
    let world = start(server, &reconciler);
    eventually("a second try", || reconciler.passes("a") == 2).await;
    world.server.set_fault("PUT", None);
    eventually("the status", || world.server.object(&path("a")).unwrap()["status"]["phase"] == "Running").await;
    world.end().await;
}
