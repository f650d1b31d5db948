//! The metrics of the work queue.

use super::*;

/// The value of a series.
fn value(world: &World, series: &str) -> Option<f64> {
    let text = scrape(&world.registry);
    let labelled = format!("{series}{{controller=\"widget\",name=\"widget\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&labelled)?.parse().ok())
}

#[tokio::test(start_paused = true)]
async fn depth_and_duration_show_objects_that_wait_for_workers() {
    let names = ["a", "b", "c", "d"];
    let reconciler = Scripted::idle().taking(Duration::from_secs(10));
    let settings = ControllerSettings { concurrency: 1, ..ControllerSettings::default() };
    let world = start_with(server_with(&names), &reconciler, settings, |controller, _| controller);
    eventually("the first pass", || reconciler.running.load(Ordering::SeqCst) == 1).await;
    assert_eq!(value(&world, "workqueue_depth"), Some(3.0));
    eventually("every pass", || names.iter().all(|name| reconciler.passes(name) == 1)).await;
    assert_eq!(value(&world, "workqueue_depth"), Some(0.0));
    assert_eq!(value(&world, "workqueue_queue_duration_seconds_count"), Some(4.0));
    let waited = value(&world, "workqueue_queue_duration_seconds_sum").unwrap();
    assert!((60.0..61.0).contains(&waited), "0, 10, 20 and 30 s: {waited}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_pass_is_no_depth_and_a_repeated_one_a_retry() {
    let reconciler = Scripted::new(|object, before| match (object.name_any().as_str(), before) {
        ("later", _) => Ok(Outcome::done(object.clone()).with_next(Next::Requeue(Duration::from_hours(1)))),
        (_, 0) => Err(ReconcileError::new("Broken", "broken")),
        (_, 1) => Ok(Outcome::done(object.clone()).with_next(Next::Retry)),
        _ => Ok(Outcome::done(object.clone())),
    });
    let world = start(server_with(&["later", "failing"]), &reconciler);
    eventually("three passes", || reconciler.passes("failing") == 3).await;
    assert_eq!(value(&world, "workqueue_depth"), Some(0.0));
    assert_eq!(value(&world, "workqueue_retries_total"), Some(2.0));
    tokio::time::sleep(Duration::from_mins(61)).await;
    assert_eq!(reconciler.passes("later"), 2);
    let waited = value(&world, "workqueue_queue_duration_seconds_sum").unwrap();
    assert!(waited < 1.0, "a delay is no wait: {waited}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_there_does_not_stay_in_the_queue() {
    let reconciler = Scripted::idle();
    let (wake, woken) = futures::channel::mpsc::unbounded();
    let triggers = |controller: Controller<Scripted>, _: &ObjectCache<Widget>| controller.reconcile_on(woken);
    let world = start_with(server_with(&["a"]), &reconciler, ControllerSettings::default(), triggers);
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    wake.unbounded_send(ObjectRef::new("missing").within("team")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(value(&world, "workqueue_depth"), Some(0.0));
    world.end().await;
}
