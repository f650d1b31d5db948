//! The three kinds of identities: cluster-scoped objects that select the AWS credentials for the clusters of a
//! namespace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use kube::core::{Selector, SelectorExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::IdentityReference;
use crate::{conditions, lenient, selector};

/// Validity of the credentials of an assumed role in seconds if `durationSeconds` is absent.
pub const DEFAULT_ROLE_DURATION_SECONDS: i32 = 900;

/// Namespaces whose objects may use an identity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Names of allowed namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub list: Option<Vec<String>>,
    /// Label selector of allowed namespaces, in addition to `list`. A selector without requirements selects no
    /// namespace. Without a list, `{}` counts as absent, because CAPA stores an empty `allowedNamespaces` in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector::schema")]
    pub selector: Option<LabelSelector>,
}

impl AllowedNamespaces {
    /// Whether objects of the namespace may use the identity.
    ///
    /// Without `list` and `selector` the identity allows every namespace. Otherwise the namespace must be in the list
    /// or match the selector. A namespace whose labels are not known matches no selector.
    pub fn allows(&self, namespace: &str, namespace_labels: Option<&BTreeMap<String, String>>) -> bool {
        let listed = self.list.as_ref().map(|names| names.iter().any(|name| name == namespace));
        let matches =
            |wanted: Selector| !wanted.selects_all() && namespace_labels.is_some_and(|labels| wanted.matches(labels));
        let counts = |selector: &&LabelSelector| self.list.is_some() || **selector != LabelSelector::default();
        let selected = self.selector.as_ref().filter(counts);
        let selected = selected.map(|wanted| selector::parsed(wanted).is_some_and(matches));
        match (listed, selected) {
            (None, None) => true,
            (listed, selected) => listed == Some(true) || selected == Some(true),
        }
    }
}

/// Whether objects of the namespace may use an identity with this `allowedNamespaces`. Absent: no namespace is allowed.
pub fn namespace_allowed(
    allowed: Option<&AllowedNamespaces>,
    namespace: &str,
    namespace_labels: Option<&BTreeMap<String, String>>,
) -> bool {
    allowed.is_some_and(|allowed| allowed.allows(namespace, namespace_labels))
}

/// Observed state of an identity. Only the provider writes the status, and each write replaces the whole status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityStatus {
    /// Conditions of the identity. `Ready` is true if all objects of the identity exist and no cluster or machine
    /// reports that AWS refuses its credentials.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// The manager's own AWS credentials.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSClusterControllerIdentity",
    plural = "awsclustercontrolleridentities",
    shortname = "awsci",
    category = "cluster-api",
    status = "IdentityStatus",
    derive = "PartialEq",
    doc = "Permission for namespaces to use the manager's own AWS credentials. The only valid name is `default`. An \
           AWSCluster or AWSMachine without an identity in its spec uses this identity.",
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the identity is complete, and AWS refuses it to nobody"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the condition Ready"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the identity was created"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "Message of the condition Ready"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterControllerIdentitySpec {
    /// Namespaces whose clusters and machines may use the manager's own credentials. Absent: no namespaces. `{}`: all
    /// namespaces. Otherwise: the namespaces of `list` and `selector`. Immutable: to change the field, delete the
    /// object and create it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// An AWS role that is assumed through STS.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSClusterRoleIdentity",
    plural = "awsclusterroleidentities",
    shortname = "awsri",
    category = "cluster-api",
    status = "IdentityStatus",
    derive = "PartialEq",
    doc = "An IAM role for clusters and machines of the allowed namespaces. The manager assumes the role through \
           STS with the credentials of another identity.",
    printcolumn = r#"{"name": "Role", "type": "string", "jsonPath": ".spec.roleARN",
        "description": "ARN of the role"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the identity is complete, and AWS refuses it to nobody"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the condition Ready"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the identity was created"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "Message of the condition Ready"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterRoleIdentitySpec {
    /// Namespaces whose clusters and machines may use this role. Absent: no namespaces. `{}`: all namespaces.
    /// Otherwise: the namespaces of `list` and `selector`. The provider checks the namespace for every role of a chain
    /// of roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// ARN of the role, for example `arn:aws:iam::111122223333:role/cluster-api`.
    #[serde(rename = "roleARN")]
    pub role_arn: String,
    /// Name of the role session, which CloudTrail shows. Absent: `capa-rs-<namespace>-<cluster>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Validity of the role's credentials in seconds, 900 to 43200 and at most the maximum session duration of the
    /// role. The manager renews the credentials before they expire. Absent: 900. AWS limits a role that is assumed
    /// through another role to 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 900, max = 43200))]
    pub duration_seconds: Option<i32>,
    /// IAM session policy as JSON text. The session has only the permissions that both the role and this policy allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_policy: Option<String>,
    /// ARNs of managed IAM policies that restrict the permissions of the session, in the same way as `inlinePolicy`.
    #[serde(default, rename = "policyARNs", skip_serializing_if = "Vec::is_empty")]
    pub policy_arns: Vec<String>,
    /// External id that the role's trust policy requires, usually for a role in another organisation's AWS account.
    #[serde(default, rename = "externalID", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Identity with whose credentials the manager assumes the role, for example `{kind: AWSClusterControllerIdentity,
    /// name: default}`. A source of kind AWSClusterRoleIdentity makes a chain of roles, at most five. Required when the
    /// object is created. The field can be changed, but not removed. For a stored object without the field, the source
    /// is AWSClusterControllerIdentity `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_identity_ref: Option<IdentityReference>,
}

