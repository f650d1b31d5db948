//! Failed calls in the metrics. Each has AWS's error code, even if the SDK models the errors of the operation.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capa_cloud::targets::{Desired, RegistrationState};
use capa_cloud::{ClusterClouds, ClusterKey, CredentialSource, MachineClouds, ResolvedIdentity};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::checks;
use super::fake::{
    Answer, CLUSTER, Call, Fake, REGION, at_its_turn, caller_identity, eventually, identity, machine, role, session,
    sts_error,
};
use super::secrets::{secret, stores};
use super::targets::{classic, elb, instance, serve, target};
use crate::SessionPool;
use crate::iam_actions::{ACTIONS, Asked};

/// The services with their names in metrics, and the operations whose errors the SDK models.
const MODELLED: [(&str, &str); 16] = [
    ("sts", "AssumeRole"),
    ("sts", "GetCallerIdentity"),
    ("elbv2", "DescribeLoadBalancers"),
    ("elbv2", "DescribeListeners"),
    ("elbv2", "DescribeTargetGroups"),
    ("elbv2", "DescribeTags"),
    ("elbv2", "DescribeTargetHealth"),
    ("elbv2", "DescribeTargetGroupAttributes"),
    ("elbv2", "RegisterTargets"),
    ("elbv2", "DeregisterTargets"),
    ("elb", "DescribeLoadBalancers"),
    ("elb", "DescribeTags"),
    ("elb", "DescribeInstanceHealth"),
    ("elb", "DescribeLoadBalancerAttributes"),
    ("elb", "RegisterInstancesWithLoadBalancer"),
    ("elb", "DeregisterInstancesFromLoadBalancer"),
];

/// The same operations of the services that only checks call. Metrics use the names of the API, one of which differs
/// from the name of the permission.
const OF_CHECKS: [(&str, &str); 10] = [
    ("iam", "GetInstanceProfile"),
    ("iam", "GetRole"),
    ("iam", "ListAttachedRolePolicies"),
    ("iam", "ListRolePolicies"),
    ("kms", "DescribeKey"),
    ("s3", "GetBucketAcl"),
    ("s3", "GetBucketLocation"),
    ("s3", "GetBucketPolicyStatus"),
    ("s3", "GetPublicAccessBlock"),
    ("service-quotas", "GetServiceQuota"),
];

/// The same operations of the services that keep bootstrap data. One of these services has parameters that AWS
/// publishes.
const OF_SECRETS: [(&str, &str); 8] = [
    ("secrets-manager", "CreateSecret"),
    ("secrets-manager", "PutSecretValue"),
    ("secrets-manager", "DeleteSecret"),
    ("ssm", "PutParameter"),
    ("ssm", "DeleteParameters"),
    ("ssm", "GetParameter"),
    ("s3", "PutObject"),
    ("s3", "DeleteObject"),
];

