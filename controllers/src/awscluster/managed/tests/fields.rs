//! What each field of the spec changes.

use capa_fake_aws::Contents;
use serde_json::{Value, json};

use super::world::World;

/// What is created for a spec, with the zones `eu-west-1a` to `eu-west-1d`.
fn created(network: &str) -> Contents {
    let mut world = World::new(&format!("region: eu-west-1, network: {{{network}}}"));
    let zones = ["a", "b", "c", "d"].map(|zone| format!("eu-west-1{zone}"));
    world.account.set(|account| account.zones = zones.to_vec());
    world.rest();
    world.account.contents()
}

/// The first VPC in brief: its range, the tag `cost`, and zone, range and form of host names of each subnet.
fn in_brief(contents: &Contents) -> Value {
    let vpc = &contents.vpcs[0];
    let subnets = vpc.subnets.iter().map(|subnet| json!([subnet.zone, subnet.cidr_block, subnet.hostname_type]));
    json!({"range": vpc.cidr_blocks[0], "cost": vpc.tags.get("cost"), "subnets": subnets.collect::<Vec<_>>()})
}

#[test]
fn fields_that_ask_for_what_happens_anyway_change_nothing() {
    let all = |of_first: &str, of_second: &str, more: &str| {
        let second = format!("{{loadBalancerType: nlb, scheme: internal, name: inside{of_second}}}");
        let mut world = World::new(&format!(
            "region: eu-west-1, controlPlaneLoadBalancer: {{loadBalancerType: nlb{of_first}}}, \
             secondaryControlPlaneLoadBalancer: {second}{more}"
        ));
        world.rest();
        assert!(world.status().provisioned(), "{:?}", world.status().conditions);
        world.account.contents()
    };
    let plain = all("", "", "");
    let rewrite = ", disableHostsRewrite: true";
    for (field, found) in [
        ("partition", all("", "", ", partition: aws")),
        ("controlPlaneLoadBalancer.disableHostsRewrite", all(rewrite, "", "")),
        ("secondaryControlPlaneLoadBalancer.disableHostsRewrite", all("", rewrite, "")),
        ("secondaryControlPlaneLoadBalancer.dnsResolutionCheck", all("", ", dnsResolutionCheck: None", "")),
    ] {
        assert_eq!(found, plain, "{field}");
    }
}

#[test]
fn each_field_of_the_network_changes_what_is_created() {
    let listed =
        |range: &str| format!("subnets: [{{id: a, cidrBlock: {range}, availabilityZone: eu-west-1a, isPublic: true}}]");
    let cases = [
        ("network.vpc.cidrBlock", "vpc: {cidrBlock: 10.7.0.0/16}".to_owned(), "/range", json!("10.7.0.0/16")),
        ("network.vpc.tags{}", "vpc: {tags: {cost: x}}".to_owned(), "/cost", json!("x")),
        (
            "network.vpc.privateDnsHostnameTypeOnLaunch",
            "vpc: {privateDnsHostnameTypeOnLaunch: resource-name}".to_owned(),
            "/subnets/0/2",
            json!("resource-name"),
        ),
        (
            "network.vpc.subnetSchema",
            "vpc: {subnetSchema: PreferPublic, availabilityZoneUsageLimit: 1}".to_owned(),
            "/subnets",
            json!([["eu-west-1a", "10.0.0.0/17", "ip-name"], ["eu-west-1a", "10.0.128.0/17", "ip-name"]]),
        ),
        (
            "network.vpc.availabilityZoneUsageLimit",
            "vpc: {availabilityZoneUsageLimit: 4}".to_owned(),
            "/subnets/7/1",
            json!("10.0.96.0/19"),
        ),
        ("network.subnets[].cidrBlock", listed("10.0.9.0/24"), "/subnets/0/1", json!("10.0.9.0/24")),
    ];
    for (field, network, pointer, expected) in cases {
        let found = in_brief(&created(&network));
        assert_eq!(found.pointer(pointer), Some(&expected), "{field}: {found}");
    }
    let drawn = |name: &str| in_brief(&created(&format!("vpc: {{availabilityZoneUsageLimit: 1, {name}}}")));
    let field = "network.vpc.availabilityZoneSelection";
    assert_eq!(drawn("availabilityZoneSelection: Ordered")["subnets"][0][0], "eu-west-1a", "{field}");
    let random = drawn("availabilityZoneSelection: Random");
    assert_ne!(random["subnets"][0][0], "eu-west-1a", "{field}: another zone for this cluster");
}
