//! How often the status of a machine is written in its life.

use super::*;

/// The status writes of these passes.
fn status_writes(passes: &[Pass]) -> usize {
    let calls = passes.iter().flat_map(|pass| &pass.calls);
    calls.filter(|call| *call == "write_status").count()
}

#[tokio::test]
async fn a_workers_life_costs_few_status_writes() {
    let scene = Scene::new();
    let cluster = CLUSTER.replace("infrastructureProvisioned: true", "infrastructureProvisioned: false");
    scene.kubernetes.put_cluster(read(&cluster));
    let owners = scene.machine("m").and_then(|machine| machine.metadata.owner_references);
    scene.edit(|machine| machine.metadata.owner_references = None);
    let mut passes = vec![scene.pass().await];
    scene.edit(|machine| machine.metadata.owner_references = owners);
    passes.push(scene.pass().await);
    scene.kubernetes.put_cluster(read(CLUSTER));
    for _ in 0..2 {
        passes.push(scene.pass().await);
    }
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    for _ in 0..3 {
        passes.push(scene.pass().await);
    }
    scene.delete();
    for _ in 0..3 {
        passes.push(scene.pass().await);
    }
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    passes.push(scene.pass().await);
    assert!(passes.last().is_some_and(|pass| pass.machine.is_none()));
    let calls: Vec<_> = passes.iter().map(|pass| &pass.calls).collect();
    assert_eq!(status_writes(&passes), 6, "{calls:?}");
}