/// The permission for an operation.
fn permission(operation: &'static str) -> &'static str {
    match operation {
        "GetPublicAccessBlock" => "GetBucketPublicAccessBlock",
        _ => operation,
    }
}

/// Whether an instance is registered: in the target group, and in the classic load balancer.
type Registered = [AtomicBool; 2];

fn answer([in_group, in_classic]: &Registered, call: &Call) -> Answer {
    let names_group = call.field("LoadBalancerName").is_empty();
    let registered = if names_group { in_group } else { in_classic };
    match call.action.as_str() {
        "AssumeRole" => session(call),
        "GetCallerIdentity" => caller_identity(),
        "DescribeLoadBalancers" => {
            let names = "<LoadBalancerName>api</LoadBalancerName><LoadBalancerArn>arn:lb</LoadBalancerArn>";
            elb(&call.action, &format!("<LoadBalancers><member>{names}</member></LoadBalancers>"))
        }
        "DescribeListeners" => elb(&call.action, ""),
        _ => serve(registered, call),
    }
}

/// Makes every call once, and repeats the refused calls until they are counted.
async fn is_counted_with_its_code(service: &str, operation: &'static str) {
    let registered = Arc::new(Registered::default());
    let fake = Fake::start(move |call| {
        if call.action == operation { sts_error(400, "AccessDenied", "no") } else { answer(&registered, call) }
    })
    .await;
    let (pool, registry) = fake.pool_and_metrics().await;
    look_up(&pool).await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let (targets, desired) = ([target(), classic()], Cell::new(Desired::Registered));
    eventually(operation, || {
        let states = machines.reconcile_targets(&machine("one"), &instance(), &targets, desired.get());
        if states.iter().all(RegistrationState::is_healthy) {
            desired.set(Desired::Deregistered);
        }
        let of_operation = format!("operation=\"{operation}\",status_code=\"400\"");
        let counted = requests(&registry).into_iter();
        let mut refused = counted.filter(|line| line.contains(&of_operation));
        refused.any(|line| line.contains(&format!("service=\"{service}\"")))
    })
    .await;
    // With sixteen concurrent sessions, one of them may wait too long for an answer.
    let answered = requests(&registry).into_iter();
    for line in answered.filter(|line| !line.contains("status_code=\"0\"")) {
        let code = if line.contains(&format!("operation=\"{operation}\"")) { "AccessDenied" } else { "" };
        assert!(line.contains(&format!("error_code=\"{code}\"")), "{line}");
    }
}

/// The calls of clusters, and of a role.
async fn look_up(pool: &SessionPool) {
    let cluster = pool.cluster(&identity("A"), REGION);
    let _ = at_its_turn(async || cluster.load_balancer("api").await).await;
    let _ = at_its_turn(async || cluster.classic_load_balancers(&["api".to_owned()]).await).await;
    let assumed = ResolvedIdentity {
        key: "role".to_owned(),
        source: role("arn:aws:iam::1:role/One", CredentialSource::Controller),
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    };
    let _ = pool.cluster(&assumed, REGION).account_id().await;
}

/// The samples of the calls.
pub(super) fn requests(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let samples = text.lines().filter(|line| line.starts_with("aws_api_requests_total{"));
    samples.map(str::to_owned).collect()
}

/// Gathers the facts of checks once, with one call refused.
async fn is_counted_of_checks(service: &str, operation: &'static str) {
    let fake = Fake::start(move |call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        action if action == permission(operation) => checks::refusal(call, 403, "AccessDenied"),
        action => checks::good(call).unwrap_or_else(|| super::fake::answer(action, "", None)),
    })
    .await;
    let (pool, registry) = fake.pool_and_metrics().await;
    pool.facts(&identity("A"), REGION).facts(&checks::demand()).await;
    let labels = format!("operation=\"{operation}\",status_code=\"403\",error_code=\"AccessDenied\"");
    let counted = requests(&registry).into_iter();
    let mut refused = counted.filter(|line| line.contains(&format!("service=\"{service}\"")));
    assert!(refused.any(|line| line.contains(&labels)), "{labels}: {:#?}", requests(&registry));
}

#[tokio::test]
async fn each_refusal_of_a_check_is_counted_with_its_code() {
    for (service, operation) in OF_CHECKS {
        is_counted_of_checks(service, operation).await;
    }
}

/// Stores and deletes secrets of both services once, and reads a parameter, with one call refused.
async fn is_counted_of_secrets(service: &str, operation: &'static str) {
    let refusal = |code: &str| (400, serde_json::json!({"__type": code, "message": "no"}).to_string());
    let of_s3 = "<Error><Code>LimitExceededException</Code><Message>no</Message></Error>";
    let fake = Fake::start(move |call| match call.action.as_str() {
        action if action == operation && call.service() == "s3" => (400, of_s3.to_owned()),
        action if action == operation => refusal("LimitExceededException"),
        "CreateSecret" => refusal("ResourceExistsException"),
        _ => (200, "{}".to_owned()),
    })
    .await;
    let (pool, registry) = fake.pool_and_metrics().await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let _ = machines.public_parameter("/aws/service/eks").await;
    for store in stores() {
        let secret = secret(store.clone());
        let _ = at_its_turn(async || machines.store_secret(&machine("one"), &secret).await).await;
        let deleted = async || {
            let names = std::slice::from_ref(&secret.name);
            machines.delete_secrets(&machine("one"), &store, names).await
        };
        let _ = at_its_turn(deleted).await;
    }
    let labels = format!("operation=\"{operation}\",status_code=\"400\",error_code=\"LimitExceededException\"");
    let counted = requests(&registry).into_iter();
    let mut refused = counted.filter(|line| line.contains(&format!("service=\"{service}\"")));
    assert!(refused.any(|line| line.contains(&labels)), "{labels}: {:#?}", requests(&registry));
}

#[tokio::test]
async fn each_refusal_of_a_secret_is_counted_with_its_code() {
    for (service, operation) in OF_SECRETS {
        is_counted_of_secrets(service, operation).await;
    }
}

#[tokio::test]
async fn each_refusal_is_counted_under_its_service_and_code() {
    // All of them together are too large for the stack of a test.
    let calls = MODELLED.map(|(service, operation)| Box::pin(is_counted_with_its_code(service, operation)));
    futures::future::join_all(calls).await;
}

#[test]
fn every_action_with_modelled_errors_is_tried() {
    let called = ACTIONS.iter().filter(|action| action.asked == Asked::Called);
    let called: BTreeSet<&str> = called.filter(|action| action.service != "ec2").map(|action| action.name).collect();
    let tried = MODELLED.into_iter().chain(OF_CHECKS).chain(OF_SECRETS);
    assert_eq!(tried.map(|(_, operation)| permission(operation)).collect::<BTreeSet<_>>(), called);
}
