//! Bootstrap data in Secrets Manager, Parameter Store and S3.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capa_api::machine::SecretsBackend;
use capa_cloud::{
    BootstrapStorage, CloudError, ClusterKey, CredentialSource, ErrorClass, MachineClouds, PresignRequest, Query,
    ResolvedIdentity, SecretStore, StoredSecret,
};
use serde_json::json;

use super::fake::{
    Answer, CLUSTER, Call, Fake, REGION, answer, at_its_turn, caller_identity, identity, machine, role, session,
};

pub(super) fn secret(store: impl Into<SecretStore>) -> StoredSecret {
    StoredSecret {
        store: store.into(),
        name: "aws.cluster.x-k8s.io/uid-0".to_owned(),
        content: b"am9pbg==".to_vec(),
        tags: BTreeMap::from([("kubernetes.io/cluster/dev".to_owned(), "owned".to_owned())]),
    }
}

/// The stores.
pub(super) fn stores() -> [SecretStore; 3] {
    [
        SecretsBackend::SecretsManager.into(),
        SecretsBackend::SsmParameterStore.into(),
        SecretStore::Bucket("boot.strap".to_owned()),
    ]
}

fn refused(code: &str) -> Answer {
    (400, json!({"__type": code, "message": "no"}).to_string())
}

async fn store(machines: &dyn BootstrapStorage, store: impl Into<SecretStore>) -> Result<(), CloudError> {
    let secret = secret(store);
    at_its_turn(async || machines.store_secret(&machine("m"), &secret).await).await
}

