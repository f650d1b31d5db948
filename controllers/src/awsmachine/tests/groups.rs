//! Tests of the groups of passes that share the workers.

use capa_runtime::reconcile::Reconciler;

use super::*;
use crate::awsmachine::MachineReconciler;

const CLUSTER_GROUP: &str = "cluster team-a/dev";
const IDENTITY_GROUP: &str = "identity AWSClusterControllerIdentity/default eu-west-1";

fn reconciler(scene: &Scene) -> MachineReconciler {
    MachineReconciler { context: scene.context.clone(), sync_period: Duration::from_secs(600) }
}

fn aws_machine(more: &str, spec: &str) -> AWSMachine {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
          metadata: {{name: m, namespace: team-a, uid: uid-m{more}}}, spec: {{{SPEC}{spec}}}}}"
    ))
}

#[test]
fn machines_without_a_cluster_are_grouped_by_namespace() {
    let reconciler = reconciler(&Scene::new());
    assert_eq!(reconciler.groups(&aws_machine("", "")), ["namespace team-a"]);
    let labelled = aws_machine(", labels: {cluster.x-k8s.io/cluster-name: dev}", "");
    assert_eq!(reconciler.groups(&labelled), [CLUSTER_GROUP]);
    let named = ", region: eu-west-1, identityRef: {kind: AWSClusterRoleIdentity, name: slow}";
    let expected = ["namespace team-a", "identity AWSClusterRoleIdentity/slow eu-west-1"];
    assert_eq!(reconciler.groups(&aws_machine("", named)), expected);
}

#[tokio::test]
async fn a_machine_without_a_record_is_grouped_by_its_identity() {
    let scene = Scene::new();
    let reconciler = reconciler(&scene);
    scene.aws.fail_next("GetCallerIdentity", unanswered("GetCallerIdentity"));
    let machine = scene.pass().await.machine.unwrap();
    assert!(machine.status.as_ref().is_none_or(|status| status.network.is_none()));
    assert_eq!(reconciler.groups(&machine), [CLUSTER_GROUP, IDENTITY_GROUP]);
    reconciler.forget(&machine);
    assert_eq!(reconciler.groups(&machine), [CLUSTER_GROUP]);
    assert_eq!(scene.context.memory.entries(), 0);
}

#[tokio::test]
async fn a_launched_machine_is_grouped_by_its_account_too() {
    let scene = Scene::running().await;
    let reconciler = reconciler(&scene);
    let machine = scene.pass().await.machine.unwrap();
    let network = machine.status.as_ref().unwrap().network.as_ref().unwrap();
    let account = format!("account {} eu-west-1", network.account_id.as_ref().unwrap());
    assert_eq!(reconciler.groups(&machine), [CLUSTER_GROUP, &account, IDENTITY_GROUP]);
}
