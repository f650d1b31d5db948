//! The add-on beside the provider, both installed by clusterctl.

mod long_stories {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Secret;
    use kube::Api;
    use kube::api::ListParams;

    use crate::stories::clusterctl::installed::in_management_cluster;

    const NAMESPACE: &str = "capa-rs-fleet-system";

    #[test]
    fn clusterctl_installs_and_deletes_the_add_on() -> anyhow::Result<()> {
        in_management_cluster("addon", async |cluster, environment| {
            let clusterctl = cluster.clusterctl();
            clusterctl.run(&["init", "--addon", "aws-rs-fleet"]).await?;
            let deployments: Api<Deployment> = Api::namespaced(environment.client(), NAMESPACE);
            let installed = deployments.list_metadata(&ListParams::default()).await?;
            assert_eq!(installed.items.len(), 1);
            let secrets: Api<Secret> = Api::namespaced(environment.client(), NAMESPACE);
            let secrets = secrets.list_metadata(&ListParams::default()).await?;
            assert!(secrets.items.is_empty(), "the add-on has no credentials");
            let plan = clusterctl.run(&["upgrade", "plan"]).await?;
            assert!(plan.contains("addon-aws-rs-fleet"), "{plan}");
            clusterctl.run(&["delete", "--addon", "aws-rs-fleet"]).await?;
            let left = deployments.list_metadata(&ListParams::default()).await?;
            assert!(left.items.is_empty(), "{left:?}");
            Ok(())
        })
    }
}
