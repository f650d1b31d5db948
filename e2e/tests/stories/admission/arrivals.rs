//! Objects that today's policies would refuse, and that were stored before: they can be moved, restored, and let go.

use anyhow::{Context as _, ensure};
use capa_e2e::eventually;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Table, dry_run, refusal, table, yaml};
use crate::stories::scenario::WITHIN;

/// The mark that `clusterctl move` puts on what it deletes.
const MARK: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// A kind, a spec that `capa-rs-create-only` refuses, and a change that is refused always, in these words.
struct Refused {
    kind: &'static str,
    spec: &'static str,
    change: &'static str,
    words: &'static str,
}

/// For each kind with rules about its creation.
const REFUSED: [Refused; 4] = [
    Refused {
        kind: "AWSMachine",
        spec: "{instanceType: t3.large, sshKeyName: \" key\"}",
        change: "{sshKeyName: key}",
        words: "capa-rs-machine-immutable",
    },
    Refused {
        kind: "AWSMachineTemplate",
        spec: "{template: {spec: {instanceType: t3.large, instanceID: i-1}}}",
        change: "{template: {spec: {instanceID: null}}}",
        words: "capa-rs-template-immutable",
    },
    Refused {
        kind: "AWSCluster",
        spec: "{region: eu-west-1, sshKeyName: \" key\"}",
        change: "{region: eu-west-2}",
        words: "capa-rs-cluster-transitions",
    },
    Refused {
        kind: "AWSClusterRoleIdentity",
        spec: "{roleARN: \"arn:aws:iam::111122223333:role/a\"}",
        change: "{roleARN: null}",
        words: "spec.roleARN: Required value",
    },
];

#[test]
fn what_is_stored_can_be_moved_restored_and_let_go() -> anyhow::Result<()> {
    for refused in REFUSED {
        table(refused.kind, refused.spec, async |table| {
            is_refused_to_its_author(table).await?;
            arrives(table, &refused).await?;
            is_let_go(table, &refused).await
        })
        .with_context(|| format!("{} {}", refused.kind, refused.spec))?;
    }
    Ok(())
}

/// As `clusterctl move` creates objects in the target: the API server names the manager of fields after the client.
fn as_clusterctl() -> PostParams {
    PostParams { field_manager: Some("clusterctl".to_owned()), ..PostParams::default() }
}

/// Whoever makes the object anew is refused, also with what every user may write.
async fn is_refused_to_its_author(table: &Table) -> anyhow::Result<()> {
    let mark = json!({"metadata": {"annotations": {MARK: ""}}});
    let owned = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "dev", "uid": "u"},
    ]}});
    for merge in [json!({}), mark, owned] {
        let object = table.object(&json!({}), &merge)?;
        let answer = table.api.create(&dry_run(), &object).await;
        let told = refusal(answer.expect_err("it is refused"))?;
        ensure!(told.contains("capa-rs-create-only"), "{merge}: {told}");
    }
    Ok(())
}

/// Moved by clusterctl, brought back by Velero, or by whoever keeps finalizers.
async fn arrives(table: &Table, refused: &Refused) -> anyhow::Result<()> {
    let restored = json!({"metadata": {"labels": {"velero.io/backup-name": "b", "velero.io/restore-name": "r"}}});
    let finalizer = format!("{}.infrastructure.cluster.x-k8s.io", refused.kind.to_lowercase());
    let with_finalizer = json!({"metadata": {"finalizers": [finalizer]}});
    let moved = PostParams { dry_run: true, ..as_clusterctl() };
    for (way, parameters, merge) in [
        ("moved", moved, json!({})),
        ("restored", dry_run(), restored),
        ("with its finalizer", dry_run(), with_finalizer),
    ] {
        let object = table.object(&json!({}), &merge)?;
        table.api.create(&parameters, &object).await.context(way)?;
    }
    Ok(())
}

/// The stored object has its metadata changed as by anybody and as by `clusterctl move`, which deletes it in the end.
/// On the way nothing else changes, not even in two steps.
async fn is_let_go(table: &Table, refused: &Refused) -> anyhow::Result<()> {
    let object = table.object(&json!({}), &json!({}))?;
    let stored = table.api.create(&as_clusterctl(), &object).await?;
    let name = stored.name_any();
    merge(table, &name, json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.org/kept"]}})).await?;
    is_unchangeable(table, &name, refused).await?;

    let annotations = json!([{"op": "add", "path": "/metadata/annotations", "value": {MARK: ""}}]);
    let annotations = Patch::<Value>::Json(serde_json::from_value(annotations)?);
    table.api.patch(&name, &PatchParams::default(), &annotations).await?;
    is_unchangeable(table, &name, refused).await?;
    merge(table, &name, json!({"metadata": {"finalizers": []}})).await?;
    table.api.delete(&name, &DeleteParams::default()).await?;
    eventually(WITHIN, "the object to be gone", async || {
        ensure!(table.api.get_opt(&name).await?.is_none(), "it is still there");
        Ok(())
    })
    .await
}

async fn merge(table: &Table, name: &str, patch: Value) -> anyhow::Result<DynamicObject> {
    let patched = table.api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.with_context(|| patch.to_string())
}

/// What the policies about changes and the schema refuse is refused.
async fn is_unchangeable(table: &Table, name: &str, refused: &Refused) -> anyhow::Result<()> {
    let change = json!({"spec": yaml(refused.change)?});
    let answer = table.api.patch(name, &PatchParams::default().dry_run(), &Patch::Merge(&change)).await;
    let told = refusal(answer.err().with_context(|| format!("{change} passes"))?)?;
    ensure!(told.contains(refused.words), "{change}: {told}");
    Ok(())
}
