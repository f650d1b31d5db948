//! Bootstrap data for Ignition that the cluster's S3 bucket keeps until the instance has fetched it. Pure.

use std::time::Duration;

use capa_api::common::MachineRole;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::forms::{is_bucket_name, is_key_prefix};
use capa_api::machine::BootstrapObject;
use capa_api::network::NetworkBootstrapBucket;
use capa_api::{go_duration, meta};
use capa_cloud::{SecretStore, StoredSecret, UserData};

use super::ignition;
use super::presigning::Presigning;
use super::storage::{LaunchSecrets, StorageRequest};
use super::stored_bootstrap_data::StoredBootstrapData;

/// The longest validity of a presigned URL
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html>).
const MAX_VALIDITY: Duration = Duration::from_hours(7 * 24);

/// The object of a launch, and the user data that refers to it. With presigned URLs, the user data is replaced before
/// each attempt, because each attempt has another URL.
pub(crate) fn in_bucket(
    request: &StorageRequest<'_>,
    role: MachineRole,
    bucket: &NetworkBootstrapBucket,
) -> Result<LaunchSecrets, ConditionUpdate> {
    validate(bucket)?;
    let ignition = request.spec.ignition.clone().unwrap_or_default();
    let key = key(bucket, role, request.uid);
    let source = format!("s3://{}/{key}", bucket.bucket);
    let user_data = UserData::new(ignition::referring_to(&ignition, &source, request.data));
    check_size(&user_data)?;
    let presigning = valid_for(bucket)?.map(|valid_for| Presigning {
        bucket: bucket.bucket.clone(),
        key: key.clone(),
        valid_for,
        ignition,
        data: UserData::new(request.data.to_vec()),
    });
    let part = StoredSecret {
        store: SecretStore::Bucket(bucket.bucket.clone()),
        name: key.clone(),
        content: request.data.to_vec(),
        tags: request.tags(),
    };
    Ok(LaunchSecrets {
        record: StoredBootstrapData::Object(BootstrapObject {
            bucket: bucket.bucket.clone(),
            key,
            presigned_at: None,
            best_effort_delete: bucket.best_effort_delete_objects,
            region: Some(request.region.to_owned()),
            account_id: Some(request.account_id.to_owned()),
            identity_ref: Some(request.identity_ref.clone()),
        }),
        parts: vec![part],
        user_data,
        presigning,
    })
}

/// Refuses user data that refers to an object and is larger than EC2 accepts.
pub(crate) fn check_size(user_data: &UserData) -> Result<(), ConditionUpdate> {
    let (bytes, most) = (user_data.expose().len(), UserData::MAX_BYTES);
    if bytes <= most {
        return Ok(());
    }
    let message = format!(
        "the user data has {bytes} bytes, and EC2 accepts {most}: name the authorities of spec.ignition.tls by URL in \
         a new AWSMachineTemplate"
    );
    Err(ConditionType::BootstrapDataReady.is_false(Reason::TooLarge, message))
}

/// The condition of a machine whose network names no bucket.
pub(crate) fn no_bucket() -> ConditionUpdate {
    let message = "the bootstrap data is for Ignition, and the network names no S3 bucket that keeps it: set \
                   spec.s3Bucket of the AWSCluster, let another infrastructure object publish bootstrapStorage.s3, or \
                   set spec.template.spec.ignition.storageType: UnencryptedUserData in a new AWSMachineTemplate";
    ConditionType::BootstrapDataReady.is_false(Reason::StorageNotSupported, message)
}

/// The record of the object that a machine with this UID may have if the status that recorded it was lost.
pub(crate) fn assumed(bucket: &NetworkBootstrapBucket, role: MachineRole, uid: &str) -> BootstrapObject {
    BootstrapObject {
        bucket: bucket.bucket.clone(),
        key: key(bucket, role, uid),
        presigned_at: None,
        best_effort_delete: bucket.best_effort_delete_objects,
        region: None,
        account_id: None,
        identity_ref: None,
    }
}

/// The key of a machine's object. It ends with the UID, so that no machine can name the object of another one. The role
/// precedes the UID, because CAPA's bucket policies depend on the role.
fn key(bucket: &NetworkBootstrapBucket, role: MachineRole, uid: &str) -> String {
    let role = meta::role_tag_value(role);
    match bucket.effective_prefix() {
        "" => format!("{role}/{uid}"),
        prefix => format!("{prefix}/{role}/{uid}"),
    }
}

