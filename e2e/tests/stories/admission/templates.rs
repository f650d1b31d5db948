//! Templates are immutable, except for Cluster API's dry run.

use anyhow::Context as _;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::super::scenario::OURS;
use super::{refusal, table};

const POLICY: &str = "capa-rs-template-immutable";

#[test]
fn machines_of_one_template_are_alike() -> anyhow::Result<()> {
    table("AWSMachineTemplate", "{template: {spec: {instanceType: t3.large}}}", async |table| {
        table
            .changed(
                r#"
nothing | {} | {spec: {template: {spec: {instanceType: t3.large}}}} |
a schema default, said aloud | {} | {spec: {template: {spec: {hostAffinity: default}}}} |
metadata of the template | {} | {metadata: {labels: {a: b}, annotations: {c: d}, finalizers: [example.org/kept]}} |
metadata of its machines, which Cluster API changes in place | {} | {spec: {template: {metadata: {labels: {a: b}}}}} |
a field | {} | {spec: {template: {spec: {instanceType: t3.small}}}}
    | this would change instanceType: create a template of another name, and let the MachineDeployment
an added field | {} | {spec: {template: {spec: {sshKeyName: ops}}}} | would change sshKeyName:
a field below | {spec: {template: {spec: {rootVolume: {size: 8}}}}}
    | {spec: {template: {spec: {rootVolume: {size: 9}}}}} | would change rootVolume:
a removed field | {spec: {template: {spec: {publicIP: true}}}} | {spec: {template: {spec: {publicIP: null}}}}
    | would change publicIP:
what may change on a machine | {} | {spec: {template: {spec: {additionalTags: {a: b}}}}} | would change additionalTags:
the annotation alone, for it is to be stored | {} | {metadata: {annotations: {topology.cluster.x-k8s.io/dry-run: ""}}} |
marked for a move | {} | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}} |
marked for a move first and changed then
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}}
    | {spec: {template: {spec: {publicIP: true}}}} | would change publicIP:
"#,
            )
            .await?;
        table.covers(POLICY, 1, 1).await
    })
}

#[test]
fn clusters_of_one_template_are_alike() -> anyhow::Result<()> {
    table("AWSClusterTemplate", "{template: {spec: {region: eu-west-1}}}", async |table| {
        table
            .changed(
                r"
metadata of its clusters | {} | {spec: {template: {metadata: {labels: {a: b}}}}} |
a field | {} | {spec: {template: {spec: {region: eu-west-2}}}}
    | would change region: create a template of another name, and let the ClusterClass refer to that one
",
            )
            .await?;
        table.covers(POLICY, 1, 1).await
    })
}

/// All policies are on: a refused dry run stops the whole topology, also one of a field that may not change on
/// machines.
#[test]
fn cluster_api_compares_templates_in_a_dry_run() -> anyhow::Result<()> {
    let smallest = "{template: {spec: {instanceType: t3.large, additionalTags: {stage: test}, \
                    additionalSecurityGroups: [{id: sg-1}]}}}";
    table("AWSMachineTemplate", smallest, async |table| {
        let api = table.api.clone();
        let stored = api.create(&PostParams::default(), &table.object(&json!({}), &json!({}))?).await?;
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
            assert!(refusal(for_good.expect_err("the change of the template must be refused"))?.contains(POLICY));
            assert_eq!(api.get(&name).await?.data, stored.data);
        }
        Ok(())
    })
}
