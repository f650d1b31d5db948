//! Rate limits that apply before calls are sent.

use std::time::{Duration, Instant};

use capa_cloud::{ClusterClouds, ErrorClass, InstanceState, MachineClouds, Query};
use prometheus_client::encoding::text::encode;

use super::calls::request;
use super::fake::{
    CLUSTER, Fake, REGION, at_its_turn, caller_identity, ec2_error, eventually, identity, instances, machine,
};

#[tokio::test]
async fn launches_beyond_the_rate_are_deferred_until_their_turn() {
    let fake = Fake::start(|_| ec2_error(400, "InvalidAMIID.NotFound", "none")).await;
    let (pool, registry) = fake.pool_in_real_time().await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let began = Instant::now();
    let mut deferred = Vec::new();
    for index in 0..5 {
        let key = machine(&index.to_string());
        let error = machines.launch(&key, &request()).await.unwrap_err();
        match error.retry_after {
            Some(turn) => deferred.push((key, Instant::now() + turn)),
            None => assert_eq!(error.class, ErrorClass::NotFound),
        }
    }
    // The bucket grants two calls at once; all further calls used the refill of two a second.
    let refilled = usize::try_from(began.elapsed().as_millis() / 500).unwrap();
    let made = fake.calls_of("RunInstances").len();
    assert_eq!(made + deferred.len(), 5);
    assert!(made >= 2 && made <= 2 + refilled, "{made} calls in {:?}", began.elapsed());
    for (key, turn) in deferred {
        tokio::time::sleep_until(turn.into()).await;
        let request = request();
        let error = at_its_turn(|| machines.launch(&key, &request)).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::NotFound, "{error}");
    }
    assert_eq!(fake.calls_of("RunInstances").len(), 5);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let count = "capa_aws_throttle_wait_seconds_count{action=\"RunInstances\"} ";
    let waits = text.lines().find_map(|line| line.strip_prefix(count));
    let waits: usize = waits.map_or(0, |waits| waits.parse().unwrap());
    assert!(waits >= 5 - made, "a turn that was missed is waited for again:\n{text}");
}

#[tokio::test]
async fn the_sdk_does_not_repeat_throttled_calls_which_slow_others() {
    let fake = Fake::start(|_| ec2_error(503, "RequestLimitExceeded", "slow down")).await;
    let (pool, _registry) = fake.pool_with_an_hour_a_second().await;
    let cluster = pool.cluster(&identity("A"), REGION);
    let throttled = cluster.vpcs(&Query::default()).await.unwrap_err();
    assert_eq!((throttled.class, throttled.retry_after), (ErrorClass::Throttled, None));
    assert_eq!(fake.calls_of("DescribeVpcs").len(), 1);
    let deferred = cluster.vpcs(&Query::default()).await.unwrap_err();
    let turn = deferred.retry_after.expect("a turn later");
    assert!(turn <= Duration::from_mins(48), "an eighth of ten an hour is left: {turn:?}");
    assert_eq!(fake.calls_of("DescribeVpcs").len(), 1);
}

#[tokio::test]
async fn an_error_of_the_server_is_repeated_by_the_sdk() {
    let fake = Fake::start(|_| ec2_error(503, "Unavailable", "later")).await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    assert_eq!(cluster.vpcs(&Query::default()).await.unwrap_err().class, ErrorClass::NoAnswer);
    assert_eq!(fake.calls_of("DescribeVpcs").len(), 3);
}

#[tokio::test]
async fn identities_of_one_account_share_its_rate() {
    let fake = Fake::start(|call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        _ => ec2_error(503, "RequestLimitExceeded", "slow down"),
    })
    .await;
    let (pool, _registry) = fake.pool_with_an_hour_a_second().await;
    let [one, other] = ["A", "B"].map(|name| pool.cluster(&identity(name), REGION));
    one.account_id().await.unwrap();
    other.account_id().await.unwrap();
    assert_eq!(one.vpcs(&Query::default()).await.unwrap_err().retry_after, None);
    assert!(other.vpcs(&Query::default()).await.unwrap_err().retry_after.is_some());
}

#[tokio::test]
async fn the_informers_listing_waits_for_its_turn() {
    let fake = Fake::start(|_| instances(&[("i-1", InstanceState::Running)], None)).await;
    let (pool, registry) = fake.pool_with_an_hour_a_second().await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let mut deferred = 0;
    for index in 0..15 {
        let query = Query::filter("tag:MachineName", [index.to_string()]);
        if let Err(error) = machines.find_instances(&query).await {
            assert!(error.retry_after.is_some(), "{error}");
            deferred += 1;
        }
    }
    assert_eq!(deferred, 5, "ten calls are granted at once");
    let waits = |count: usize| {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = format!("capa_aws_throttle_wait_seconds_count{{action=\"DescribeInstances\"}} {count}\n");
        text.contains(&line)
    };
    assert!(waits(5), "only the lookups have asked");
    machines.observe_instance(&machine("one"), "i-1");
    eventually("the listing asks for its turn and is told to wait", || waits(6)).await;
    assert_eq!(fake.calls_of("DescribeInstances").len(), 10, "it has not had its turn");
}
