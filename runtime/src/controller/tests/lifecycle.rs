use super::*;

#[tokio::test(start_paused = true)]
async fn stopping_lets_running_passes_finish_and_starts_no_other() {
    let reconciler = Scripted::new(|object, _| Ok(Outcome::done(object.clone()).with_status(phase("Done"))));
    let settings = ControllerSettings { concurrency: 1, ..ControllerSettings::default() };
    let slow = reconciler.clone().taking(Duration::from_secs(20));
    let world = start_with(server_with(&["a", "b"]), &slow, settings, |controller, _| controller);
    eventually("a first pass", || reconciler.seen.lock().unwrap().len() == 1).await;
    world.stop.cancel();
    world.task.await.unwrap().unwrap();
    assert_eq!(reconciler.seen.lock().unwrap().len(), 1);
    let done: BTreeMap<_, _> =
        ["a", "b"].map(|name| (name, world.server.object(&path(name)).unwrap()["status"].clone())).into();
    assert_eq!(done.values().filter(|status| status["phase"] == "Done").count(), 1, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_waits_for_every_gate() {
    let reconciler = Scripted::idle();
    let server = server_with(&["a"]);
    let (runtime, _) = runtime(&server);
    let gate = runtime.readiness.gate("identities");
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone(), Duration::from_secs(5));
    let cache = ObjectCache::start(&runtime, &mut tasks, Api::all(server.client()), watcher::Config::default());
    let controller = Controller::new(&runtime, &cache, reconciler.clone(), ControllerSettings::default());
    tasks.spawn("controller", controller.run(stop.clone()));
    let task = tokio::spawn(tasks.run());
    eventually("the cache", || !cache.store().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(reconciler.passes("a"), 0);
    gate.open();
    eventually("the pass", || reconciler.passes("a") == 1).await;
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_objects_end_ends_the_process() {
    let server = server_with(&["a"]);
    let (runtime, _) = runtime(&server);
    let (cache, filler) = ObjectCache::<Widget>::new(&runtime);
    let mut tasks = Tasks::new(CancellationToken::new(), Duration::from_secs(5));
    let controller = Controller::new(&runtime, &cache, Scripted::idle(), ControllerSettings::default());
    let controller = controller.reconcile_on(futures::stream::pending());
    tasks.spawn("controller", controller.run(tasks.stop()));
    drop(cache);
    let listed = [watcher::Event::Init, watcher::Event::InitDone].map(Ok);
    filler.run(futures::stream::iter(listed), CancellationToken::new()).await.unwrap_err();
    let error = tokio::time::timeout(Duration::from_mins(1), tasks.run()).await.unwrap().unwrap_err();
    let TaskError::Failed { name, source } = error else { panic!("{error}") };
    assert_eq!((name.as_str(), source.to_string()), ("controller", "controller widget ended".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn only_a_deleted_object_is_forgotten() {
    let reconciler = Scripted::idle();
    let settings = ControllerSettings::default();
    let world = start_with(server_with(&["a", "b"]), &reconciler, settings, |controller, _| controller);
    eventually("both passes", || reconciler.seen.lock().unwrap().len() == 2).await;
    assert!(reconciler.forgotten.lock().unwrap().is_empty());
    world.server.delete(&path("a"));
    eventually("the forgetting", || *reconciler.forgotten.lock().unwrap() == ["a"]).await;
}
