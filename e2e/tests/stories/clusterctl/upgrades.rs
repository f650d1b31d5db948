//! `clusterctl upgrade` from one version of this provider to the next, followed by `clusterctl delete`.

use anyhow::{Context, ensure};
use capa_e2e::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::installed::{Installed, NAME, installed};
use crate::stories::machines::{INLINE, counts};
use crate::stories::scenario::{OURS, WITHIN};

const NAMESPACE: &str = "capa-rs-system";
const DEPLOYMENT: &str = "capa-rs-controller-manager";
const MACHINES: &str = "awsmachines.infrastructure.cluster.x-k8s.io";
const NEXT_VERSION: &str = "v0.1.1";
/// A field that exists only in the next version.
const NEW_FIELD: &str = "sinceNextVersion";

impl Installed {
    async fn deployment(&self) -> anyhow::Result<Option<Deployment>> {
        let deployments = Api::<Deployment>::namespaced(self.scenario.environment.client(), NAMESPACE);
        Ok(deployments.get_opt(DEPLOYMENT).await?)
    }

    /// The image of the manager's Deployment; `None` where the provider is not installed.
    async fn image(&self) -> anyhow::Result<Option<String>> {
        let Some(deployment) = self.deployment().await? else {
            return Ok(None);
        };
        let pod = deployment.spec.and_then(|spec| spec.template.spec).context("no pod")?;
        Ok(pod.containers.into_iter().next().and_then(|container| container.image))
    }

    async fn definition(&self) -> anyhow::Result<CustomResourceDefinition> {
        Ok(Api::all(self.scenario.environment.client()).get(MACHINES).await?)
    }

    /// Restarts the manager, like a rollout of the Deployment: clusterctl has created the ServiceAccount anew, so that
    /// the token of the running manager is no longer valid.
    async fn roll_out(&self) -> anyhow::Result<()> {
        self.scenario.manager().terminate().await?;
        self.start_manager().await
    }

    /// Tests that the next version launches a machine with its new field, and that its policies are enforced.
    async fn works_on(&self) -> anyhow::Result<()> {
        let spec = format!("{INLINE}, {NEW_FIELD}: there");
        self.scenario.machine("two", NAME, &spec).await?;
        let machine = self.scenario.machine_ready("two").await?;
        assert_eq!(machine.data["spec"][NEW_FIELD], "there");
        let machines = self.scenario.api(OURS, "AWSMachine").await?;
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        let change = Patch::Merge(json!({"spec": {"instanceType": "t3.xlarge"}}));
        eventually(WITHIN, "the policies to hold again", async || {
            let changed = machines.patch("one", &dry_run, &change).await;
            let refusal = changed.err().context("a machine's type may be changed")?;
            ensure!(refusal.to_string().contains("capa-rs-machine-immutable"), "{refusal}");
            Ok(())
        })
        .await
    }

    /// Whether the API server knows the field of the next version.
    async fn takes_new_field(&self) -> anyhow::Result<bool> {
        let definition = serde_json::to_value(self.definition().await?)?;
        let field = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{NEW_FIELD}");
        Ok(definition.pointer(&field).is_some())
    }
}

mod long_stories {
    use super::*;

    #[test]
    fn an_upgrade_keeps_all_objects_and_a_deletion_the_kinds() -> anyhow::Result<()> {
        installed("upgrades", async |home| {
            home.scenario.cluster(NAME).await?;
            home.scenario.machine("one", NAME, INLINE).await?;
            let machine = home.scenario.machine_ready("one").await?;

            let next = home.cluster.repository().add(NEXT_VERSION)?;
            next.add_field("AWSMachine", NEW_FIELD)?;
            let plan = home.run(&["upgrade", "plan"]).await?;
            ensure!(plan.contains(NEXT_VERSION), "{plan}");
            assert!(!home.takes_new_field().await?);
            let mark = home.scenario.aws().mark();
            let to = format!("--infrastructure=aws-rs:{NEXT_VERSION}");
            home.run(&["upgrade", "apply", &to]).await?;
            assert!(home.takes_new_field().await?);
            assert_eq!(home.image().await?, Some(format!("localhost/capa-rs:{NEXT_VERSION}")));
            let stored = home.definition().await?.status.and_then(|status| status.stored_versions);
            assert_eq!(stored, Some(vec!["v1beta2".to_owned()]));
            let kept = home.scenario.machine_ready("one").await?;
            assert_eq!((kept.uid(), &kept.data["spec"]), (machine.uid(), &machine.data["spec"]));
            home.roll_out().await?;
            home.works_on().await?;

            home.run(&["delete", "--infrastructure=aws-rs"]).await?;
            assert_eq!(home.image().await?, None);
            let left = home.scenario.get(OURS, "AWSMachine", "one").await?;
            assert_eq!(left.uid(), machine.uid(), "the kinds and their objects stay");
            let writes = home.scenario.aws().journal_since(mark).mutating();
            let counted: Vec<_> = writes.counts().into_iter().collect();
            assert_eq!(counted, counts(&[("RunInstances", 1)]), "{writes}");
            assert_eq!(home.scenario.user.live_instances().await?.len(), 2);
            Ok(())
        })
    }
}
