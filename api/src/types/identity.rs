//! The three identities: cluster-scoped objects that say with which AWS credentials a namespace's clusters work.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::IdentityReference;
use crate::selector;

/// Seconds that credentials of an assumed role are valid where `durationSeconds` is absent.
pub const DEFAULT_ROLE_DURATION_SECONDS: i32 = 900;

/// Namespaces whose objects may use an identity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Names of allowed namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub list: Option<Vec<String>>,
    /// Selects allowed namespaces by their labels, next to those in `list`. A selector without requirements selects
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector::schema")]
    pub selector: Option<LabelSelector>,
}

impl AllowedNamespaces {
    /// Whether objects of the namespace may use the identity.
    ///
    /// Without `list` and `selector` every namespace may; otherwise the namespace must be in the list or be selected.
    pub fn allows(&self, namespace: &str, namespace_labels: &BTreeMap<String, String>) -> bool {
        let listed = self
            .list
            .as_ref()
            .map(|names| names.iter().any(|name| name == namespace));
        let selected = self
            .selector
            .as_ref()
            .map(|wanted| !selector::is_empty(wanted) && selector::matches(wanted, namespace_labels));
        match (listed, selected) {
            (None, None) => true,
            (listed, selected) => listed == Some(true) || selected == Some(true),
        }
    }
}

/// Whether objects of the namespace may use an identity with this `allowedNamespaces`: absent means nobody may.
pub fn namespace_allowed(
    allowed: Option<&AllowedNamespaces>,
    namespace: &str,
    namespace_labels: &BTreeMap<String, String>,
) -> bool {
    allowed.is_some_and(|allowed| allowed.allows(namespace, namespace_labels))
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
    derive = "PartialEq",
    doc = "Lets namespaces use the manager's own AWS credentials. There is one, named `default`; an AWSCluster or \
           AWSMachine that names no identity uses it."
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterControllerIdentitySpec {
    /// Namespaces whose clusters and machines may use the manager's own credentials: absent nobody, `{}` all, else
    /// those that `list` or `selector` name. Immutable: to change it, delete the object and create it anew.
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
    derive = "PartialEq",
    doc = "An IAM role that clusters and machines of the allowed namespaces work as. The manager assumes it through \
           STS with the credentials of another identity."
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterRoleIdentitySpec {
    /// Namespaces whose clusters and machines may work as this role: absent nobody, `{}` all, else those that `list`
    /// or `selector` name. Checked at every hop of a chain of roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// ARN of the role, for example `arn:aws:iam::111122223333:role/cluster-api`.
    #[serde(rename = "roleARN")]
    pub role_arn: String,
    /// Session name that CloudTrail shows for calls made as the role. Absent: `capa-rs-<namespace>-<cluster>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Seconds that the role's credentials are valid, 900 to 43200 and no more than the role itself allows; they are
    /// renewed before they end. Absent: 900. Roles assumed through another role are limited to 3600 by AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 900, max = 43200))]
    pub duration_seconds: Option<i32>,
    /// IAM policy as JSON text that narrows what the session may do: the role's rights and this policy's both apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_policy: Option<String>,
    /// ARNs of managed IAM policies that narrow what the session may do, as `inlinePolicy` does.
    #[serde(default, rename = "policyARNs", skip_serializing_if = "Vec::is_empty")]
    pub policy_arns: Vec<String>,
    /// External id that the role's trust policy asks for, usually when the role is in somebody else's account.
    #[serde(default, rename = "externalID", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Identity whose credentials assume the role, for example `{kind: AWSClusterControllerIdentity, name: default}`; a
    /// role again makes a chain, of at most five. Required when the object is created; may be changed, but not removed.
    /// An object that is stored without it is assumed by AWSClusterControllerIdentity `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_identity_ref: Option<IdentityReference>,
}

impl AWSClusterRoleIdentitySpec {
    /// Seconds the credentials are valid.
    pub fn effective_duration_seconds(&self) -> i32 {
        self.duration_seconds.unwrap_or(DEFAULT_ROLE_DURATION_SECONDS)
    }

    /// The identity that assumes the role.
    pub fn effective_source(&self) -> IdentityReference {
        self.source_identity_ref
            .clone()
            .unwrap_or_else(IdentityReference::controller_default)
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
    derive = "PartialEq",
    doc = "A long-lived AWS access key that clusters and machines of the allowed namespaces work with. Prefer a role \
           where you can."
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterStaticIdentitySpec {
    /// Namespaces whose clusters and machines may use this access key: absent nobody, `{}` all, else those that
    /// `list` or `selector` name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// Name of a Secret in the manager's namespace with the keys `AccessKeyID`, `SecretAccessKey` and, for temporary
    /// credentials, `SessionToken`. A changed Secret takes effect at the next reconcile. The identity becomes an owner
    /// of it: `clusterctl move` takes both along, and it is deleted with its last identity. Immutable.
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
            (json!({"selector": {}}), false, "an empty selector selects nobody"),
            (
                json!({"selector": {"matchLabels": {}}}),
                false,
                "an empty selector selects nobody",
            ),
            (json!({"selector": {"matchLabels": {"team": "a"}}}), true, "selected"),
            (
                json!({"selector": {"matchLabels": {"team": "b"}}}),
                false,
                "not selected",
            ),
            (
                json!({"list": ["other"], "selector": {"matchLabels": {"team": "a"}}}),
                true,
                "either is enough",
            ),
            (json!({"list": ["prod"], "selector": {}}), true, "either is enough"),
            (json!({"list": ["other"], "selector": {}}), false, "neither"),
        ];
        for (allowed, expected, why) in cases {
            let allowed: Option<AllowedNamespaces> = serde_json::from_value(allowed).unwrap();
            assert_eq!(
                namespace_allowed(allowed.as_ref(), "prod", &team_a),
                expected,
                "{why}: {allowed:?}"
            );
        }
    }

    #[test]
    fn absent_and_empty_allowed_namespaces_stay_distinct() {
        for spec in [
            json!({}),
            json!({"allowedNamespaces": {}}),
            json!({"allowedNamespaces": {"list": []}}),
        ] {
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
