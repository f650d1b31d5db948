use super::*;

#[tokio::test(start_paused = true)]
async fn the_outcome_is_written_and_its_status_triggers_no_reconcile() {
    let reconciler = Scripted::new(|object, _| {
        let event = EventDraft::normal("SuccessfulLaunch", "launched i-1");
        Ok(Outcome::done(object.clone()).with_status(phase("Running")).with_events([event]))
    });
    let world = start(server_with(&["a"]), &reconciler);
    eventually("the event", || world.server.writes().len() == 2).await;
    assert_eq!(world.server.object(&path("a")).unwrap()["status"]["phase"], "Running");
    assert_eq!(world.server.writes()[1].body["reason"], "SuccessfulLaunch");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(reconciler.passes("a"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_changes_trigger_and_foreign_status_changes_do_not() {
    let reconciler = Scripted::idle();
    let world = start(server_with(&["a"]), &reconciler);
    eventually("the first pass", || reconciler.passes("a") == 1).await;
    world.server.edit(&path("a"), |object| object["status"] = json!({"phase": "Foreign"}));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(reconciler.passes("a"), 1);
    world.server.edit(&path("a"), touch);
    eventually("the pass after the annotation", || reconciler.passes("a") == 2).await;
    let seen = reconciler.seen.lock().unwrap().last().unwrap().1.status.clone();
    assert_eq!(seen, Some(phase("Foreign")), "the object has the newest status though its change was filtered");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_objects_are_reconciled_at_once_than_allowed() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let reconciler = Scripted::idle().taking(Duration::from_secs(1));
    let settings = ControllerSettings { concurrency: 3, ..ControllerSettings::default() };
    let server = FakeServer::default();
    for name in names {
        server.put_widget(&of_cluster(name, name));
    }
    let world = start_with(server, &reconciler, settings, |controller, _| controller);
    eventually("every object", || names.iter().all(|name| reconciler.passes(name) == 1)).await;
    assert_eq!(reconciler.most.load(Ordering::SeqCst), 3);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn triggers_wake_the_objects_they_name() {
    let reconciler = Scripted::idle();
    let (wake, woken) = futures::channel::mpsc::unbounded();
    let world = start_with(server_with(&["a", "b"]), &reconciler, ControllerSettings::default(), |controller, _| {
        controller.reconcile_on(woken)
    });
    eventually("first passes", || reconciler.passes("a") == 1 && reconciler.passes("b") == 1).await;
    wake.unbounded_send(ObjectRef::new("missing").within("team")).unwrap();
    wake.unbounded_send(ObjectRef::new("b").within("team")).unwrap();
    eventually("b", || reconciler.passes("b") == 2).await;
    drop(wake);
    world.server.edit(&path("a"), touch);
    eventually("a, after the trigger has ended", || reconciler.passes("a") == 2).await;
    assert_eq!(reconciler.passes("b"), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_kind_triggers_by_its_predicate_and_deletion() {
    let reconciler = Scripted::idle();
    let size = |object: &Widget| Some(u64::from(object.spec.size));
    let watched = |object: &Widget| (object.name_any() == "other").then(|| ObjectRef::new("a").within("team"));
    let world =
        start_with(server_with(&["a", "other"]), &reconciler, ControllerSettings::default(), |controller, cache| {
            controller.watches(cache, size, watched)
        });
    eventually("first passes", || reconciler.passes("a") == 1 && reconciler.passes("other") == 1).await;
    world.server.edit(&path("other"), touch);
    eventually("other itself", || reconciler.passes("other") == 2).await;
    assert_eq!(reconciler.passes("a"), 1, "its size is the same");
    world.server.edit(&path("other"), |object| object["spec"]["size"] = 7.into());
    eventually("its size", || reconciler.passes("a") == 2).await;
    world.server.delete(&path("other"));
    eventually("its deletion", || reconciler.passes("a") == 3).await;
    world.end().await;
}
