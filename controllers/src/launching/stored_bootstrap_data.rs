//! Bootstrap data that AWS keeps until the instance has fetched it, as the status of an AWSMachine records it. Pure.

use capa_api::common::IdentityReference;
use capa_api::machine::{AWSMachineStatus, BootstrapObject, BootstrapSecrets};
use capa_cloud::SecretStore;

use super::boot_hook;

/// Bootstrap data in one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredBootstrapData {
    /// In a service for secrets.
    Secrets(BootstrapSecrets),
    /// In the cluster's S3 bucket.
    Object(BootstrapObject),
}

impl StoredBootstrapData {
    /// All bootstrap data that the status records.
    pub(crate) fn all(status: &AWSMachineStatus) -> Vec<Self> {
        let secrets = status.bootstrap_secrets.clone().map(Self::Secrets);
        let object = status.bootstrap_object.clone().map(Self::Object);
        secrets.into_iter().chain(object).collect()
    }

    /// The recorded data in the same kind of store.
    pub(crate) fn recorded_like(&self, status: &AWSMachineStatus) -> Option<Self> {
        match self {
            Self::Secrets(_) => status.bootstrap_secrets.clone().map(Self::Secrets),
            Self::Object(_) => status.bootstrap_object.clone().map(Self::Object),
        }
    }

    /// Records the data in the status.
    pub(crate) fn record(self, status: &mut AWSMachineStatus) {
        match self {
            Self::Secrets(secrets) => status.bootstrap_secrets = Some(secrets),
            Self::Object(object) => status.bootstrap_object = Some(object),
        }
    }

    /// Removes the record of the data from the status. Returns whether there was one.
    pub(crate) fn forget(&self, status: &mut AWSMachineStatus) -> bool {
        match self {
            Self::Secrets(_) => status.bootstrap_secrets.take().is_some(),
            Self::Object(_) => status.bootstrap_object.take().is_some(),
        }
    }

    /// Extends the record to the data that an earlier attempt has stored at the same location. Returns whether the
    /// location is the same.
    pub(crate) fn takes_in(&mut self, earlier: &Self) -> bool {
        let is_same_region = self.region() == earlier.region();
        match (self, earlier) {
            (Self::Secrets(secrets), Self::Secrets(earlier)) => {
                let same = (secrets.backend, &secrets.prefix) == (earlier.backend, &earlier.prefix);
                secrets.count = secrets.count.max(earlier.count);
                same && is_same_region
            }
            (Self::Object(object), Self::Object(earlier)) => {
                (&object.bucket, &object.key) == (&earlier.bucket, &earlier.key) && is_same_region
            }
            (Self::Secrets(_), Self::Object(_)) | (Self::Object(_), Self::Secrets(_)) => false,
        }
    }

    /// The store that contains the data.
    pub(crate) fn store(&self) -> SecretStore {
        match self {
            Self::Secrets(secrets) => SecretStore::Service(secrets.backend),
            Self::Object(object) => SecretStore::Bucket(object.bucket.clone()),
        }
    }

    /// The names of the parts in the store.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Secrets(secrets) => {
                let count = usize::try_from(secrets.count).unwrap_or_default();
                boot_hook::names(secrets.backend, &secrets.prefix, count)
            }
            Self::Object(object) => vec![object.key.clone()],
        }
    }

    /// The data and its store, for messages.
    pub(crate) fn shown(&self) -> String {
        let what = match self {
            Self::Secrets(secrets) => &secrets.prefix,
            Self::Object(object) => &object.key,
        };
        format!("{what} in {}", self.store())
    }

    /// The region of the store.
    pub(crate) fn region(&self) -> Option<&str> {
        match self {
            Self::Secrets(secrets) => secrets.region.as_deref(),
            Self::Object(object) => object.region.as_deref(),
        }
    }

    /// The account of the credentials with which the data was stored.
    pub(crate) fn account_id(&self) -> Option<&str> {
        match self {
            Self::Secrets(secrets) => secrets.account_id.as_deref(),
            Self::Object(object) => object.account_id.as_deref(),
        }
    }

    /// The identity with which the data was stored.
    pub(crate) fn identity_ref(&self) -> Option<&IdentityReference> {
        match self {
            Self::Secrets(secrets) => secrets.identity_ref.as_ref(),
            Self::Object(object) => object.identity_ref.as_ref(),
        }
    }

    /// The reason of the event that the data is deleted.
    pub(crate) const fn deleted(&self) -> &'static str {
        match self {
            Self::Secrets(_) => "SuccessfulDeleteEncryptedBootstrapDataSecrets",
            Self::Object(_) => "SuccessfulDeleteBootstrapObject",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    #[test]
    fn an_earlier_attempt_at_the_same_place_is_taken_in() {
        let secrets = |prefix: &str, count: i32| {
            let text = format!("{{backend: secrets-manager, prefix: {prefix}, count: {count}, region: eu-west-1}}");
            StoredBootstrapData::Secrets(read(&text))
        };
        let object = |bucket: &str| StoredBootstrapData::Object(read(&format!("{{bucket: {bucket}, key: node/uid}}")));
        let mut later = secrets("a", 1);
        assert!(later.takes_in(&secrets("a", 3)));
        assert_eq!(later.names().len(), 3);
        assert!(!secrets("a", 1).takes_in(&secrets("b", 1)));
        assert!(object("one").takes_in(&object("one")));
        assert!(!object("one").takes_in(&object("two")));
        assert!(!object("one").takes_in(&secrets("a", 1)));
    }
}
