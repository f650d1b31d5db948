//! The sources of credentials.

use capa_cloud::{ClusterClouds, ClusterKey, CredentialSource, ErrorClass, Query, ResolvedIdentity};

use super::fake::{Call, Fake, REGION, answer, role, session, sts_error};

fn identity(source: CredentialSource) -> ResolvedIdentity {
    ResolvedIdentity { key: "role".to_owned(), source, cluster: ClusterKey::default(), is_for_one_cluster: false }
}

fn serve(call: &Call) -> super::fake::Answer {
    match call.action.as_str() {
        "AssumeRole" => session(call),
        _ => answer(&call.action, "", None),
    }
}

#[tokio::test]
async fn a_role_is_assumed_with_its_parameters_and_its_session_signs() {
    let fake = Fake::start(serve).await;
    let source = role("arn:aws:iam::1:role/One", CredentialSource::Controller);
    let cluster = fake.pool().await.cluster(&identity(source), REGION);
    cluster.vpcs(&Query::default()).await.unwrap();
    cluster.vpcs(&Query::default()).await.unwrap();
    let assumed = fake.calls_of("AssumeRole");
    assert_eq!(assumed.len(), 1);
    assert_eq!(assumed[0].access_key(), "AKIACONTROLLER");
    let expected = [
        ("RoleArn", "arn:aws:iam::1:role/One"),
        ("RoleSessionName", "capa-rs-default-test"),
        ("ExternalId", "external-secret"),
        ("DurationSeconds", "900"),
        ("Policy", "{\"Statement\":[]}"),
        ("PolicyArns.member.1.arn", "arn:aws:iam::aws:policy/One"),
        ("PolicyArns.member.2.arn", "arn:aws:iam::aws:policy/Two"),
    ];
    for (name, value) in expected {
        assert_eq!(assumed[0].field(name), value, "{name}");
    }
    let described = fake.calls_of("DescribeVpcs");
    assert_eq!(described[0].access_key(), "ASIAOne");
    assert_eq!(described[0].header("x-amz-security-token"), "token-of-One");
}

#[tokio::test]
async fn a_chain_assumes_each_role_with_the_one_before() {
    let fake = Fake::start(serve).await;
    let first = role("arn:aws:iam::1:role/One", CredentialSource::Controller);
    let second = role("arn:aws:iam::2:role/Two", first);
    let cluster = fake.pool().await.cluster(&identity(second), REGION);
    cluster.vpcs(&Query::default()).await.unwrap();
    let signed: Vec<_> = fake.calls().iter().map(|call| (call.action.clone(), call.access_key().to_owned())).collect();
    let expected = [("AssumeRole", "AKIACONTROLLER"), ("AssumeRole", "ASIAOne"), ("DescribeVpcs", "ASIATwo")];
    assert_eq!(signed, expected.map(|(action, key)| (action.to_owned(), key.to_owned())));
}

#[tokio::test]
async fn a_role_that_sts_refuses_is_unauthorized_without_its_caller() {
    let fake = Fake::start(|_| {
        sts_error(
            403,
            "AccessDenied",
            "User: arn:aws:sts::1:assumed-role/capa-manager/i-0 is not authorized to perform: sts:AssumeRole",
        )
    })
    .await;
    let source = role("arn:aws:iam::1:role/One", CredentialSource::Controller);
    let cluster = fake.pool().await.cluster(&identity(source), REGION);
    let error = cluster.vpcs(&Query::default()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthorized);
    assert_eq!(error.code.as_deref(), Some("AccessDenied"));
    let said = error.to_string();
    assert!(said.starts_with("AssumeRole: AccessDenied: ") && !said.contains("arn:"), "{said}");
    assert_eq!(cluster.vpcs(&Query::default()).await.unwrap_err(), error);
    assert!(fake.calls_of("DescribeVpcs").is_empty());
}

#[tokio::test]
async fn an_sts_that_cannot_be_reached_is_no_answer() {
    let fake = Fake::start(serve).await;
    let source = role("arn:aws:iam::1:role/One", CredentialSource::Controller);
    let cluster = fake.pool_without_sts().await.cluster(&identity(source), REGION);
    let error = cluster.vpcs(&Query::default()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::NoAnswer, "{error}");
    assert_eq!(error.operation, "AssumeRole");
}

#[tokio::test]
async fn the_account_of_a_refused_role_is_asked_for_rarely() {
    let fake = Fake::start(|_| sts_error(403, "AccessDenied", "no")).await;
    let source = role("arn:aws:iam::1:role/One", CredentialSource::Controller);
    let cluster = fake.pool().await.cluster(&identity(source), REGION);
    let asked = (0..10).map(|_| cluster.account_id());
    for answer in futures::future::join_all(asked).await {
        assert_eq!(answer.unwrap_err().class, ErrorClass::Unauthorized);
    }
    assert!(fake.calls_of("AssumeRole").len() < 10);
}
