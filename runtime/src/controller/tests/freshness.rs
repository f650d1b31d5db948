use super::*;

#[tokio::test(start_paused = true)]
async fn a_pass_waits_until_the_cache_shows_the_last_write() {
    let reconciler = Scripted::new(|object, before| {
        let next = if before == 0 { Next::Requeue(Duration::from_millis(1)) } else { Next::AwaitChange };
        Ok(Outcome::done(object.clone()).with_status(phase("Running")).with_next(next))
    });
    let server = server_with(&["a"]);
    server.hold_watches(true);
    let world = start(server, &reconciler);
    eventually("the first write", || world.server.writes().len() == 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(reconciler.passes("a"), 1, "the cache is behind");
    world.server.hold_watches(false);
    eventually("the second pass", || reconciler.passes("a") == 2).await;
    assert_eq!(reconciler.versions("a").last(), world.server.version_of(&path("a")).as_ref());
    assert_eq!((world.server.gets(&path("a")), world.server.writes().len()), (0, 1));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_stays_behind_is_bypassed_by_a_read() {
    let reconciler = Scripted::new(|object, before| {
        let next = if before == 0 { Next::Requeue(Duration::from_millis(1)) } else { Next::AwaitChange };
        Ok(Outcome::done(object.clone()).with_status(phase("Running")).with_next(next))
    });
    let server = server_with(&["a"]);
    server.hold_watches(true);
    let world = start(server, &reconciler);
    eventually("the second pass", || reconciler.passes("a") == 2).await;
    let times = reconciler.times("a");
    assert!((30..=31).contains(&(times[1] - times[0]).as_secs()), "{:?}", times[1] - times[0]);
    assert_eq!(reconciler.versions("a").last(), world.server.version_of(&path("a")).as_ref());
    assert_eq!(world.server.gets(&path("a")), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_repeated_promptly_on_the_newer_object() {
    let reconciler = Scripted::new(|object, _| Ok(Outcome::done(object.clone()).with_status(phase("Running"))));
    let server = server_with(&["a"]);
    let world = start(server, &reconciler.clone().taking(Duration::from_secs(1)));
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    world.server.edit(&path("a"), |object| object["status"] = json!({"phase": "Foreign"}));
    eventually("our status", || world.server.object(&path("a")).unwrap()["status"]["phase"] == "Running").await;
    let times = reconciler.times("a");
    assert_eq!(times.len(), 2);
    assert!(times[1] - times[0] < Duration::from_millis(1300), "{:?}", times[1] - times[0]);
    assert!(scrape(&world.registry).contains("reconcile_errors_total{controller=\"widget\"} 0"));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_not_reconciled_any_more() {
    let reconciler = Scripted::new(|_, _| Err(ReconcileError::new("Broken", "broken")));
    let world = start(server_with(&["a"]), &reconciler);
    eventually("failures", || reconciler.passes("a") == 3).await;
    world.server.delete(&path("a"));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(reconciler.passes("a"), 3);
    world.server.put_widget(&widget("a"));
    eventually("the new object", || reconciler.passes("a") == 5).await;
    let times = reconciler.times("a");
    assert!(times[4] - times[3] <= Duration::from_millis(1100), "the back-off of the old object is forgotten");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_during_its_pass_leaves_no_state() {
    let reconciler = Scripted::new(|_, _| Err(ReconcileError::new("Broken", "broken")));
    let slow = reconciler.clone().taking(Duration::from_secs(10));
    let world = start(server_with(&["a"]), &slow);
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    world.server.delete(&path("a"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.server.put_widget(&widget("a"));
    eventually("the new object", || reconciler.passes("a") == 3).await;
    let times = reconciler.times("a");
    let between = times[2] - times[1];
    assert!(between <= Duration::from_millis(11_100), "the old failure counts for the new object: {between:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_wait_for_the_cache_do_not_hold_up_others() {
    let reconciler = Scripted::new(|object, _| {
        let done = Outcome::done(object.clone());
        Ok(match object.name_any().as_str() {
            "asks" => done.with_next(Next::Requeue(Duration::from_millis(500))),
            _ => done.with_status(phase("Running")).with_next(Next::Requeue(Duration::from_millis(1))),
        })
    });
    let server = FakeServer::default();
    server.put_widget(&of_cluster("asks", "large"));
    let world = start(server, &reconciler.clone().taking(Duration::from_millis(100)));
    eventually("the first pass", || reconciler.passes("asks") == 1).await;
    for number in 0..400 {
        world.server.put_widget(&of_cluster(&format!("writes-{number}"), "large"));
    }
    // The watch shows the new objects, but no write to them: their passes take longer.
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.server.hold_watches(true);
    eventually("a write to each object", || world.server.writes().len() == 400).await;
    // Five workers take 8 s for the 400 objects, which wait for the cache then.
    let passes = reconciler.passes("asks");
    assert!((9..=17).contains(&passes), "{passes} passes in 8 s");
    world.end().await;
}
