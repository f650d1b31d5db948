use super::*;

#[tokio::test(start_paused = true)]
async fn hanging_passes_of_a_cluster_do_not_delay_another() {
    let server = FakeServer::default();
    for number in 0..50 {
        server.put_widget(&of_cluster(&format!("large-{number}"), "large"));
    }
    let hangs = |object: &Widget| {
        let is_large = object.name_any().starts_with("large");
        Duration::from_secs(if is_large { 100 } else { 0 })
    };
    let reconciler = Scripted::idle().taking_as(hangs);
    let world = start(server, &reconciler);
    eventually("passes of the large cluster", || !reconciler.seen.lock().unwrap().is_empty()).await;
    let began = Instant::now();
    world.server.put_widget(&of_cluster("small", "small"));
    eventually("a pass of the small one", || reconciler.passes("small") == 1).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Fifty passes of 100 s with half of ten workers, which are never idle.
    tokio::time::sleep(Duration::from_secs(50 / 5 * 100)).await;
    let passes = (0..50).map(|number| reconciler.passes(&format!("large-{number}")));
    assert_eq!(passes.collect::<Vec<_>>(), [1; 50]);
    assert!(reconciler.most.load(Ordering::SeqCst) <= 6, "and one of the small cluster");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn new_objects_do_not_hold_up_the_passes_that_continue_earlier_ones() {
    let server = FakeServer::default();
    server.put_widget(&of_cluster("asks", "large"));
    server.put_widget(&of_cluster("waits", "large"));
    let next = |object: &Widget, before| match (object.name_any().as_str(), before) {
        ("asks", 0) => Next::Requeue(Duration::from_secs(2)),
        _ => Next::AwaitChange,
    };
    let reconciler =
        Scripted::new(move |object, before| Ok(Outcome::done(object.clone()).with_next(next(object, before))))
            .taking(Duration::from_secs(1));
    let (answer, answers) = futures::channel::mpsc::unbounded();
    let triggers = |controller: Controller<Scripted>, _: &ObjectCache<Widget>| controller.reconcile_on(answers);
    let world = start_with(server, &reconciler, ControllerSettings::default(), triggers);
    let passes = || ["asks", "waits"].map(|name| reconciler.passes(name));
    eventually("the first passes", || passes() == [1, 1]).await;
    for number in 0..100 {
        world.server.put_widget(&of_cluster(&format!("new-{number}"), "large"));
    }
    let of_new = || (0..100).map(|number| reconciler.passes(&format!("new-{number}")));
    eventually("passes of new objects", || of_new().sum::<usize>() > 5).await;
    answer.unbounded_send(ObjectRef::new("waits").within("team")).unwrap();
    eventually("the continued passes", || passes() == [2, 2]).await;
    // Five workers make five passes a second.
    let before = of_new().sum::<usize>();
    assert!(before < 30, "{before} passes of new objects came before");
    eventually("a pass of each new object", || of_new().all(|passes| passes == 1)).await;
    world.end().await;
}
