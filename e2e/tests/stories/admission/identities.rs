//! Identities: whom they are for must make sense, and whose credentials they stand for does not change.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{RULES_AT_CREATION, Table, dry_run};

const IMMUTABLE: &str = "capa-rs-identity-immutable";
const CREATION: &str = "capa-rs-create-only";

#[tokio::test]
async fn a_role_is_always_assumed_by_somebody() -> anyhow::Result<()> {
    let mut table = Table::new(
        "AWSClusterRoleIdentity",
        "{roleARN: \"arn:aws:iam::111122223333:role/a\"}",
    )
    .await?;
    table
        .created(&[
            (
                "no source",
                "{}",
                Some("spec.sourceIdentityRef is required: name the identity"),
            ),
            (
                "a source",
                "{sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}}",
                None,
            ),
        ])
        .await?;
    let before = "{spec: {sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}}}";
    table
        .changed(&[
            (
                "another source",
                before,
                "{spec: {sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}}}",
                None,
            ),
            (
                "no source any more",
                before,
                "{spec: {sourceIdentityRef: null}}",
                Some("spec.sourceIdentityRef cannot be removed"),
            ),
            (
                "everything else",
                before,
                "{spec: {roleARN: \"arn:aws:iam::111122223333:role/b\", sessionName: s, allowedNamespaces: {}}}",
                None,
            ),
        ])
        .await?;
    table.covers(IMMUTABLE, 1, 3).await?;
    table.covers(CREATION, 1, RULES_AT_CREATION).await?;
    table.environment.finish().await
}

#[tokio::test]
async fn a_static_identity_stays_with_its_secret_and_selects_with_what_is_a_selector() -> anyhow::Result<()> {
    let mut table = Table::new("AWSClusterStaticIdentity", "{secretRef: key}").await?;
    table
        .changed(&[
            (
                "another Secret",
                "{}",
                "{spec: {secretRef: another}}",
                Some("spec.secretRef is immutable: to rotate a key change the Secret"),
            ),
            (
                "other namespaces",
                "{}",
                "{spec: {allowedNamespaces: {list: [team-a]}}}",
                None,
            ),
        ])
        .await?;
    table.covers(IMMUTABLE, 1, 3).await?;
    table
        .created(&[
            (
                "a selector",
                "{allowedNamespaces: {selector: {matchLabels: {example.org/team: a, empty: \"\"}, matchExpressions: \
                 [{key: a, operator: In, values: [b]}, {key: c, operator: Exists}]}}}",
                None,
            ),
            (
                "an unknown operator",
                "{allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}}",
                Some("matchExpressions[0].operator"),
            ),
            (
                "In without values",
                "{allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: In}]}}}",
                Some("In and NotIn need values"),
            ),
            (
                "Exists with values",
                "{allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}",
                Some("Exists and DoesNotExist have none"),
            ),
            (
                "a key that is none",
                "{allowedNamespaces: {selector: {matchExpressions: [{key: \"-\", operator: Exists}]}}}",
                Some("matchExpressions[0].key"),
            ),
            (
                "a value that is none",
                "{allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: In, values: [\"-\"]}]}}}",
                Some("matchExpressions[0].values[0]"),
            ),
            (
                "a label key that is none",
                "{allowedNamespaces: {selector: {matchLabels: {\"a/b/c\": d}}}}",
                Some("a label key is a name"),
            ),
            (
                "a label value that is none",
                "{allowedNamespaces: {selector: {matchLabels: {a: \"b c\"}}}}",
                Some("matchLabels.a"),
            ),
        ])
        .await?;
    table.environment.finish().await
}

/// The only one there can be belongs to all tests, so nothing here is stored.
#[tokio::test]
async fn there_is_one_controller_identity_and_it_stays_as_it_is() -> anyhow::Result<()> {
    let mut table = Table::new("AWSClusterControllerIdentity", "{allowedNamespaces: {}}").await?;
    table
        .created(&[(
            "another name",
            "{}",
            Some("the only AWSClusterControllerIdentity is named default"),
        )])
        .await?;
    table.covers(CREATION, 1, RULES_AT_CREATION).await?;
    let api = table.api.clone();
    let named = json!({"metadata": {"generateName": null, "name": "default"}});
    let default: DynamicObject = table.object(&json!({}), &named)?;
    match api.create(&PostParams::default(), &default).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {
            assert!(api.create(&dry_run(), &default).await.is_err(), "its name is admitted");
        }
        Err(error) => return Err(error.into()),
    }
    let judged = PatchParams::default().dry_run();
    for (what, change, refused) in [
        ("a label", json!({"metadata": {"labels": {"a": "b"}}}), None),
        (
            "other namespaces",
            json!({"spec": {"allowedNamespaces": {"list": ["team-a"]}}}),
            Some("the spec of an AWSClusterControllerIdentity is immutable"),
        ),
    ] {
        let answer = api.patch("default", &judged, &Patch::Merge(change)).await;
        table.judge(what, refused, answer)?;
    }
    table.covers(IMMUTABLE, 1, 3).await?;
    table.environment.finish().await
}
