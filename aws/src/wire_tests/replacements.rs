//! Credentials of another account that replace those of the running process.

use std::sync::Arc;

use capa_cloud::{
    ClusterClouds, ClusterKey, CredentialSource, InstanceState, MachineClouds, Observation, Query, ResolvedIdentity,
};
use parking_lot::Mutex;

use super::fake::{Answer, CLUSTER, Call, Fake, REGION, answer, eventually, instances, machine, role};

/// The account of new sessions.
type Given = Arc<Mutex<&'static str>>;

/// A fake whose STS sessions have always expired, so that each call fetches new credentials, and whose EC2 has an
/// instance in account `1` only.
async fn fake(given: &Given) -> Fake {
    let given = given.clone();
    Fake::start(move |call| serve(call, *given.lock())).await
}

fn serve(call: &Call, given: &str) -> Answer {
    let account = call.access_key().trim_start_matches("ASIA").to_owned();
    match call.action.as_str() {
        "AssumeRole" => {
            let credentials = format!(
                "<Credentials><AccessKeyId>ASIA{given}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
                 <SessionToken>t</SessionToken><Expiration>2020-01-01T00:00:00Z</Expiration></Credentials>"
            );
            let result = format!("<AssumeRoleResult>{credentials}</AssumeRoleResult>");
            (200, format!("<AssumeRoleResponse>{result}</AssumeRoleResponse>"))
        }
        "GetCallerIdentity" => {
            let result = format!("<GetCallerIdentityResult><Account>{account}</Account></GetCallerIdentityResult>");
            (200, format!("<GetCallerIdentityResponse>{result}</GetCallerIdentityResponse>"))
        }
        "DescribeInstances" if account == "1" => instances(&[("i-1", InstanceState::Running)], None),
        "DescribeInstances" => instances(&[], None),
        _ => answer(&call.action, "", None),
    }
}

fn identity() -> ResolvedIdentity {
    ResolvedIdentity {
        key: "one".to_owned(),
        source: role("arn:aws:iam::1:role/One", CredentialSource::Controller),
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    }
}

#[tokio::test]
async fn an_account_id_does_not_outlive_its_credentials() {
    let given: Given = Arc::new(Mutex::new("1"));
    let fake = fake(&given).await;
    let machines = fake.pool().await.machines(&identity(), REGION, CLUSTER);
    for _ in 0..3 {
        machines.find_instances(&Query::default()).await.unwrap();
        assert_eq!(machines.account_id().await.unwrap(), "1");
    }
    assert_eq!(fake.calls_of("GetCallerIdentity").len(), 1);
    *given.lock() = "2";
    let lost = machines.find_instances(&Query::default()).await.unwrap_err();
    assert!(lost.retry_after.is_some(), "{lost}");
    for _ in 0..3 {
        assert_eq!(machines.account_id().await.unwrap(), "2");
    }
    assert_eq!(machines.find_instances(&Query::default()).await.unwrap(), []);
    assert_eq!(fake.calls_of("GetCallerIdentity").len(), 2);
}

#[tokio::test]
async fn credentials_replaced_by_the_account_call_are_asked_again() {
    let given: Given = Arc::new(Mutex::new("1"));
    let fake = fake(&given).await;
    let machines = fake.pool().await.machines(&identity(), REGION, CLUSTER);
    machines.find_instances(&Query::default()).await.unwrap();
    *given.lock() = "2";
    assert_eq!(machines.account_id().await.unwrap(), "2");
    assert_eq!(fake.calls_of("GetCallerIdentity").len(), 2);
}

#[tokio::test]
async fn an_instance_missed_in_another_account_is_not_absent_later() {
    let given: Given = Arc::new(Mutex::new("1"));
    let fake = fake(&given).await;
    let pool = fake.pool().await;
    let observation = || pool.machines(&identity(), REGION, CLUSTER).observe_instance(&machine("one"), "i-1");
    eventually("the instance is seen", || matches!(observation(), Observation::Seen(_))).await;
    *given.lock() = "2";
    eventually("it is missed", || observation() == Observation::Absent).await;
    assert_eq!(pool.machines(&identity(), REGION, CLUSTER).account_id().await.unwrap(), "2");
    *given.lock() = "1";
    // Any call fetches the new credentials.
    let cluster = pool.cluster(&identity(), REGION);
    cluster.vpcs(&Query::default()).await.unwrap();
    assert_eq!(pool.machines(&identity(), REGION, CLUSTER).account_id().await.unwrap(), "1");
    assert_ne!(observation(), Observation::Absent);
    eventually("it is seen again", || matches!(observation(), Observation::Seen(_))).await;
}
