//! The local world itself, without a manager of this provider.

use anyhow::{Context as _, ensure};
use capa_e2e::{Story, eventually, fixtures};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};

use super::machines::INLINE;
use super::scenario::{OURS, WITHIN, story};

const CLUSTER_API: &str = "cluster.x-k8s.io/v1beta2";

#[test]
fn a_finished_test_leaves_no_cluster_in_its_namespace() -> anyhow::Result<()> {
    story("left-machines", async |s| {
        s.cluster("dev").await?;
        s.machine("left", "dev", INLINE).await?;
        let machine = s.machine_ready("left").await?;
        assert!(machine.metadata.finalizers.is_some_and(|held| !held.is_empty()));
        let clusters = s.api(CLUSTER_API, "Cluster").await?;
        let machines = s.api(OURS, "AWSMachine").await?;
        s.environment.finish().await?;
        eventually(WITHIN, "the Cluster and its machine to be gone", async || {
            let (cluster, machine) = (clusters.get_opt("dev").await?, machines.get_opt("left").await?);
            ensure!(
                cluster.is_none() && machine.is_none(),
                "the Cluster is {cluster:?}, and the AWSMachine {machine:?}"
            );
            Ok(())
        })
        .await
    })
}

#[test]
fn tests_have_namespaces_and_accounts_of_their_own() -> anyhow::Result<()> {
    Story::new("neighbour").run(async |one| {
        let other = one.stranger("neighbour").await?;
        assert_ne!(one.namespace(), other.namespace());
        assert_ne!(one.aws().id(), other.aws().id());
        Ok(())
    })
}

#[test]
fn a_failed_test_leaves_logs_calls_and_objects_but_no_secrets() -> anyhow::Result<()> {
    Story::new("unfinished").run(async |environment| {
        environment
            .apply(&fixtures::bootstrap_secret("bootstrap", "a password"))
            .await?;
        environment.apply(&fixtures::cluster("left-behind", None)).await?;

        let folder = environment.keep_evidence()?;
        let mut files = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            files.insert(
                path.file_name().unwrap_or_default().to_owned(),
                std::fs::read_to_string(&path)?,
            );
        }
        std::fs::remove_dir_all(&folder)?;

        let file = |name: &str| {
            files
                .get(std::ffi::OsStr::new(name))
                .with_context(|| format!("no {name}"))
        };
        assert!(file("clusters.cluster.x-k8s.io.yaml")?.contains("left-behind"));
        assert!(file("secrets.core.yaml")?.contains("name: bootstrap"));
        let secrets = file("secrets.core.yaml")?;
        assert!(
            !secrets.contains("\ndata:") && !secrets.contains("stringData"),
            "{secrets}"
        );
        assert!(!file("cluster-api-core.log")?.is_empty());
        file("aws-calls.txt")?;
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn namespaces_come_and_go() -> anyhow::Result<()> {
        Story::new("namespaces").run(async |environment| {
            environment
                .apply(&fixtures::bootstrap_secret("data", "#cloud-config"))
                .await?;

            let namespaces: Api<Namespace> = Api::all(environment.client());
            let name = environment.namespace();
            namespaces.delete(name, &DeleteParams::default()).await?;
            eventually(WITHIN, "the namespace to be gone", async || {
                let phase = namespaces
                    .get_opt(name)
                    .await?
                    .map(|namespace| namespace.status.unwrap_or_default().phase);
                ensure!(phase.is_none(), "its phase is {phase:?}");
                Ok(())
            })
            .await
        })
    }

    #[test]
    fn core_accepts_and_reconciles_a_cluster_without_infrastructure() -> anyhow::Result<()> {
        Story::new("no-infrastructure").run(async |environment| {
            environment.apply(&fixtures::cluster("bare", None)).await?;

            let clusters = environment.api(CLUSTER_API, "Cluster").await?;
            eventually(WITHIN, "core to need no infrastructure", async || {
                let status = &clusters.get("bare").await?.data["status"];
                ensure!(
                    status["initialization"]["infrastructureProvisioned"] == true,
                    "its status is {status}"
                );
                Ok(())
            })
            .await?;

            environment.delete(CLUSTER_API, "Cluster", "bare", WITHIN).await?;
            assert!(
                environment.aws().journal().is_empty(),
                "{}",
                environment.aws().journal()
            );
            Ok(())
        })
    }

    #[test]
    fn the_webhooks_of_core_refuse_changes_and_fill_in_defaults() -> anyhow::Result<()> {
        Story::new("webhooks").run(async |environment| {
            environment.apply(&fixtures::cluster("defaults", None)).await?;
            environment
                .apply(&fixtures::machine_deployment("workers", "defaults", 0))
                .await?;
            let deployments = environment.api(CLUSTER_API, "MachineDeployment").await?;
            let label = deployments.get("workers").await?.data["spec"]["selector"]["matchLabels"]["deployment"].clone();
            assert_eq!(label, "workers");
            let defaulted = deployments.get("workers").await?.data["spec"]["rollout"].clone();
            assert_eq!(defaulted["strategy"]["type"], "RollingUpdate", "{defaulted}");

            let overlapping = fixtures::machine_deployment("workers", "another", 0);
            let refused = environment
                .apply(&overlapping)
                .await
                .expect_err("clusterName is immutable");
            assert!(format!("{refused:#}").contains("clusterName"), "{refused:#}");

            environment.delete(CLUSTER_API, "Cluster", "defaults", WITHIN).await
        })
    }

    #[test]
    fn the_world_fits_a_small_machine() -> anyhow::Result<()> {
        // A separate world: the memory peaks of the shared world depend on its other tests.
        Story::new("memory").in_its_own_world(&[]).run(async |environment| {
            environment.apply(&fixtures::cluster("bare", None)).await?;
            environment.delete(CLUSTER_API, "Cluster", "bare", WITHIN).await?;
            let memory = environment.world().memory()?;
            let mebibytes: Vec<(String, u64)> = memory
                .into_iter()
                .map(|(name, memory)| (name, memory.peak >> 20))
                .collect();
            let total: u64 = mebibytes.iter().map(|(_, size)| size).sum();
            assert!(total < 2048, "{total} MiB: {mebibytes:?}");
            Ok(())
        })
    }
}
