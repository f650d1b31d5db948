//! Whose credentials a call is made with, resolved from the Kubernetes objects.

use secrecy::SecretString;

/// An identity after its objects and Secrets were read and every hop was allowed.
#[derive(Clone, Debug)]
pub struct ResolvedIdentity {
    /// Distinguishes clients: made of the UIDs and resourceVersions of the whole chain and its Secret, so that a
    /// rotated Secret or a changed role is a new client at the next reconcile.
    pub key: String,
    /// Where the credentials come from.
    pub source: CredentialSource,
}

/// Where credentials come from. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// The manager's own: environment, web identity, pod identity, instance profile.
    Controller,
    /// A long-lived access key out of a Secret.
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
        /// Names the session in CloudTrail.
        session_name: String,
        /// Shared secret that the role's trust policy may ask for.
        external_id: Option<String>,
        /// Lifetime of a session in seconds (900 to 43200).
        duration_seconds: i32,
        /// Session policy in JSON that narrows the role.
        inline_policy: Option<String>,
        /// ARNs of managed policies that narrow the role.
        policy_arns: Vec<String>,
        /// Who assumes it.
        source: Box<Self>,
    },
}
