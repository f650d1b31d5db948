//! Observations of managed clusters for which an earlier observation has found the details that AWS's lists lack.

use std::collections::BTreeSet;
use std::sync::Arc;

use capa_cloud::managed::{ManagedClouds as _, Scope};

use super::fake::{Fake, REGION, identity};
use super::managed::observed_load_balancers::{named, world};

#[tokio::test]
async fn an_observation_that_knows_the_details_asks_for_the_lists_only() {
    let fake = Fake::start(world).await;
    let cloud = fake.pool().await.managed(&identity("A"), REGION);
    let scope = Scope { internet_gateway: Some("igw-1".to_owned()), ..named(Some("vpc-1")) };
    let complete = cloud.observe(&scope).await.unwrap();
    let before = fake.calls().len();
    let known = Some(Arc::new(complete.details()));
    let seen = cloud.observe(&Scope { known, ..scope }).await.unwrap();
    assert_eq!(seen, complete);
    let calls = fake.calls().split_off(before);
    let gateways = calls.iter().filter(|call| call.action == "DescribeInternetGateways");
    assert_eq!(gateways.count(), 1, "by the VPC");
    let actions: BTreeSet<&str> = calls.iter().map(|call| call.action.as_str()).collect();
    let lists = [
        "DescribeVpcs",
        "DescribeSubnets",
        "DescribeInternetGateways",
        "DescribeNatGateways",
        "DescribeRouteTables",
        "DescribeSecurityGroups",
        "DescribeLoadBalancers",
        "DescribeTargetGroups",
        "DescribeListeners",
    ];
    assert_eq!(actions, lists.into());
}
