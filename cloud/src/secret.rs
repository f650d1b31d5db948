//! A part of a machine's bootstrap data in AWS.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use capa_api::machine::SecretsBackend;
use jiff::Timestamp;

/// The place in AWS that keeps bootstrap data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretStore {
    /// A service for secrets.
    Service(SecretsBackend),
    /// The S3 bucket of this name.
    Bucket(String),
}

impl From<SecretsBackend> for SecretStore {
    fn from(backend: SecretsBackend) -> Self {
        Self::Service(backend)
    }
}

/// The store in words.
impl fmt::Display for SecretStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(SecretsBackend::SecretsManager) => formatter.write_str("Secrets Manager"),
            Self::Service(SecretsBackend::SsmParameterStore) => formatter.write_str("Parameter Store"),
            Self::Bucket(name) => write!(formatter, "the S3 bucket {name}"),
        }
    }
}

/// A part of a machine's bootstrap data, as AWS stores it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecret {
    /// Where it is stored.
    pub store: SecretStore,
    /// Name of the secret in the service, or key of the object in the bucket.
    pub name: String,
    /// The content: any bytes in Secrets Manager and S3, text in Parameter Store. It is never shown, because it
    /// contains join tokens and CA keys.
    pub content: Vec<u8>,
    /// Tags of the secret. An object in S3 gets no tags, because they would need an additional permission.
    pub tags: BTreeMap<String, String>,
}

/// The names of the actions on the secrets of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretActions {
    /// Stores a secret. In a service, the name must not be taken.
    pub create: &'static str,
    /// Replaces the content of a secret.
    pub replace: &'static str,
    /// Deletes secrets.
    pub delete: &'static str,
}

impl SecretActions {
    /// The actions of Secrets Manager.
    pub const SECRETS_MANAGER: Self =
        Self { create: "CreateSecret", replace: "PutSecretValue", delete: "DeleteSecret" };
    /// The actions of Parameter Store.
    pub const PARAMETER_STORE: Self =
        Self { create: "PutParameter", replace: "PutParameter", delete: "DeleteParameters" };
    /// The actions of S3, which replaces an existing object.
    pub const S3: Self = Self { create: "PutObject", replace: "PutObject", delete: "DeleteObject" };

    /// The actions of a store.
    pub const fn of(store: &SecretStore) -> Self {
        match store {
            SecretStore::Service(SecretsBackend::SecretsManager) => Self::SECRETS_MANAGER,
            SecretStore::Service(SecretsBackend::SsmParameterStore) => Self::PARAMETER_STORE,
            SecretStore::Bucket(_) => Self::S3,
        }
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (store, name, bytes) = (&self.store, &self.name, self.content.len());
        write!(formatter, "StoredSecret({name} in {store}, {bytes} bytes)")
    }
}

/// An object in S3, and the time in which everybody who has the presigned URL can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignRequest {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// The second from which the URL is valid.
    pub valid_from: Timestamp,
    /// How long the URL is valid: whole seconds, at most seven days.
    pub valid_for: Duration,
}

/// A URL with which everybody who has it can read an object. The URL is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PresignedUrl(String);

impl PresignedUrl {
    /// Wraps a URL, so that it is never shown.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL, for user data.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PresignedUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PresignedUrl(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_never_shows_in_debug_output() {
        let secret = StoredSecret {
            store: SecretsBackend::SecretsManager.into(),
            name: "one".to_owned(),
            content: b"join-token".to_vec(),
            tags: BTreeMap::new(),
        };
        assert_eq!(format!("{secret:?}"), "StoredSecret(one in Secrets Manager, 10 bytes)");
        let url = PresignedUrl::new("https://boot.example/key?X-Amz-Signature=1");
        assert_eq!(format!("{url:?}"), "PresignedUrl(hidden)");
    }
}
