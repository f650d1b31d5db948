//! Policies and the kinds of requests. Every other story tests the manager's own requests.

use anyhow::{Context as _, ensure};
use capa_e2e::eventually;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::stories::scenario::WITHIN;

use super::{ADMISSION, Table, refusal, table, yaml};

const MACHINE: &str = "{instanceType: t3.large}";

/// A stored machine with an instance.
async fn launched(table: &Table) -> anyhow::Result<DynamicObject> {
    let ids = json!({"spec": {"providerID": "aws:///eu-west-1a/i-1", "instanceID": "i-1"}});
    let machine = table.object(&json!({}), &ids)?;
    Ok(table.api.create(&PostParams::default(), &machine).await?)
}

#[test]
fn a_change_has_one_verdict_for_every_kind_of_request() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let stored = launched(table).await?;
        let name = stored.name_any();
        let apply = PatchParams::apply("a-user").force();
        for (change, refused) in [
            (json!({"spec": {"additionalTags": {"a": "b"}}}), false),
            (json!({"spec": {"instanceType": "t3.small"}}), true),
        ] {
            let replaced = table.api.get(&name).await?;
            let replaced = DynamicObject { data: super::merged(&replaced.data, &change), ..replaced };
            let applied = super::merged(&json!({"apiVersion": super::OURS, "kind": table.kind}), &change);
            let operation = json!([{"op": "add", "path": "/spec", "value": replaced.data["spec"]}]);
            let answers = [
                ("PUT", table.api.replace(&name, &PostParams::default(), &replaced).await),
                ("merge patch", table.api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await),
                (
                    "JSON patch",
                    table
                        .api
                        .patch(
                            &name,
                            &PatchParams::default(),
                            &Patch::<Value>::Json(serde_json::from_value(operation)?),
                        )
                        .await,
                ),
                ("apply", table.api.patch(&name, &apply, &Patch::Apply(&applied)).await),
            ];
            for (way, answer) in answers {
                match answer {
                    Ok(_) => assert!(!refused, "{way}: {change} passes"),
                    Err(error) => {
                        let message = refusal(error)?;
                        assert!(refused && message.contains("capa-rs-machine-immutable"), "{way}: {message}");
                    }
                }
            }
        }
        let spec = &table.api.get(&name).await?.data["spec"];
        assert_eq!((&spec["instanceType"], &spec["additionalTags"]), (&json!("t3.large"), &json!({"a": "b"})));
        Ok(())
    })
}

/// Each kind whose changes a policy judges, with its smallest spec and a change that is refused.
const REFUSED_CHANGES: [(&str, &str, &str); 4] = [
    (
        "AWSMachine",
        "{instanceType: t3.large, providerID: aws:///eu-west-1a/i-1, instanceID: i-1}",
        "{instanceType: t3.small, instanceID: null}",
    ),
    (
        "AWSMachineTemplate",
        "{template: {spec: {instanceType: t3.large}}}",
        "{template: {spec: {instanceType: t3.small}}}",
    ),
    ("AWSCluster", "{region: eu-west-1}", "{region: eu-west-2}"),
    ("AWSClusterStaticIdentity", "{secretRef: key}", "{secretRef: another}"),
];

#[test]
fn every_change_of_an_object_being_deleted_passes() -> anyhow::Result<()> {
    for (kind, smallest, change) in REFUSED_CHANGES {
        table(kind, smallest, async |table| {
            let finalizer = json!({"metadata": {"finalizers": ["example.org/kept"]}});
            let stored = table.api.create(&PostParams::default(), &table.object(&json!({}), &finalizer)?).await?;
            let name = stored.name_any();
            let patch =
                async |patch: Value| table.api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            let change = json!({"spec": yaml(change)?, "metadata": {"labels": {"a": "b"}}});
            refusal(patch(change.clone()).await.err().context("the change passes before the deletion")?)?;
            table.api.delete(&name, &DeleteParams::default()).await?;
            patch(change).await?;
            patch(json!({"metadata": {"finalizers": null}})).await?;
            eventually(WITHIN, "the object to be gone", async || {
                ensure!(table.api.get_opt(&name).await?.is_none(), "the object still exists");
                Ok(())
            })
            .await
        })
        .context(kind)?;
    }
    Ok(())
}

/// A rule about a field that the API server does not find in a kind would pass or refuse every object.
#[test]
fn the_api_server_reports_no_type_warnings_of_policies() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let policies = table.environment.api(ADMISSION, "ValidatingAdmissionPolicy").await?;
        let warnings = async |policy: &str| {
            let awaited = format!("{policy} to be looked at");
            let status = eventually(WITHIN, &awaited, async || {
                let policy = policies.get(policy).await?;
                let status = policy.data["status"].clone();
                ensure!(status["observedGeneration"] == json!(policy.metadata.generation), "not yet");
                Ok(status)
            });
            anyhow::Ok(status.await?["typeChecking"]["expressionWarnings"].clone())
        };
        let all = policies.list(&ListParams::default()).await?;
        let ours: Vec<String> =
            all.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("capa-rs-")).collect();
        assert_eq!(
            ours,
            [
                "capa-rs-cluster-transitions",
                "capa-rs-create-only",
                "capa-rs-identity-immutable",
                "capa-rs-machine-immutable",
                "capa-rs-template-immutable",
            ]
        );
        for name in ours {
            assert_eq!(warnings(&name).await?, Value::Null, "{name}");
        }

        let name = format!("{}-wrong", table.environment.namespace());
        let wrong = json!({
            "apiVersion": ADMISSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["infrastructure.cluster.x-k8s.io"],
                    "apiVersions": ["v1beta2"],
                    "operations": ["CREATE"],
                    "resources": ["awsmachines"],
                }]},
                "validations": [{"expression": "object.spec.noSuchField == 'a'"}],
            },
        });
        policies.create(&PostParams::default(), &serde_json::from_value(wrong)?).await?;
        let found = warnings(&name).await?;
        policies.delete(&name, &DeleteParams::default()).await?;
        ensure!(found.to_string().contains("noSuchField"), "an unknown field gives no warning: {found}");
        Ok(())
    })
}