#[tokio::test]
async fn a_secret_is_created_with_its_tags_and_deleted_for_good() {
    let fake = Fake::start(|_| (200, "{}".to_owned())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    store(machines.as_ref(), SecretsBackend::SecretsManager).await.unwrap();
    let name = secret(SecretsBackend::SecretsManager).name;
    let names = [name.clone(), "aws.cluster.x-k8s.io/uid-1".to_owned()];
    let key = machine("m");
    let store = SecretsBackend::SecretsManager.into();
    machines.delete_secrets(&key, &store, &names).await.unwrap();
    let created = fake.calls_of("CreateSecret").remove(0);
    assert_eq!(created.field("Name"), name);
    assert_eq!(created.field("SecretBinary"), "YW05cGJnPT0=", "the content in base64");
    assert!(created.field("Tags").contains("kubernetes.io/cluster/dev"));
    assert_ne!(created.field("ClientRequestToken"), "", "a repeated call is the same call");
    let deleted = fake.calls_of("DeleteSecret");
    assert_eq!(deleted.len(), 2);
    assert_eq!(deleted[1].field("SecretId"), names[1]);
    assert_eq!(deleted[0].field("ForceDeleteWithoutRecovery"), "true");
}

#[tokio::test]
async fn a_parameter_is_encrypted_and_parameters_are_deleted_together() {
    let fake = Fake::start(|_| (200, "{}".to_owned())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    store(machines.as_ref(), SecretsBackend::SsmParameterStore).await.unwrap();
    let names: Vec<String> = (0..12).map(|number| format!("/cluster.x-k8s.io/uid/{number}")).collect();
    let key = machine("m");
    let store = SecretsBackend::SsmParameterStore.into();
    machines.delete_secrets(&key, &store, &names).await.unwrap();
    let created = fake.calls_of("PutParameter").remove(0);
    assert_eq!(created.field("Type"), "SecureString");
    assert_eq!(created.field("Value"), "am9pbg==");
    assert!(created.field("Tags").contains("kubernetes.io/cluster/dev"));
    assert_eq!(fake.calls_of("DeleteParameters").len(), 2, "ten names a call");
}

#[tokio::test]
async fn the_content_of_a_name_that_is_taken_is_replaced() {
    let fake = Fake::start(|call| match (call.action.as_str(), call.field("Overwrite")) {
        ("CreateSecret", _) => refused("ResourceExistsException"),
        ("PutParameter", "") => refused("ParameterAlreadyExists"),
        _ => (200, "{}".to_owned()),
    })
    .await;
    // The second call of Parameter Store in a second has to wait for its turn.
    let machines = fake.pool_in_real_time().await.0.machines(&identity("A"), REGION, CLUSTER);
    for backend in [SecretsBackend::SecretsManager, SecretsBackend::SsmParameterStore] {
        store(machines.as_ref(), backend).await.unwrap();
    }
    let replaced = fake.calls_of("PutSecretValue").remove(0);
    assert_eq!(replaced.field("SecretId"), secret(SecretsBackend::SecretsManager).name);
    let calls = fake.calls_of("PutParameter");
    let overwrites: Vec<&str> = calls.iter().map(|call| call.field("Overwrite")).collect();
    assert_eq!(overwrites, ["", "true"], "the turn of the replacement is not spent on creating the name again");
    let replaced = calls.last().unwrap();
    assert_eq!(replaced.field("Tags"), "", "none in a call that overwrites");
}

#[tokio::test]
async fn a_refusal_has_its_class_and_shows_no_content() {
    for (code, class) in [
        ("AccessDeniedException", ErrorClass::Unauthorized),
        ("LimitExceededException", ErrorClass::QuotaExceeded),
        ("InvalidRequestException", ErrorClass::NoAnswer),
    ] {
        let fake = Fake::start(move |_| refused(code)).await;
        let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
        let error = store(machines.as_ref(), SecretsBackend::SecretsManager).await.unwrap_err();
        assert_eq!(error.class, class, "{code}");
        assert!(!error.to_string().contains("am9pbg"), "{error}");
    }
}

#[tokio::test]
async fn an_object_is_put_and_deleted_by_its_key() {
    let fake = Fake::start(|_| (200, String::new())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let bucket = SecretStore::Bucket("boot.strap".to_owned());
    store(machines.as_ref(), bucket.clone()).await.unwrap();
    let key = secret(bucket.clone()).name;
    let names = [key.clone()];
    machines.delete_secrets(&machine("m"), &bucket, &names).await.unwrap();
    let path = format!("/boot.strap/{key}");
    let put = fake.calls_of("PutObject").remove(0);
    assert_eq!((put.service(), put.path.as_str()), ("s3", path.as_str()));
    assert_eq!(put.field("Body"), "am9pbg==", "nothing around the content");
    assert_eq!(put.header("content-type"), "application/json");
    let no_headers = ["x-amz-tagging", "x-amz-acl", "x-amz-server-side-encryption"];
    for header in no_headers {
        assert_eq!(put.header(header), "", "{header} needs a permission, or overrides the bucket");
    }
    let deleted = fake.calls_of("DeleteObject").remove(0);
    assert_eq!((deleted.service(), deleted.path.as_str()), ("s3", path.as_str()));
}

#[tokio::test]
async fn what_is_in_a_bucket_that_is_gone_counts_as_deleted() {
    let refused = |code: &'static str| {
        move |_: &super::fake::Call| (404, format!("<Error><Code>{code}</Code><Message>no</Message></Error>"))
    };
    let bucket = SecretStore::Bucket("boot.strap".to_owned());
    let names = ["node/uid".to_owned()];
    let gone = Fake::start(refused("NoSuchBucket")).await;
    let machines = gone.pool().await.machines(&identity("A"), REGION, CLUSTER);
    machines.delete_secrets(&machine("m"), &bucket, &names).await.unwrap();
    let denied = Fake::start(refused("AccessDenied")).await;
    let machines = denied.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let error = machines.delete_secrets(&machine("m"), &bucket, &names).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthorized);
    assert_eq!(error.code.as_deref(), Some("AccessDenied"));
}

fn presign_request(second: i64) -> PresignRequest {
    PresignRequest {
        bucket: "boot.strap".to_owned(),
        key: "clusters/dev/node/uid".to_owned(),
        valid_from: jiff::Timestamp::from_second(second).unwrap(),
        valid_for: Duration::from_secs(1_800),
    }
}

/// A session that ends in a minute.
fn ending_session(call: &Call) -> Answer {
    let (status, body) = session(call);
    let soon = jiff::Timestamp::now() + Duration::from_mins(1);
    (status, body.replace("2100-01-01T00:00:00Z", &soon.to_string()).replace("ASIA", "ASIAENDS"))
}

#[tokio::test]
async fn a_session_that_ends_soon_signs_no_url() {
    let was_assumed = Arc::new(AtomicBool::new(false));
    let fake = Fake::start(move |call| match call.action.as_str() {
        "AssumeRole" if was_assumed.swap(true, Ordering::SeqCst) => session(call),
        "AssumeRole" => ending_session(call),
        "GetCallerIdentity" => caller_identity(),
        action => answer(action, "", None),
    })
    .await;
    let identity = ResolvedIdentity {
        key: "role".to_owned(),
        source: role("arn:aws:iam::1:role/One", CredentialSource::Controller),
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    };
    let machines = fake.pool().await.machines(&identity, REGION, CLUSTER);
    let now = jiff::Timestamp::now().as_second();
    for signer in ["ASIAENDSOne", "ASIAOne", "ASIAOne"] {
        let url = machines.presign(&presign_request(now)).await.unwrap();
        assert!(url.expose().contains(&format!("X-Amz-Credential={signer}")), "{}", url.expose());
    }
    assert_eq!(fake.calls_of("AssumeRole").len(), 2);
    // The sessions of URLs are none of the sessions of calls.
    machines.subnets(&Query::default()).await.unwrap();
    machines.presign(&presign_request(now)).await.unwrap();
    assert_eq!(machines.account_id().await.unwrap(), "123456789012");
    assert_eq!(fake.calls_of("AssumeRole").len(), 3);
}

#[tokio::test]
async fn equal_presign_requests_have_equal_urls_and_make_no_call() {
    let fake = Fake::start(|_| (200, String::new())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let request = presign_request;
    let signed = async |second: i64| machines.presign(&request(second)).await.unwrap();
    let url = signed(1_767_225_600).await;
    assert_eq!(url, signed(1_767_225_600).await);
    assert_ne!(url, signed(1_767_225_601).await);
    let (place, query) = url.expose().split_once('?').unwrap();
    assert!(place.ends_with("/boot.strap/clusters/dev/node/uid"), "{place}");
    for part in ["X-Amz-Date=20260101T000000Z", "X-Amz-Expires=1800", "X-Amz-SignedHeaders=host&", "X-Amz-Signature="] {
        assert!(query.contains(part), "{part}: {query}");
    }
    assert_eq!(fake.calls().len(), 0);
    let week = PresignRequest { valid_for: Duration::from_hours(7 * 24), ..request(1_767_225_600) };
    machines.presign(&week).await.unwrap();
}