impl AWSClusterRoleIdentitySpec {
    /// Effective validity of the credentials in seconds.
    pub fn effective_duration_seconds(&self) -> i32 {
        self.duration_seconds.unwrap_or(DEFAULT_ROLE_DURATION_SECONDS)
    }

    /// The identity with whose credentials the manager assumes the role.
    pub fn effective_source(&self) -> IdentityReference {
        self.source_identity_ref.clone().unwrap_or_else(IdentityReference::controller_default)
    }
}

/// An AWS access key kept in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSClusterStaticIdentity",
    plural = "awsclusterstaticidentities",
    shortname = "awssi",
    category = "cluster-api",
    status = "IdentityStatus",
    derive = "PartialEq",
    doc = "A long-lived AWS access key for clusters and machines of the allowed namespaces. Prefer an \
           AWSClusterRoleIdentity.",
    printcolumn = r#"{"name": "Secret", "type": "string", "jsonPath": ".spec.secretRef",
        "description": "Secret with the access key, in the manager's namespace"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the identity is complete, and AWS refuses it to nobody"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the condition Ready"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the identity was created"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "Message of the condition Ready"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterStaticIdentitySpec {
    /// Namespaces whose clusters and machines may use this access key. Absent: no namespaces. `{}`: all namespaces.
    /// Otherwise: the namespaces of `list` and `selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// Name of a Secret in the manager's namespace with the keys `AccessKeyID`, `SecretAccessKey` and, for temporary
    /// credentials, `SessionToken`. A changed Secret takes effect at the next reconcile. The identity becomes an owner
    /// of the Secret: `clusterctl move` moves both objects, and the Secret is deleted with the last identity that owns
    /// it. Immutable.
    pub secret_ref: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn allowed_namespaces_follow_the_table() {
        let team_a: BTreeMap<String, String> = [("team".to_owned(), "a".to_owned())].into();
        let cases = [
            (json!(null), false, "absent: nobody"),
            (json!({}), true, "empty: everybody"),
            (json!({"list": null}), true, "a null list is no list"),
            (json!({"list": []}), false, "an empty list names nobody"),
            (json!({"list": ["prod"]}), true, "listed"),
            (json!({"list": ["other"]}), false, "not listed"),
            (json!({"selector": {}}), true, "as CAPA stores an empty block"),
            (json!({"list": null, "selector": {}}), true, "as CAPA stores an empty block"),
            (json!({"list": [], "selector": {}}), false, "an empty selector selects nobody"),
            (json!({"selector": {"matchLabels": {}}}), false, "an empty selector selects nobody"),
            (json!({"selector": {"matchLabels": {"team": "a"}}}), true, "selected"),
            (json!({"selector": {"matchLabels": {"team": "b"}}}), false, "not selected"),
            (json!({"list": ["other"], "selector": {"matchLabels": {"team": "a"}}}), true, "either is enough"),
            (json!({"list": ["prod"], "selector": {}}), true, "either is enough"),
            (json!({"list": ["other"], "selector": {}}), false, "neither"),
        ];
        for (allowed, expected, why) in cases {
            let allowed: Option<AllowedNamespaces> = serde_json::from_value(allowed).unwrap();
            assert_eq!(namespace_allowed(allowed.as_ref(), "prod", Some(&team_a)), expected, "{why}: {allowed:?}");
        }
    }

    #[test]
    fn absent_and_empty_allowed_namespaces_stay_distinct() {
        for spec in [json!({}), json!({"allowedNamespaces": {}}), json!({"allowedNamespaces": {"list": []}})] {
            let read: AWSClusterControllerIdentitySpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), spec);
        }
    }

    #[test]
    fn a_role_without_source_is_assumed_by_the_controller_identity() {
        let role = AWSClusterRoleIdentitySpec::default();
        assert_eq!(role.effective_source(), IdentityReference::controller_default());
        assert_eq!(role.effective_duration_seconds(), 900);
    }
}
