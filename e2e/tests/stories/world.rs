//! The local world itself, without a manager of this provider.

use anyhow::{Context as _, ensure};
use capa_e2e::{Story, eventually, fixtures};

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
fn a_failed_test_leaves_logs_calls_and_objects_but_no_secrets() -> anyhow::Result<()> {
    Story::new("unfinished").run(async |environment| {
        environment.apply(&fixtures::bootstrap_secret("bootstrap", "a password")).await?;
        environment.apply(&fixtures::cluster("left-behind", None)).await?;

        let folder = environment.keep_evidence()?;
        let mut files = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            files.insert(path.file_name().unwrap_or_default().to_owned(), std::fs::read_to_string(&path)?);
        }
        std::fs::remove_dir_all(&folder)?;

        let file = |name: &str| files.get(std::ffi::OsStr::new(name)).with_context(|| format!("no {name}"));
        assert!(file("clusters.cluster.x-k8s.io.yaml")?.contains("left-behind"));
        assert!(file("secrets.core.yaml")?.contains("name: bootstrap"));
        let secrets = file("secrets.core.yaml")?;
        assert!(!secrets.contains("\ndata:") && !secrets.contains("stringData"), "{secrets}");
        assert!(!file("cluster-api-core.log")?.is_empty());
        file("aws-calls.txt")?;
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn the_world_fits_a_small_machine() -> anyhow::Result<()> {
        // A separate world: the memory peaks of the shared world depend on its other tests.
        Story::new("memory").in_its_own_world(&[]).run(async |environment| {
            environment.apply(&fixtures::cluster("bare", None)).await?;
            environment.delete(CLUSTER_API, "Cluster", "bare", WITHIN).await?;
            let memory = environment.world().memory()?;
            let mebibytes: Vec<(String, u64)> =
                memory.into_iter().map(|(name, memory)| (name, memory.peak >> 20)).collect();
            let total: u64 = mebibytes.iter().map(|(_, size)| size).sum();
            assert!(total < 2048, "{total} MiB: {mebibytes:?}");
            Ok(())
        })
    }
}
