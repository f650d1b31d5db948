//! The objects with which a machine shares workers, and the removal of a machine from the memory.

use capa_runtime::reconcile::Reconciler;

use super::super::MachineReconciler;
use super::*;

impl Scene {
    fn reconciler(&self) -> MachineReconciler {
        MachineReconciler { context: self.context.clone(), sync_period: Duration::from_secs(600) }
    }

    fn groups(&self) -> Vec<String> {
        let machine = self.machine("m").expect("the machine is there");
        self.reconciler().groups(&machine)
    }
}

#[tokio::test]
async fn a_machine_shares_workers_with_its_cluster_and_account() {
    let scene = Scene::new();
    assert_eq!(scene.groups(), ["cluster team-a/dev"], "its account is not known yet");
    scene.pass().await;
    let (account, identity) =
        ("account 111122223333 eu-west-1", "identity AWSClusterControllerIdentity/default eu-west-1");
    assert_eq!(scene.groups(), ["cluster team-a/dev", account, identity]);
}

#[tokio::test]
async fn nothing_is_remembered_of_a_machine_that_is_gone() {
    let scene = Scene::new();
    let refused = scene.refused_with("VcpuLimitExceeded").await;
    let remembered = || scene.context.memory.entries();
    assert!(remembered() > 1, "its subnet and its refusal: {}", remembered());
    scene.reconciler().forget(refused.machine());
    assert_eq!(remembered(), 0);
    let forgotten = scene.aws.forgotten();
    assert_eq!(forgotten.last().map(|machine| machine.name.as_str()), Some("m"));
}
