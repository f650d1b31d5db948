//! Refused calls in the metrics: each under the name of its service, with AWS's error code.

use std::collections::BTreeSet;

use capa_cloud::Answers;
use capa_cloud::{ClusterClouds, ClusterKey, CredentialSource, MachineClouds, Query, ResolvedIdentity};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::checks;
use super::fake::{CLUSTER, Fake, REGION, at_its_turn, caller_identity, ec2_error, identity, machine, role};
use super::secrets::{secret, stores};
use crate::SessionPool;

/// Makes a call to each service.
async fn call_all_services(pool: &SessionPool) {
    pool.facts(&identity("A"), REGION).facts(&checks::demand(), &Answers::default()).await;
    let cluster = pool.cluster(&identity("A"), REGION);
    let _ = at_its_turn(async || cluster.vpcs(&Query::default()).await).await;
    let _ = at_its_turn(async || cluster.load_balancer("api").await).await;
    let _ = at_its_turn(async || cluster.classic_load_balancers(&["api".to_owned()]).await).await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    for store in stores() {
        let _ = at_its_turn(async || machines.store_secret(&machine("one"), &secret(store.clone())).await).await;
    }
    let assumed = ResolvedIdentity {
        key: "role".to_owned(),
        source: role("arn:aws:iam::1:role/One", CredentialSource::Controller),
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    };
    let _ = pool.cluster(&assumed, REGION).account_id().await;
}

/// The samples of the calls.
fn requests(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let samples = text.lines().filter(|line| line.starts_with("aws_api_requests_total{"));
    samples.map(str::to_owned).collect()
}

#[tokio::test]
async fn refusals_of_each_service_are_counted_with_their_code() {
    let fake = Fake::start(|call| match (call.service(), call.action.as_str()) {
        (_, "GetCallerIdentity") => caller_identity(),
        ("ec2", _) => ec2_error(400, "AccessDenied", "no"),
        _ => checks::refusal(call, 400, "AccessDenied"),
    })
    .await;
    let (pool, registry) = fake.pool_and_metrics().await;
    call_all_services(&pool).await;
    let samples = requests(&registry);
    let refused = samples.iter().filter(|sample| !sample.contains("operation=\"GetCallerIdentity\""));
    for sample in refused.clone() {
        assert!(sample.contains("status_code=\"400\",error_code=\"AccessDenied\""), "{sample}");
    }
    let service = |sample: &String| sample.split("service=\"").nth(1)?.split('"').next().map(str::to_owned);
    let services: BTreeSet<String> = refused.filter_map(service).collect();
    let all = ["ec2", "elb", "elbv2", "iam", "kms", "s3", "secrets-manager", "service-quotas", "ssm", "sts"];
    assert_eq!(services, all.map(str::to_owned).into());
}
