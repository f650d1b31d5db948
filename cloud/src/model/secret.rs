//! A part of a machine's bootstrap data in AWS.

use std::collections::BTreeMap;
use std::fmt;

use capa_api::machine::SecretsBackend;

/// A part of a machine's bootstrap data, as an AWS service for secrets stores it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecret {
    /// The service.
    pub backend: SecretsBackend,
    /// Name of the secret in the service.
    pub name: String,
    /// The content: any bytes in Secrets Manager, text in Parameter Store. It is never shown, because it contains join
    /// tokens and CA keys.
    pub content: Vec<u8>,
    /// Tags of the secret.
    pub tags: BTreeMap<String, String>,
}

/// The names of the actions on the secrets of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretActions {
    /// Stores a secret under a name that is not taken.
    pub create: &'static str,
    /// Replaces the content of a secret.
    pub replace: &'static str,
    /// Deletes secrets.
    pub delete: &'static str,
}

impl SecretActions {
    /// The actions of a service.
    pub const fn of(backend: SecretsBackend) -> Self {
        match backend {
            SecretsBackend::SecretsManager => Self {
                create: "CreateSecret",
                replace: "PutSecretValue",
                delete: "DeleteSecret",
            },
            SecretsBackend::SsmParameterStore => Self {
                create: "PutParameter",
                replace: "PutParameter",
                delete: "DeleteParameters",
            },
        }
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (backend, name, bytes) = (self.backend, &self.name, self.content.len());
        write!(formatter, "StoredSecret({backend} {name}, {bytes} bytes)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_never_shows_in_debug_output() {
        let secret = StoredSecret {
            backend: SecretsBackend::SecretsManager,
            name: "one".to_owned(),
            content: b"join-token".to_vec(),
            tags: BTreeMap::new(),
        };
        assert_eq!(format!("{secret:?}"), "StoredSecret(secrets-manager one, 10 bytes)");
    }
}
