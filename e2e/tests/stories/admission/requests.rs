//! Policies and the kinds of requests. Every other story tests the manager's own requests.

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

#[test]
fn every_change_of_an_object_being_deleted_passes() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let stored = launched(table).await?;
        let name = stored.name_any();
        let patch = async |patch: Value| table.api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patch(json!({"metadata": {"finalizers": ["example.org/kept"]}})).await?;
        table.api.delete(&name, &DeleteParams::default()).await?;
        patch(json!({"spec": {"instanceID": null}, "metadata": {"labels": {"a": "b"}}})).await?;
        patch(json!({"metadata": {"finalizers": null}})).await?;
        eventually(WITHIN, "the machine to be gone", async || {
            ensure!(table.api.get_opt(&name).await?.is_none(), "the object still exists");
            Ok(())
        })
        .await
    })
}

/// A rule about a field that the API server does not find in a kind would pass or refuse every object.
#[test]
fn the_api_server_reports_no_type_warnings_of_policies() -> anyhow::Result<()> {
    table("AWSMachine", MACHINE, async |table| {
        let policies = table.environment.api(ADMISSION, "ValidatingAdmissionPolicy").await?;
        for name in [
            "capa-rs-cluster-transitions",
            "capa-rs-create-only",
            "capa-rs-identity-immutable",
            "capa-rs-machine-immutable",
            "capa-rs-template-immutable",
        ] {
            let status = eventually(WITHIN, &format!("{name} to be looked at"), async || {
                let policy = policies.get(name).await?;
                let status = policy.data["status"].clone();
                ensure!(status["observedGeneration"] == json!(policy.metadata.generation), "not yet");
                Ok(status)
            })
            .await?;
            let warnings = &status["typeChecking"]["expressionWarnings"];
            assert_eq!(warnings, &Value::Null, "{name}");
        }
        Ok(())
    })
}
