//! Requirements from Cluster API's own provider tests for a whole cluster: lost metadata is restored, and objects stay
//! stable.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::eventually;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::whole::{CONTROL_PLANE, KubeadmCluster, NODES_WITHIN, whole_clusters};
use crate::stories::scenario::{CORE, OURS, Scenario, settled};

const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1beta2";

/// The kinds of a cluster's objects.
const KINDS: [(&str, &str); 10] = [
    (OURS, "AWSCluster"),
    (OURS, "AWSMachine"),
    (OURS, "AWSMachineTemplate"),
    (CORE, "Cluster"),
    (CORE, "Machine"),
    (CORE, "MachineSet"),
    (CORE, "MachineDeployment"),
    (CONTROL_PLANE, "KubeadmControlPlane"),
    (BOOTSTRAP, "KubeadmConfig"),
    (BOOTSTRAP, "KubeadmConfigTemplate"),
];

/// All objects of the namespace of some kinds, by kind and name.
async fn objects(s: &Scenario, kinds: &[(&str, &str)]) -> anyhow::Result<BTreeMap<String, DynamicObject>> {
    let mut objects = BTreeMap::new();
    for (api_version, kind) in kinds {
        let api = s.api(api_version, kind).await?;
        for object in api.list(&ListParams::default()).await?.items {
            objects.insert(format!("{kind}/{}", object.name_any()), object);
        }
    }
    Ok(objects)
}

/// One property of each object.
fn each(objects: &BTreeMap<String, DynamicObject>, what: impl Fn(&DynamicObject) -> Value) -> BTreeMap<String, Value> {
    let said = objects.iter().map(|(name, object)| (name.clone(), what(object)));
    said.collect()
}

/// The owner references, regardless of their order.
fn owners(object: &DynamicObject) -> Value {
    let mut owners: Vec<_> = object.owner_references().iter().map(|owner| json!(owner).to_string()).collect();
    owners.sort();
    json!(owners)
}

fn finalizers(object: &DynamicObject) -> Value {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.sort();
    json!(finalizers)
}

/// Removes one metadata field from this provider's objects, and waits until each has its former value again.
async fn comes_back(s: &Scenario, field: &str, what: fn(&DynamicObject) -> Value) -> anyhow::Result<()> {
    let ours = &KINDS[..3];
    let before = objects(s, ours).await?;
    for (name, object) in &before {
        let (kind, name) = name.split_once('/').unwrap_or_default();
        let api = s.api(OURS, kind).await?;
        if what(object).as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let removal = json!({"metadata": {field: null}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(removal)).await?;
    }
    let expected = each(&before, what);
    eventually(NODES_WITHIN, &format!("{field} to come back"), async || {
        let now = each(&objects(s, ours).await?, what);
        if now != expected {
            wake_owners_of_templates(s).await?;
        }
        ensure!(now == expected, "the values were {expected:#?} and are {now:#?}");
        Ok(())
    })
    .await
}

/// Cluster API does not watch templates: it reads one again after an event of an object that uses it, or once in its
/// sync period.
async fn wake_owners_of_templates(s: &Scenario) -> anyhow::Result<()> {
    for (api_version, kind) in [(CONTROL_PLANE, "KubeadmControlPlane"), (CORE, "MachineDeployment")] {
        let api = s.api(api_version, kind).await?;
        for object in api.list(&ListParams::default()).await? {
            let seen = object.resource_version();
            let touch = json!({"metadata": {"annotations": {"example.org/touched-at": seen}}});
            api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(touch)).await?;
        }
    }
    Ok(())
}

/// Tests that a label of the MachineDeployment's machines reaches them without a new machine.
async fn label_reaches_machines(s: &Scenario, cluster: &KubeadmCluster<'_>) -> anyhow::Result<()> {
    let label = json!({"metadata": {"labels": {"team": "blue"}}});
    cluster.change_workers(json!({"template": label})).await?;
    eventually(NODES_WITHIN, "the label to reach the worker", async || {
        let machines = objects(s, &KINDS[1..2]).await?;
        let labelled =
            machines.values().filter(|machine| machine.labels().get("team").is_some_and(|team| team == "blue"));
        ensure!(labelled.count() == 1, "no AWSMachine has it");
        Ok(())
    })
    .await?;
    cluster.ready(1, 1).await?;
    let launches = s.launches();
    ensure!(launches.len() == 2, "no other machine: {launches}");
    Ok(())
}

/// Fails if any object of the cluster is written within this time.
async fn stays(s: &Scenario, time: Duration) -> anyhow::Result<()> {
    let version = |object: &DynamicObject| json!(object.resource_version());
    // The conditions settle first after the last changes.
    let versions = async || Ok(each(&objects(s, &KINDS).await?, version));
    let last = settled("all objects", Duration::from_secs(5), NODES_WITHIN, versions).await?;
    let began = Instant::now();
    while began.elapsed() < time {
        let now = each(&objects(s, &KINDS).await?, version);
        ensure!(now == last, "objects were {last:#?} and are {now:#?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn a_restored_cluster_settles_without_further_writes() -> anyhow::Result<()> {
        whole_clusters("resilience", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            cluster.control_plane(1).await?;
            cluster.workers(1).await?;
            cluster.ready(1, 1).await?;
            comes_back(s, "ownerReferences", owners).await?;
            comes_back(s, "finalizers", finalizers).await?;
            label_reaches_machines(s, &cluster).await?;
            let mark = s.aws().mark();
            stays(s, Duration::from_secs(120)).await?;
            let written = s.aws().journal_since(mark).mutating();
            assert!(written.is_empty(), "{written}");
            cluster.delete().await
        })
    }
}
