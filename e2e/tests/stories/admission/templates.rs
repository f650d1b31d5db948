//! Templates are immutable, except for Cluster API's dry run.

use anyhow::Context as _;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::super::scenario::OURS;
use super::{Table, refusal};

const POLICY: &str = "capa-rs-template-immutable";

#[tokio::test]
async fn machines_of_one_template_are_alike() -> anyhow::Result<()> {
    let mut table = Table::new("AWSMachineTemplate", "{template: {spec: {instanceType: t3.large}}}").await?;
    table
        .changed(&[
            (
                "nothing",
                "{}",
                "{spec: {template: {spec: {instanceType: t3.large}}}}",
                None,
            ),
            (
                "a schema default, said aloud",
                "{}",
                "{spec: {template: {spec: {hostAffinity: default}}}}",
                None,
            ),
            (
                "metadata of the template",
                "{}",
                "{metadata: {labels: {a: b}, annotations: {c: d}, finalizers: [example.org/kept]}}",
                None,
            ),
            (
                "metadata of its machines, which Cluster API changes in place",
                "{}",
                "{spec: {template: {metadata: {labels: {a: b}}}}}",
                None,
            ),
            (
                "a field",
                "{}",
                "{spec: {template: {spec: {instanceType: t3.small}}}}",
                Some(
                    "this would change instanceType: create a template of another name, and let the MachineDeployment",
                ),
            ),
            (
                "an added field",
                "{}",
                "{spec: {template: {spec: {sshKeyName: ops}}}}",
                Some("would change sshKeyName:"),
            ),
            (
                "a field below",
                "{spec: {template: {spec: {rootVolume: {size: 8}}}}}",
                "{spec: {template: {spec: {rootVolume: {size: 9}}}}}",
                Some("would change rootVolume:"),
            ),
            (
                "a removed field",
                "{spec: {template: {spec: {publicIP: true}}}}",
                "{spec: {template: {spec: {publicIP: null}}}}",
                Some("would change publicIP:"),
            ),
            (
                "what may change on a machine",
                "{}",
                "{spec: {template: {spec: {additionalTags: {a: b}}}}}",
                Some("would change additionalTags:"),
            ),
            (
                "the annotation alone, for it is to be stored",
                "{}",
                "{metadata: {annotations: {topology.cluster.x-k8s.io/dry-run: \"\"}}}",
                None,
            ),
            (
                "deleted for a move",
                "{}",
                "{metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: \"\"}}, \
                 spec: {template: {spec: {publicIP: true}}}}",
                None,
            ),
        ])
        .await?;
    table.covers(POLICY, 1, 1).await?;
    table.environment.finish().await
}

#[tokio::test]
async fn clusters_of_one_template_are_alike() -> anyhow::Result<()> {
    let mut table = Table::new("AWSClusterTemplate", "{template: {spec: {region: eu-west-1}}}").await?;
    table
        .changed(&[
            (
                "metadata of its clusters",
                "{}",
                "{spec: {template: {metadata: {labels: {a: b}}}}}",
                None,
            ),
            (
                "a field",
                "{}",
                "{spec: {template: {spec: {region: eu-west-2}}}}",
                Some("would change region: create a template of another name, and let the ClusterClass refer to that one"),
            ),
        ])
        .await?;
    table.covers(POLICY, 1, 1).await?;
    table.environment.finish().await
}

/// With all policies, for a refused dry run stops the whole topology: also of what may not be changed on machines.
#[tokio::test]
async fn cluster_api_compares_templates_in_a_dry_run() -> anyhow::Result<()> {
    let smallest = "{template: {spec: {instanceType: t3.large, additionalTags: {stage: test}, \
                    additionalSecurityGroups: [{id: sg-1}]}}}";
    let table = Table::of_users("AWSMachineTemplate", smallest).await?;
    let api = table.api.clone();
    let stored = api
        .create(&PostParams::default(), &table.object(&json!({}), &json!({}))?)
        .await?;
    let name = stored.name_any();
    for (field, value) in [
        ("instanceType", json!("t3.small")),
        ("additionalTags", json!({"stage": "production"})),
        ("additionalSecurityGroups", json!([{"id": "sg-2"}])),
    ] {
        let change = json!({
            "apiVersion": OURS,
            "kind": table.kind,
            "metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}},
            "spec": {"template": {"spec": {"instanceType": "t3.large", field: value}}},
        });
        let as_cluster_api = PatchParams::apply("capi-topology").force();
        let compared = api
            .patch(&name, &as_cluster_api.clone().dry_run(), &Patch::Apply(&change))
            .await
            .with_context(|| format!("compare {field}"))?;
        assert_eq!(compared.data["spec"]["template"]["spec"][field], value);
        let for_good = api.patch(&name, &as_cluster_api, &Patch::Apply(&change)).await;
        assert!(refusal(for_good.expect_err("it changes the template"))?.contains(POLICY));
        assert_eq!(api.get(&name).await?.data, stored.data);
    }
    table.environment.finish().await
}
