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
    eventually("passes of the large cluster", || {
        !reconciler.seen.lock().unwrap().is_empty()
    })
    .await;
    let began = Instant::now();
    world.server.put_widget(&of_cluster("small", "small"));
    eventually("a pass of the small one", || reconciler.passes("small") == 1).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Fifty passes of 100 s with half of ten workers, which are never idle.
    tokio::time::sleep(Duration::from_secs(50 / 5 * 100)).await;
    let passes = (0..50).map(|number| reconciler.passes(&format!("large-{number}")));
    assert_eq!(passes.collect::<Vec<_>>(), [1; 50]);
    assert!(
        reconciler.most.load(Ordering::SeqCst) <= 6,
        "and one of the small cluster"
    );
    world.end().await;
}
