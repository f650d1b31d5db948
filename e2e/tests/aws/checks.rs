//! The facts of checks that services without the Query protocol give, as moto serves them.

use capa_aws::{AccessKey, Options, SessionPool};

use capa_cloud::{Answers, ClusterKey, CredentialSource, ResolvedIdentity};
use capa_e2e::aws_proxy::Account;
use capa_preflight::facts::{Answer, Bucket, Demand, Facts, KeyState, KeyUsage, MachineDemand};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::{REGION, account};

/// Sends a request of the user, and returns its answer.
async fn send(account: &Account, service: &str, request: http::request::Builder, body: &str) -> (u16, String) {
    let key = &account.user_key().access_key_id;
    let credential = format!("{key}/20260101/{REGION}/{service}/aws4_request");
    let authorization = format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0");
    let request = request.header("authorization", authorization);
    let client = Client::builder(TokioExecutor::new()).build_http();
    let body = Full::<Bytes>::from(body.to_owned());
    let answer = client.request(request.body(body).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// Changes a bucket as its owner.
async fn put(account: &Account, path: &str, body: &str) {
    let request = http::Request::put(format!("{}{path}", account.url()));
    let (status, answer) = send(account, "s3", request, body).await;
    assert!(status < 300, "{path}: {status} {answer}");
}

/// The facts about machines with an encryption key, in a network with a bucket.
async fn facts(account: &Account, bucket: &str, key: &str) -> Facts {
    let url = account.url();
    let options = Options {
        service_endpoints: format!(
            "{REGION}:ec2={url},elasticloadbalancing={url},sts={url},iam={url},kms={url},s3={url},servicequotas={url}"
        )
        .parse()
        .unwrap(),
        controller_key: Some(AccessKey {
            id: account.key().access_key_id.clone(),
            secret: account.key().secret_access_key.clone().into(),
        }),
        ..Options::default()
    };
    let identity = ResolvedIdentity {
        key: "controller".to_owned(),
        source: CredentialSource::Controller,
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    };
    let volume = json!({"size": 20, "encryptionKey": key});
    let spec = json!({"instanceType": "m5.large", "rootVolume": volume});
    let demand = Demand {
        region: REGION.to_owned(),
        network: serde_json::from_value(json!({"bootstrapStorage": {"s3": {"bucket": bucket}}})).unwrap(),
        machines: vec![MachineDemand { spec: serde_json::from_value(spec).unwrap(), ..MachineDemand::default() }],
        ..Demand::default()
    };
    let pool = SessionPool::new(options, &mut Registry::default()).await;
    pool.facts(&identity, REGION).facts(&demand, &Answers::default()).await
}

fn found(name: &str, is_public: bool) -> Answer<Option<Bucket>> {
    Answer::Found(Some(Bucket { name: name.to_owned(), region: REGION.to_owned(), is_public }))
}

#[tokio::test]
async fn a_bucket_is_public_once_its_policy_says_so() {
    let account = account().await;
    // Buckets of all accounts share their names.
    let bucket = format!("bootstrap-{}", account.id());
    let none = facts(&account, &bucket, "alias/none").await;
    assert_eq!(none.buckets[&bucket], Answer::Found(None));
    let location = format!(
        "<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"
    );
    put(&account, &format!("/{bucket}"), &location).await;
    assert_eq!(facts(&account, &bucket, "alias/none").await.buckets[&bucket], found(&bucket, false));
    let policy = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
        "Action": "s3:GetObject", "Resource": format!("arn:aws:s3:::{bucket}/*")}]});
    put(&account, &format!("/{bucket}?policy"), &policy.to_string()).await;
    assert_eq!(facts(&account, &bucket, "alias/none").await.buckets[&bucket], found(&bucket, true));
    let checks = account.checks_journal();
    assert!(!checks.of("GetBucketPolicyStatus").is_empty());
    let writes = checks.mutating();
    assert!(writes.matching(|call| call.action != "RunInstances").is_empty(), "{writes}");
    let by_user = account.journal().except(&account.key().access_key_id).mutating();
    assert_eq!(by_user.counts().into_keys().collect::<Vec<_>>(), ["PutBucket", "PutBucketPolicy"]);
}

#[tokio::test]
async fn a_key_shows_its_state_and_its_usage() {
    let account = account().await;
    let target = |action: &str| {
        http::Request::post(account.url())
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", format!("TrentService.{action}"))
    };
    // moto knows no default usage.
    let usage = json!({"KeyUsage": "ENCRYPT_DECRYPT"}).to_string();
    let (status, created) = send(&account, "kms", target("CreateKey"), &usage).await;
    assert_eq!(status, 200, "{created}");
    let created: serde_json::Value = serde_json::from_str(&created).unwrap();
    let id = created["KeyMetadata"]["KeyId"].as_str().unwrap();
    let state = async || {
        let facts = facts(&account, "none", id).await;
        let key = facts.encryption_keys[id].found().unwrap().clone().unwrap();
        assert_eq!(key.usage, KeyUsage::EncryptDecrypt);
        assert_eq!(key.arn.split(':').nth(3), Some(REGION));
        key.state
    };
    assert_eq!(state().await, KeyState::Enabled);
    let key = json!({"KeyId": id}).to_string();
    assert_eq!(send(&account, "kms", target("DisableKey"), &key).await.0, 200);
    assert_eq!(state().await, "Disabled".into());
}
