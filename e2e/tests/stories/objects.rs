//! Bootstrap data in an S3 bucket of the user: recorded before it is stored, and deleted or reported.

use anyhow::ensure;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{eventually, fixtures};
use serde_json::json;

use super::machines::{at, machine, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

#[test]
fn an_object_is_recorded_then_stored_and_deleted_at_last() -> anyhow::Result<()> {
    story("objects-recorded", async |s| {
        let bucket = s.cluster_with_bucket("dev").await?;
        let denied = s.aws().fault(Fault::on("PutObject").error("AccessDenied"));
        s.ignition_machine("one", "dev").await?;
        let message = s.machine_condition_false("one", "BootstrapDataReady", "Unauthorized").await?;
        let recorded = s.get(OURS, "AWSMachine", "one").await?;
        let key = text(&recorded, "/status/bootstrapObject/key").to_owned();
        let uid = recorded.metadata.uid.unwrap_or_default();
        assert_eq!(key, format!("node/{uid}"));
        assert!(message.contains(&format!("{key} in the S3 bucket {bucket}")), "{message}");
        assert!(s.launches().is_empty(), "{}", s.launches());
        denied.lift();

        let ready = s.machine_ready("one").await?;
        assert!(at(&ready, "/status/bootstrapObject/presignedAt").is_string());
        assert_eq!(s.user.objects(&bucket).await?, [key]);
        s.delete(CORE, "Machine", "one").await?;
        s.gone(OURS, "AWSMachine", &["one"]).await?;
        assert_eq!(s.user.objects(&bucket).await?, [""; 0]);
        Ok(())
    })
}

impl Scenario {
    /// Makes a bucket of the story's own.
    async fn bucket(&self) -> anyhow::Result<String> {
        let bucket = format!("boot-{}", self.namespace());
        self.user.create_bucket(&bucket).await?;
        Ok(bucket)
    }

    /// A provisioned cluster with a bucket and presigned URLs.
    async fn cluster_with_bucket(&self, name: &str) -> anyhow::Result<String> {
        let bucket = self.bucket().await?;
        let of_cluster = format!("  s3Bucket: {{name: {bucket}, presignedURLDuration: 1h}}");
        self.owned(name, &self.unmanaged(name, &of_cluster)).await?;
        self.infrastructure_provisioned(name).await?;
        Ok(bucket)
    }

    /// A machine without `spec.ignition`, whose bootstrap data is for Ignition.
    async fn ignition_machine(&self, name: &str, cluster: &str) -> anyhow::Result<()> {
        let data = fixtures::bootstrap_secret(name, "{}");
        self.apply(&data.replace("format: cloud-config", "format: ignition")).await?;
        self.apply(&machine(name, cluster, "publicIP: false")).await
    }
}

mod long_stories {
    use super::*;

    #[test]
    fn an_object_that_may_not_be_deleted_holds_the_machine() -> anyhow::Result<()> {
        story("objects-denied", async |s| {
            let bucket = s.cluster_with_bucket("dev").await?;
            s.ignition_machine("one", "dev").await?;
            s.machine_ready("one").await?;
            let [key] = <[String; 1]>::try_from(s.user.objects(&bucket).await?).unwrap_or_default();
            s.aws().fault(Fault::on("DeleteObject").error("AccessDenied"));
            s.begin_deletion(CORE, "Machine", "one").await?;
            let waits = format!("the bootstrap data {key} in the S3 bucket {bucket} cannot be deleted");
            s.deletion_says("one", &waits).await?;
            let lets_go = json!({"spec": {"s3Bucket": {"bestEffortDeleteObjects": true}}});
            s.patch(OURS, "AWSCluster", "dev", lets_go).await?;
            s.gone(OURS, "AWSMachine", &["one"]).await?;
            s.event("AWSMachine", "one", "BootstrapDataAbandoned").await?;
            assert_eq!(s.user.objects(&bucket).await?, [key]);
            Ok(())
        })
    }

    #[test]
    fn a_machine_waits_for_the_bucket_of_its_cluster() -> anyhow::Result<()> {
        story("objects-awaited", async |s| {
            s.cluster("dev").await?;
            s.ignition_machine("one", "dev").await?;
            let message = s.machine_condition_false("one", "BootstrapDataReady", "StorageNotSupported").await?;
            assert!(message.contains("set spec.s3Bucket"), "{message}");
            let bucket = s.bucket().await?;
            let named = json!({"spec": {"s3Bucket": {"name": bucket, "presignedURLDuration": "8 days"}}});
            s.patch(OURS, "AWSCluster", "dev", named).await?;
            let message = s.machine_condition_false("one", "BootstrapDataReady", "InvalidSpec").await?;
            assert!(message.contains("presignedURLDuration"), "{message}");
            let mended = json!({"spec": {"s3Bucket": {"presignedURLDuration": "168h"}}});
            s.patch(OURS, "AWSCluster", "dev", mended).await?;
            s.machine_ready("one").await?;
            eventually(WITHIN, "one object", async || {
                let objects = s.user.objects(&bucket).await?;
                ensure!(objects.len() == 1, "{objects:?}");
                Ok(())
            })
            .await
        })
    }
}
