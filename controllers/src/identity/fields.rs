//! Tests of the effect of each field of an identity's spec. `api/tests/data/effects.tsv` names these tests field by
//! field.

use capa_api::common::IdentityReference;
use capa_cloud::CredentialSource;
use serde_json::{Value, json};

use super::{IdentityError, IdentityRequest, resolve};
use crate::testing::fields::{Row, assert_effect, spec_with};
use crate::testing::{FakeKubernetes, Journal, read};

const CONTROLLER: &str = "AWSClusterControllerIdentity";
const ROLE: &str = "AWSClusterRoleIdentity";
const STATIC: &str = "AWSClusterStaticIdentity";

/// The result of an identity of this kind and spec for the namespace `team-a`, which has the label `team: a`.
async fn observed(kind: &str, spec: &str) -> Value {
    let kubernetes = FakeKubernetes::new(&Journal::default());
    kubernetes.label_namespace("team-a", "team", "a");
    for (secret, key) in [("keys", "AKIAKEYS"), ("others", "AKIAOTHERS")] {
        let data = [("AccessKeyID", key), ("SecretAccessKey", "hunter2")];
        kubernetes.put_secret("capa-rs-system", secret, &data);
    }
    for source in ["default", "second"] {
        let secret = if source == "second" { "others" } else { "keys" };
        kubernetes.identity_object(STATIC, source, &format!("secretRef: {secret}, allowedNamespaces: {{}}"));
    }
    kubernetes.identity_object(kind, "default", spec);
    let reference: IdentityReference = read(&format!("{{kind: {kind}, name: default}}"));
    let request = IdentityRequest {
        reference: &reference,
        namespace: "team-a",
        cluster_name: "dev",
        identity_namespace: "capa-rs-system",
    };
    match resolve(&kubernetes, &request).await {
        Ok(identity) => shown(&identity.source),
        Err(IdentityError::Unusable(problem) | IdentityError::Unread(problem)) => {
            json!({"problem": problem.reason.to_string()})
        }
    }
}

fn shown(source: &CredentialSource) -> Value {
    match source {
        CredentialSource::Controller => json!({"credentials": "controller"}),
        CredentialSource::Static { access_key_id, .. } => json!({"credentials": access_key_id}),
        CredentialSource::Role {
            role_arn,
            session_name,
            external_id,
            duration_seconds,
            inline_policy,
            policy_arns,
            source,
        } => json!({
            "credentials": role_arn,
            "sessionName": session_name,
            "externalID": external_id,
            "durationSeconds": duration_seconds,
            "inlinePolicy": inline_policy,
            "policyARNs": policy_arns,
            "source": shown(source),
        }),
    }
}

async fn assert_effects(kind: &str, smallest: &str, rows: &[Row]) {
    let without = observed(kind, smallest).await;
    for row in rows {
        assert_effect(row, &without, &observed(kind, &spec_with(smallest, row)).await);
    }
}

#[tokio::test]
async fn the_namespaces_of_an_identity_decide_who_may_use_it() {
    let kinds = [
        (CONTROLLER, "", "controller"),
        (ROLE, "roleARN: 'arn:aws:iam::1:role/nodes'", "arn:aws:iam::1:role/nodes"),
        (STATIC, "secretRef: keys", "AKIAKEYS"),
    ];
    for (kind, smallest, credentials) in kinds {
        let admits = |field, set| -> Row { (field, set, "/credentials", json!(credentials)) };
        let rows = [
            admits("allowedNamespaces.list[]", "allowedNamespaces: {list: [team-a]}"),
            admits(
                "allowedNamespaces.selector.matchLabels{}",
                "allowedNamespaces: {selector: {matchLabels: {team: a}}}",
            ),
            admits(
                "allowedNamespaces.selector.matchExpressions[].key",
                "allowedNamespaces: {selector: {matchExpressions: [{key: team, operator: Exists}]}}",
            ),
            admits(
                "allowedNamespaces.selector.matchExpressions[].operator",
                "allowedNamespaces: {selector: {matchExpressions: [{key: stage, operator: DoesNotExist}]}}",
            ),
            admits(
                "allowedNamespaces.selector.matchExpressions[].values[]",
                "allowedNamespaces: {selector: {matchExpressions: [{key: team, operator: In, values: [a]}]}}",
            ),
        ];
        assert_effects(kind, smallest, &rows).await;
        for others in [
            "list: [team-b]",
            "selector: {matchLabels: {team: b}}",
            "selector: {matchExpressions: [{key: stage, operator: Exists}]}",
            "selector: {matchExpressions: [{key: team, operator: DoesNotExist}]}",
            "selector: {matchExpressions: [{key: team, operator: In, values: [b]}]}",
        ] {
            let spec =
                format!("allowedNamespaces: {{{others}}}{}{smallest}", if smallest.is_empty() { "" } else { ", " });
            assert_eq!(observed(kind, &spec).await, json!({"problem": "NotAllowed"}), "{kind}: {others}");
        }
    }
}

#[tokio::test]
async fn a_role_is_assumed_as_its_identity_says() {
    let smallest = "roleARN: 'arn:aws:iam::1:role/nodes', allowedNamespaces: {}";
    assert_effects(
        ROLE,
        smallest,
        &[
            ("roleARN", "roleARN: 'arn:aws:iam::1:role/other'", "/credentials", json!("arn:aws:iam::1:role/other")),
            ("sessionName", "sessionName: ci", "/sessionName", json!("ci")),
            ("durationSeconds", "durationSeconds: 3600", "/durationSeconds", json!(3600)),
            ("externalID", "externalID: shared", "/externalID", json!("shared")),
            ("inlinePolicy", "inlinePolicy: '{}'", "/inlinePolicy", json!("{}")),
            (
                "policyARNs[]",
                "policyARNs: ['arn:aws:iam::aws:policy/One']",
                "/policyARNs",
                json!(["arn:aws:iam::aws:policy/One"]),
            ),
            (
                "sourceIdentityRef.kind",
                "sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: default}",
                "/source/credentials",
                json!("AKIAKEYS"),
            ),
            (
                "sourceIdentityRef.name",
                "sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: second}",
                "/source/credentials",
                json!("AKIAOTHERS"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_static_identity_is_the_key_in_its_secret() {
    let smallest = "secretRef: keys, allowedNamespaces: {}";
    let row = ("secretRef", "secretRef: others", "/credentials", json!("AKIAOTHERS"));
    assert_effects(STATIC, smallest, &[row]).await;
}
