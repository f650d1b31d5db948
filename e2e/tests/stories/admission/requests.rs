//! Policies and the ways a request can be made; the manager's own requests are made in every other story.

use anyhow::ensure;
use capa_e2e::eventually;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::stories::scenario::WITHIN;

use super::{ADMISSION, Table, refusal, table};

const MACHINE: &str = "{instanceType: t3.large}";

/// A stored machine with an instance.
async fn launched(table: &Table) -> anyhow::Result<DynamicObject> {
    let ids = json!({"spec": {"providerID": "aws:///eu-west-1a/i-1", "instanceID": "i-1"}});
    let machine = table.object(&json!({}), &ids)?;
    Ok(table.api.create(&PostParams::default(), &machine).await?)
}

#[test]
fn a_change_is_refused_or_passes_however_it_is_requested() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let stored = launched(table).await?;
        let name = stored.name_any();
        let apply = PatchParams::apply("a-user").force();
        for (change, refused) in [
            (json!({"spec": {"additionalTags": {"a": "b"}}}), false),
            (json!({"spec": {"instanceType": "t3.small"}}), true),
        ] {
            let replaced = table.api.get(&name).await?;
            let replaced = DynamicObject {
                data: super::merged(&replaced.data, &change),
                ..replaced
            };
            let applied = super::merged(&json!({"apiVersion": super::OURS, "kind": table.kind}), &change);
            let operation = json!([{"op": "add", "path": "/spec", "value": replaced.data["spec"]}]);
            let answers = [
                ("PUT", table.api.replace(&name, &PostParams::default(), &replaced).await),
                (
                    "merge patch",
                    table
                        .api
                        .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
                        .await,
                ),
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
                        let told = refusal(error)?;
                        assert!(refused && told.contains("capa-rs-machine-immutable"), "{way}: {told}");
                    }
                }
            }
        }
        let spec = &table.api.get(&name).await?.data["spec"];
        assert_eq!(
            (&spec["instanceType"], &spec["additionalTags"]),
            (&json!("t3.large"), &json!({"a": "b"}))
        );
        Ok(())
    })
}

#[test]
fn an_object_on_its_way_out_is_let_go() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let stored = launched(table).await?;
        let name = stored.name_any();
        let patch = async |patch: Value| {
            table
                .api
                .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
        };
        patch(json!({"metadata": {"finalizers": ["example.org/kept"]}})).await?;
        table.api.delete(&name, &DeleteParams::default()).await?;
        patch(json!({"spec": {"instanceID": null}, "metadata": {"labels": {"a": "b"}}})).await?;
        patch(json!({"metadata": {"finalizers": null}})).await?;
        eventually(WITHIN, "the machine to be gone", async || {
            ensure!(table.api.get_opt(&name).await?.is_none(), "it is still there");
            Ok(())
        })
        .await
    })
}

/// A field that the API server cannot find in a kind would let its rule pass everything or refuse everything.
#[test]
fn the_api_server_finds_nothing_odd_in_the_policies() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let policies = table.environment.api(ADMISSION, "ValidatingAdmissionPolicy").await?;
        for name in [
            "capa-rs-cluster-transitions",
            "capa-rs-create-only",
            "capa-rs-identity-immutable",
            "capa-rs-machine-immutable",
            "capa-rs-template-immutable",
            "capa-rs-unsupported-fields",
        ] {
            let status = eventually(WITHIN, &format!("{name} to be looked at"), async || {
                let policy = policies.get(name).await?;
                let status = policy.data["status"].clone();
                ensure!(
                    status["observedGeneration"] == json!(policy.metadata.generation),
                    "not yet"
                );
                Ok(status)
            })
            .await?;
            let warnings = &status["typeChecking"]["expressionWarnings"];
            assert_eq!(warnings, &Value::Null, "{name}");
        }
        Ok(())
    })
}
