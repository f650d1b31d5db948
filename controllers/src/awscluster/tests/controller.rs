//! The objects with which a cluster shares workers, and the removal of a cluster from the memory.

use capa_api::meta::MANAGED_BY_ANNOTATION;
use capa_runtime::reconcile::Reconciler;

use super::super::ClusterReconciler;
use super::*;

fn reconciler(scene: &Scene) -> ClusterReconciler {
    ClusterReconciler {
        context: scene.context.clone(),
        managed: scene.managed.clone(),
        sync_period: Duration::from_secs(600),
    }
}

#[test]
fn clusters_of_one_identity_and_region_share_workers() {
    let reconciler = reconciler(&Scene::new());
    let groups = |spec: &str| reconciler.groups(&aws_cluster(spec));
    let default = ["identity AWSClusterControllerIdentity/default eu-west-1"];
    assert_eq!(groups("region: eu-west-1"), default);
    assert_eq!(groups("region: eu-west-1, sshKeyName: key"), default);
    assert_ne!(groups("region: us-east-1"), default);
    let role = "region: eu-west-1, identityRef: {kind: AWSClusterRoleIdentity, name: default}";
    assert_eq!(groups(role), ["identity AWSClusterRoleIdentity/default eu-west-1"]);
}

#[tokio::test]
async fn nothing_is_remembered_of_a_cluster_that_is_gone() {
    let scene = Scene::new();
    let incomplete = aws_cluster("region: eu-west-1, unmanaged: true, network: {subnets: [{id: subnet-0000000f}]}");
    let mut warned_of = aws_cluster("region: eu-west-1");
    let managed_by = (MANAGED_BY_ANNOTATION.to_owned(), "somebody".to_owned());
    warned_of.metadata.annotations = Some([managed_by].into());
    warned_of.status = Some(read("{ready: true}"));
    for cluster in [incomplete, warned_of] {
        let pass = scene.pass(&cluster).await;
        let remembered = || scene.context.lookups.entries() + scene.context.warnings.entries();
        assert!(remembered() > 0);
        reconciler(&scene).forget(&pass.cluster);
        assert_eq!(remembered(), 0);
    }
}
