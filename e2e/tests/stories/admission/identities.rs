//! Identities: the namespaces that may use an identity must be well-formed, and its credentials do not change.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{RULES_AT_CREATION, table};

const IMMUTABLE: &str = "capa-rs-identity-immutable";
const CREATION: &str = "capa-rs-create-only";

#[test]
fn a_role_identity_always_has_a_source_identity() -> anyhow::Result<()> {
    table("AWSClusterRoleIdentity", "{roleARN: \"arn:aws:iam::111122223333:role/a\"}", async |table| {
        table
            .created(
                r"
no source | {} | spec.sourceIdentityRef is required: name the identity
a source | {sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}} |
",
            )
            .await?;
        table
            .changed(
                r#"
another source | {spec: {sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}}}
    | {spec: {sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}}} |
no source any more | {spec: {sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}}}
    | {spec: {sourceIdentityRef: null}} | spec.sourceIdentityRef cannot be removed
no source any more under the mark of a move
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}},
      spec: {sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}}}
    | {spec: {sourceIdentityRef: null}} | spec.sourceIdentityRef cannot be removed
everything else | {spec: {sourceIdentityRef: {kind: AWSClusterControllerIdentity, name: default}}}
    | {spec: {roleARN: "arn:aws:iam::111122223333:role/b", sessionName: s, allowedNamespaces: {}}} |
"#,
            )
            .await?;
        table.covers(IMMUTABLE, 1, 3).await?;
        table.covers(CREATION, 1, RULES_AT_CREATION).await
    })
}

#[test]
fn a_static_identity_keeps_its_secret_and_has_a_valid_selector() -> anyhow::Result<()> {
    table("AWSClusterStaticIdentity", "{secretRef: key}", async |table| {
        table
            .changed(
                r"
another Secret | {} | {spec: {secretRef: another}} | spec.secretRef is immutable: to rotate a key change the Secret
other namespaces | {} | {spec: {allowedNamespaces: {list: [team-a]}}} |
",
            )
            .await?;
        table.covers(IMMUTABLE, 1, 3).await?;
        table
            .created(
                r#"
a selector
    | {allowedNamespaces: {selector: {matchLabels: {example.org/team: a, empty: ""}, matchExpressions: [{key: a,
      operator: In, values: [b]}, {key: c, operator: Exists}]}}} |
an unknown operator | {allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}}
    | matchExpressions[0].operator
In without values | {allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: In}]}}}
    | In and NotIn need values
Exists with values | {allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}
    | Exists and DoesNotExist have none
a key that is none | {allowedNamespaces: {selector: {matchExpressions: [{key: "-", operator: Exists}]}}}
    | matchExpressions[0].key
a value that is none | {allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: In, values: ["-"]}]}}}
    | matchExpressions[0].values[0]
a label key that is none | {allowedNamespaces: {selector: {matchLabels: {"a/b/c": d}}}} | a label key is a name
a label value that is none | {allowedNamespaces: {selector: {matchLabels: {a: "b c"}}}} | matchLabels.a
"#,
            )
            .await?;
        Ok(())
    })
}

/// All tests share the only identity of this kind, which managers create as well: this test changes nothing about it.
#[test]
fn there_is_one_controller_identity_and_it_stays_as_it_is() -> anyhow::Result<()> {
    table("AWSClusterControllerIdentity", "{allowedNamespaces: {}}", async |table| {
        table
            .created(
                r"
another name | {} | the only AWSClusterControllerIdentity is named default
",
            )
            .await?;
        table.covers(CREATION, 1, RULES_AT_CREATION).await?;
        let api = table.api.clone();
        let named = json!({"metadata": {"generateName": null, "name": "default"}});
        let default: DynamicObject = table.object(&json!({}), &named)?;
        match api.create(&PostParams::default(), &default).await {
            Ok(_) => {}
            // It is there already, so that its name was admitted.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        let judged = PatchParams::default().dry_run();
        for (what, change, refused) in [
            ("a label", json!({"metadata": {"labels": {"a": "b"}}}), ""),
            (
                "other namespaces",
                json!({"spec": {"allowedNamespaces": {"list": ["team-a"]}}}),
                "the spec of an AWSClusterControllerIdentity is immutable",
            ),
        ] {
            let answer = api.patch("default", &judged, &Patch::Merge(change)).await;
            table.judge(what, refused, answer)?;
        }
        table.covers(IMMUTABLE, 1, 3).await
    })
}
