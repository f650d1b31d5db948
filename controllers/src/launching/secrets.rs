//! Bootstrap data that an AWS service for secrets keeps until the instance has fetched it. Pure.

use capa_api::machine::{AWSMachineSpec, BootstrapSecrets, SecretsBackend};
use capa_cloud::StoredSecret;

use super::boot_hook::{self, StoredData};
use super::storage::{LaunchSecrets, StorageRequest};
use super::stored_bootstrap_data::StoredBootstrapData;

/// The number of secrets that a machine whose status was lost may have: enough for 120 KiB of compressed bootstrap data
/// in Secrets Manager, and for 30 KB in Parameter Store, where one call deletes all of them.
const fn assumed_count(backend: SecretsBackend) -> i32 {
    match backend {
        SecretsBackend::SecretsManager => 2,
        SecretsBackend::SsmParameterStore => 10,
    }
}

/// The secrets of a launch, and the user data that fetches them.
pub(crate) fn in_service(request: &StorageRequest<'_>, backend: SecretsBackend) -> LaunchSecrets {
    let prefix = prefix(request.spec, backend, request.uid);
    let fewest = request.spec.effective_secret_count();
    let data = StoredData::new(request.data, backend, request.region, &prefix, fewest);
    let parts = data.parts().map(|(name, content)| StoredSecret {
        store: backend.into(),
        name,
        content: content.to_vec(),
        tags: request.tags(),
    });
    LaunchSecrets {
        parts: parts.collect(),
        user_data: data.user_data(),
        presigning: None,
        record: StoredBootstrapData::Secrets(BootstrapSecrets {
            backend,
            prefix,
            count: i32::try_from(data.count()).unwrap_or(i32::MAX),
            region: Some(request.region.to_owned()),
            account_id: Some(request.account_id.to_owned()),
            identity_ref: Some(request.identity_ref.clone()),
        }),
    }
}

/// The record of the secrets that a machine with this UID may have if the status that recorded them was lost.
pub(crate) fn assumed(spec: &AWSMachineSpec, backend: SecretsBackend, uid: &str) -> BootstrapSecrets {
    let fewest = i32::try_from(spec.effective_secret_count()).unwrap_or(i32::MAX);
    BootstrapSecrets {
        backend,
        prefix: prefix(spec, backend, uid),
        count: assumed_count(backend).max(fewest),
        region: None,
        account_id: None,
        identity_ref: None,
    }
}

/// The prefix of the names of a machine's secrets. It ends with the UID, so that no machine can name the secrets of
/// another one, and starts with a prefix that CAPA's policies allow.
fn prefix(spec: &AWSMachineSpec, backend: SecretsBackend, uid: &str) -> String {
    let of_spec = spec.cloud_init.as_ref().and_then(|options| options.secret_prefix.as_deref());
    let Some(first) = of_spec.filter(|prefix| !prefix.is_empty()) else {
        return boot_hook::prefix(backend, uid);
    };
    match backend {
        SecretsBackend::SecretsManager => format!("{first}/{uid}"),
        // The names of parameters with a path begin with a slash.
        SecretsBackend::SsmParameterStore => format!("/{}/{uid}", first.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use capa_api::common::IdentityReference;

    use super::*;
    use crate::testing::read;

    fn stored(fields: &str, backend: SecretsBackend, data: &[u8]) -> LaunchSecrets {
        let request = StorageRequest {
            spec: &read(&format!("{{instanceType: t3.large{fields}}}")),
            uid: "uid-m",
            name: "m",
            region: "eu-west-1",
            account_id: "111122223333",
            identity_ref: &IdentityReference::controller_default(),
            cluster_tag: "dev",
            data,
        };
        in_service(&request, backend)
    }

    #[test]
    fn names_contain_the_uid_whatever_prefix_the_spec_has() {
        for (fields, backend, expected) in [
            ("", SecretsBackend::SecretsManager, "aws.cluster.x-k8s.io/uid-m-0"),
            ("", SecretsBackend::SsmParameterStore, "/cluster.x-k8s.io/uid-m/0"),
            (", cloudInit: {secretPrefix: team-a, secretCount: 1}", SecretsBackend::SecretsManager, "team-a/uid-m-0"),
            (
                ", cloudInit: {secretPrefix: /team-a, secretCount: 1}",
                SecretsBackend::SsmParameterStore,
                "/team-a/uid-m/0",
            ),
        ] {
            let stored = stored(fields, backend, b"#cloud-config");
            assert_eq!(stored.parts[0].name, expected);
            assert_eq!(stored.record.names(), [expected]);
        }
    }

    #[test]
    fn the_spec_says_how_many_secrets_there_are_at_least() {
        let field = "cloudInit.secretCount";
        for (value, count) in [(1, 1), (4, 4), (10, 10), (1_000, 10), (-1, 1)] {
            let fields = format!(", cloudInit: {{secretPrefix: team-a, secretCount: {value}}}");
            for backend in [SecretsBackend::SecretsManager, SecretsBackend::SsmParameterStore] {
                let stored = stored(&fields, backend, b"#cloud-config");
                assert_eq!(stored.parts.len(), count, "{field}: {value}");
                assert_eq!(stored.record.names().len(), count, "{field}: {value}");
                let spec = read(&format!("{{instanceType: t3.large{fields}}}"));
                let assumed = StoredBootstrapData::Secrets(assumed(&spec, backend, "uid-m"));
                assert!(assumed.names().len() >= count, "{field}: {value}");
            }
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
            [(&"Name".to_owned(), &"m".to_owned()), (&"kubernetes.io/cluster/dev".to_owned(), &"owned".to_owned())]
        );
    }
}