/// Refuses a bucket and a prefix that have another meaning in a URL.
fn validate(bucket: &NetworkBootstrapBucket) -> Result<(), ConditionUpdate> {
    let (name, prefix) = (&bucket.bucket, bucket.effective_prefix());
    let message = if !is_bucket_name(name) {
        format!("bootstrapStorage.s3.bucket of the network is {name:?}, which no bucket is named: correct it")
    } else if !prefix.is_empty() && !is_key_prefix(prefix) {
        format!(
            "bootstrapStorage.s3.prefix of the network is {prefix:?}: use letters, digits and !_.'()*- between single \
             slashes"
        )
    } else {
        return Ok(());
    };
    Err(ConditionType::BootstrapDataReady.is_false(Reason::InvalidSpec, message))
}

/// How long presigned URLs are valid, in whole seconds; `None` without them.
fn valid_for(bucket: &NetworkBootstrapBucket) -> Result<Option<Duration>, ConditionUpdate> {
    let Some(text) = &bucket.presigned_url_duration else {
        return Ok(None);
    };
    let seconds = go_duration::parse(text).map_or(0, |duration| duration.as_secs());
    let valid_for = Duration::from_secs(seconds);
    if seconds == 0 || valid_for > MAX_VALIDITY {
        let message = format!(
            "presignedURLDuration of the S3 bucket {} is {text:?}: set a duration from 1s to 168h, for example 30m",
            bucket.bucket
        );
        return Err(ConditionType::BootstrapDataReady.is_false(Reason::InvalidSpec, message));
    }
    Ok(Some(valid_for))
}

#[cfg(test)]
mod tests {
    use capa_api::common::IdentityReference;

    use super::*;
    use crate::testing::read;

    const DATA: &[u8] = br#"{"ignition": {"version": "2.3.0"}, "storage": "join-token"}"#;

    fn stored(spec: &str, bucket: &str) -> Result<LaunchSecrets, ConditionUpdate> {
        let request = StorageRequest {
            spec: &read(&format!("{{instanceType: t3.large{spec}}}")),
            uid: "uid-m",
            name: "m",
            region: "eu-west-1",
            account_id: "111122223333",
            identity_ref: &IdentityReference::controller_default(),
            cluster_tag: "dev",
            data: DATA,
        };
        in_bucket(&request, MachineRole::ControlPlane, &read(bucket))
    }

    #[test]
    fn keys_have_the_role_and_end_with_the_uid() {
        for (bucket, expected) in [
            ("{bucket: boot}", "control-plane/uid-m"),
            ("{bucket: boot, prefix: ''}", "control-plane/uid-m"),
            ("{bucket: boot, prefix: /a/b/}", "a/b/control-plane/uid-m"),
        ] {
            let stored = stored("", bucket).unwrap();
            assert_eq!(stored.parts[0].name, expected);
            assert_eq!(stored.record.names(), [expected]);
            let user_data = String::from_utf8(stored.user_data.expose().to_vec()).unwrap();
            assert!(user_data.contains(&format!("\"s3://boot/{expected}\"")), "{user_data}");
            assert!(!user_data.contains("join-token"), "{user_data}");
        }
        let bucket = read("{bucket: boot}");
        assert_eq!(key(&bucket, MachineRole::Worker, "uid-m"), "node/uid-m");
    }

    #[test]
    fn what_cannot_be_part_of_a_url_is_refused() {
        for (bucket, reason) in [
            ("{bucket: 'bo?ot'}", Reason::InvalidSpec),
            ("{bucket: boot, prefix: 'a b'}", Reason::InvalidSpec),
            ("{bucket: boot, presignedURLDuration: soon}", Reason::InvalidSpec),
            ("{bucket: boot, presignedURLDuration: 500ms}", Reason::InvalidSpec),
            ("{bucket: boot, presignedURLDuration: 169h}", Reason::InvalidSpec),
        ] {
            let refused = stored("", bucket).map(|stored| stored.record).unwrap_err();
            assert_eq!(refused.reason, reason, "{bucket}");
        }
        let authority = format!("data:,{}", "x".repeat(UserData::MAX_BYTES));
        let spec = format!(", ignition: {{version: '3.1', tls: {{certificateAuthorities: ['{authority}']}}}}");
        let refused = stored(&spec, "{bucket: boot}").map(|stored| stored.record);
        assert_eq!(refused.unwrap_err().reason, Reason::TooLarge);
    }

    #[test]
    fn user_data_has_no_url_before_it_is_signed() {
        let plain = stored("", "{bucket: boot}").unwrap();
        let presigned = stored("", "{bucket: boot, presignedURLDuration: 1h}").unwrap();
        assert!(plain.presigning.is_none() && presigned.presigning.is_some());
        assert_eq!(plain.user_data, presigned.user_data);
    }
}
