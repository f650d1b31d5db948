//! Bootstrap data that an AWS service for secrets keeps until the instance has fetched it. Pure.

use std::collections::BTreeMap;

use capa_api::common::IdentityReference;
use capa_api::machine::{AWSMachineSpec, BootstrapSecrets, SecretsBackend};
use capa_api::meta;
use capa_cloud::{StoredSecret, UserData};

use super::boot_hook::{self, StoredData};

/// The number of secrets that a machine whose status was lost may have: enough for 120 KiB of compressed bootstrap data
/// in Secrets Manager, and for 30 KB in Parameter Store, where one call deletes all of them.
const fn assumed_count(backend: SecretsBackend) -> i32 {
    match backend {
        SecretsBackend::SecretsManager => 2,
        SecretsBackend::SsmParameterStore => 10,
    }
}

/// What bootstrap data is stored for.
pub(crate) struct StorageRequest<'a> {
    pub(crate) spec: &'a AWSMachineSpec,
    pub(crate) backend: SecretsBackend,
    /// UID of the AWSMachine.
    pub(crate) uid: &'a str,
    /// Name of the AWSMachine.
    pub(crate) name: &'a str,
    pub(crate) region: &'a str,
    pub(crate) identity_ref: &'a IdentityReference,
    /// Name of the cluster in tags.
    pub(crate) cluster_tag: &'a str,
    /// The bootstrap data.
    pub(crate) data: &'a [u8],
}

/// The secrets of a launch, and the user data that fetches them.
pub(crate) struct LaunchSecrets {
    /// The record in the status of the AWSMachine.
    pub(crate) record: BootstrapSecrets,
    pub(crate) parts: Vec<StoredSecret>,
    pub(crate) user_data: UserData,
}

impl LaunchSecrets {
    pub(crate) fn new(request: &StorageRequest<'_>) -> Self {
        let prefix = prefix(request.spec, request.backend, request.uid);
        let data = StoredData::new(request.data, request.backend, request.region, &prefix);
        let tags = BTreeMap::from([
            (meta::NAME_TAG.to_owned(), request.name.to_owned()),
            (
                meta::kubernetes_cluster_tag(request.cluster_tag),
                meta::OWNED_TAG_VALUE.to_owned(),
            ),
        ]);
        let parts = data.parts().map(|(name, content)| StoredSecret {
            backend: request.backend,
            name,
            content: content.to_vec(),
            tags: tags.clone(),
        });
        Self {
            parts: parts.collect(),
            user_data: data.user_data(),
            record: BootstrapSecrets {
                backend: request.backend,
                prefix,
                count: i32::try_from(data.count()).unwrap_or(i32::MAX),
                region: Some(request.region.to_owned()),
                identity_ref: Some(request.identity_ref.clone()),
            },
        }
    }
}

/// The record of the secrets that a machine with this UID may have, where the status that recorded them was lost.
pub(crate) fn assumed(spec: &AWSMachineSpec, backend: SecretsBackend, uid: &str) -> BootstrapSecrets {
    BootstrapSecrets {
        backend,
        prefix: prefix(spec, backend, uid),
        count: assumed_count(backend),
        region: None,
        identity_ref: None,
    }
}

/// The prefix of the names of a machine's secrets. It ends with the UID, so that no machine can name the secrets of
/// another one, and begins as the policies of CAPA allow.
fn prefix(spec: &AWSMachineSpec, backend: SecretsBackend, uid: &str) -> String {
    let of_spec = spec
        .cloud_init
        .as_ref()
        .and_then(|options| options.secret_prefix.as_deref());
    let Some(first) = of_spec.filter(|prefix| !prefix.is_empty()) else {
        return boot_hook::prefix(backend, uid);
    };
    match backend {
        SecretsBackend::SecretsManager => format!("{first}/{uid}"),
        // The names of parameters with a path begin with a slash.
        SecretsBackend::SsmParameterStore => format!("/{}/{uid}", first.trim_start_matches('/')),
    }
}

/// The names of the recorded secrets.
pub(crate) fn names(record: &BootstrapSecrets) -> Vec<String> {
    let count = usize::try_from(record.count).unwrap_or_default();
    boot_hook::names(record.backend, &record.prefix, count)
}

/// The service in words.
pub(crate) const fn service(backend: SecretsBackend) -> &'static str {
    match backend {
        SecretsBackend::SecretsManager => "Secrets Manager",
        SecretsBackend::SsmParameterStore => "Parameter Store",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn stored(fields: &str, backend: SecretsBackend, data: &[u8]) -> LaunchSecrets {
        LaunchSecrets::new(&StorageRequest {
            spec: &read(&format!("{{instanceType: t3.large{fields}}}")),
            backend,
            uid: "uid-m",
            name: "m",
            region: "eu-west-1",
            identity_ref: &IdentityReference::controller_default(),
            cluster_tag: "dev",
            data,
        })
    }

    #[test]
    fn names_contain_the_uid_whatever_prefix_the_spec_has() {
        for (fields, backend, expected) in [
            ("", SecretsBackend::SecretsManager, "aws.cluster.x-k8s.io/uid-m-0"),
            ("", SecretsBackend::SsmParameterStore, "/cluster.x-k8s.io/uid-m/0"),
            (
                ", cloudInit: {secretPrefix: team-a, secretCount: 1}",
                SecretsBackend::SecretsManager,
                "team-a/uid-m-0",
            ),
            (
                ", cloudInit: {secretPrefix: /team-a, secretCount: 1}",
                SecretsBackend::SsmParameterStore,
                "/team-a/uid-m/0",
            ),
        ] {
            let stored = stored(fields, backend, b"#cloud-config");
            assert_eq!(stored.parts[0].name, expected);
            assert_eq!(names(&stored.record), [expected]);
        }
    }

    #[test]
    fn equal_data_has_equal_secrets_and_user_data_without_it() {
        let (one, two) = (
            stored("", SecretsBackend::SecretsManager, b"#cloud-config join-token"),
            stored("", SecretsBackend::SecretsManager, b"#cloud-config join-token"),
        );
        assert_eq!(one.parts, two.parts);
        assert_eq!(one.user_data, two.user_data);
        let shown = String::from_utf8_lossy(one.user_data.expose()).into_owned();
        assert!(!shown.contains("join-token"), "{shown}");
        let other = stored("", SecretsBackend::SecretsManager, b"#cloud-config other");
        assert_ne!(one.user_data, other.user_data);
    }

    #[test]
    fn secrets_are_tagged_as_the_clusters() {
        let stored = stored("", SecretsBackend::SecretsManager, b"#cloud-config");
        let tags: Vec<_> = stored.parts[0].tags.iter().collect();
        assert_eq!(
            tags,
            [
                (&"Name".to_owned(), &"m".to_owned()),
                (&"kubernetes.io/cluster/dev".to_owned(), &"owned".to_owned())
            ]
        );
    }
}
