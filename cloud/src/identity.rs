//! The identity of an AWS call, resolved from Kubernetes objects.

use secrecy::SecretString;

use crate::keys::ClusterKey;

/// An identity after its objects and Secrets were read and the namespace was checked for every role of the chain.
#[derive(Clone, Debug)]
pub struct ResolvedIdentity {
    /// Key of the session. The key contains the UIDs and resourceVersions of the whole chain and its Secret, so that a
    /// rotated Secret or a changed role leads to a new session at the next reconcile.
    pub key: String,
    /// The source of the credentials.
    pub source: CredentialSource,
    /// The Cluster that the calls serve. The calls use the turns of this Cluster in the request rates. Clusters with
    /// the same `key` share a client.
    pub cluster: ClusterKey,
    /// Whether `key` contains the Cluster, so that no other Cluster has this session.
    pub is_for_one_cluster: bool,
}

/// The source of credentials. `Debug` output contains no secret.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// The manager's own credentials: environment, web identity, pod identity or instance profile.
    Controller,
    /// A long-lived access key from a Secret.
    Static {
        /// Access key id.
        access_key_id: String,
        /// Secret access key.
        secret_access_key: SecretString,
        /// Session token of temporary keys.
        session_token: Option<SecretString>,
    },
    /// A role assumed through STS with the credentials of `source`.
    Role {
        /// The role's ARN.
        role_arn: String,
        /// Name of the session in CloudTrail.
        session_name: String,
        /// External id that the role's trust policy may require.
        external_id: Option<String>,
        /// Lifetime of a session in seconds (900 to 43200).
        duration_seconds: i32,
        /// Session policy in JSON that restricts the permissions of the role.
        inline_policy: Option<String>,
        /// ARNs of managed policies that restrict the permissions of the role.
        policy_arns: Vec<String>,
        /// The source of the credentials that assume the role.
        source: Box<Self>,
    },
}
