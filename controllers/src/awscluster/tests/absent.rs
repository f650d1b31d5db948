//! Values that equal the default behaviour publish the same network as an absent field.

use capa_api::cluster::AWSClusterSpec;
use serde_json::{Value, json};

use super::{NETWORK, Scene, aws_cluster};
use crate::testing::absent::neutral_values;

/// The blocks and lists with required fields.
const PARENTS: [(&str, &str); 2] = [
    ("network.subnets[]", "network: {subnets: [{id: subnet-0000000a}]}"),
    ("controlPlaneEndpoint", "controlPlaneEndpoint: {host: api.example.org, port: 6443}"),
];

/// A field in which `false` has another effect than an absent field: a machine that asks for IPv6 avoids the subnet.
const OTHER: &str = "network.subnets[].isIpv6";

/// The network that the first pass over a new cluster with this spec publishes for machines.
async fn published(spec: &str) -> Value {
    let pass = Scene::new().pass(&aws_cluster(spec)).await;
    let status = pass.status();
    json!({"network": status.network, "zones": status.failure_domains, "provisioned": status.provisioned()})
}

#[tokio::test]
async fn zero_and_default_values_publish_what_an_absent_field_does() {
    let mut compared = 0;
    for neutral in neutral_values::<AWSClusterSpec>("AWSCluster", NETWORK, &PARENTS) {
        let (path, value) = (neutral.path.as_str(), &neutral.value);
        let (with, without) = (published(&neutral.with).await, published(&neutral.without).await);
        assert_eq!(with != without, path == OTHER, "{path}: {value}: {with:#}, and without it {without:#}");
        compared += usize::from(with["network"]["region"] == "eu-west-1");
    }
    assert!(compared > 20, "the schema gave {compared} values only");
}
