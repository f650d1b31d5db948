//! The conditions under which the provider makes no AWS calls.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_fake_aws::Fault;

use super::world::World;
use crate::testing::read;

#[test]
fn a_wrong_spec_is_named_and_leaves_nothing_behind() {
    let subnets = |subnets: &str| format!("region: eu-west-1, network: {{subnets: [{subnets}]}}");
    let subnet = |id: &str, range: &str, zone: &str| {
        format!("{{id: {id}, cidrBlock: {range}, availabilityZone: {zone}, isPublic: true}}")
    };
    let cases = [
        ("region: eu-west-1, network: {vpc: {cidrBlock: 10.0.0.0/8}}".to_owned(), "10.0.0.0/8"),
        ("region: eu-west-1, network: {vpc: {cidrBlock: 10.0.0.1/16}}".to_owned(), "10.0.0.1/16"),
        ("region: eu-west-1, network: {vpc: {cidrBlock: 10.0.0.0/28}}".to_owned(), "too small"),
        (subnets(&subnet("a", "10.9.0.0/24", "eu-west-1a")), "not in the range"),
        (subnets(&subnet("a", "10.0.0.0/24", "eu-west-1q")), "eu-west-1a, eu-west-1b, eu-west-1c"),
        (
            subnets(&[subnet("a", "10.0.0.0/23", "eu-west-1a"), subnet("b", "10.0.1.0/24", "eu-west-1b")].join(", ")),
            "overlaps",
        ),
        (subnets("{id: a, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a}"), "no public subnet"),
        (subnets("{id: a, availabilityZone: eu-west-1a, isPublic: true}"), "cidrBlock"),
        ("region: eu-west-1, partition: aws-cn".to_owned(), "aws-cn"),
        (format!("region: eu-west-1, sshKeyName: {}", "k".repeat(300)), "spec.sshKeyName"),
    ];
    for (spec, words) in cases {
        let mut world = World::new(&spec);
        world.pass();
        assert_eq!(world.condition(ConditionType::Ready), "False/InvalidSpec", "{spec}");
        let message = world.message(ConditionType::Ready);
        assert!(message.contains(words), "{spec}: {message}");
        assert_eq!(world.account.calls(), 0, "{spec}");
    }
}

#[test]
fn fields_that_are_not_offered_yet_are_named_and_nothing_is_made() {
    let cases = [
        ("network: {securityGroupOverrides: {node: sg-1}}", "securityGroupOverrides"),
        ("network: {vpc: {ipv6: {}}}", "network.vpc.ipv6"),
        ("bastion: {enabled: true}", "bastion"),
        (
            "s3Bucket: {name: boot}, network: {vpc: {id: vpc-1, tags: \
             {sigs.k8s.io/cluster-api-provider-aws/cluster/dev: owned}}}",
            "s3Bucket",
        ),
        ("network: {vpc: {ipamPool: {name: p}}}", "network.vpc.ipamPool"),
        ("network: {vpc: {id: vpc-1, secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}]}}", "secondaryCidrBlocks"),
        ("network: {subnets: [{id: subnet-1}]}", "network.subnets of yours"),
        ("network: {subnets: [{id: a, zoneType: local-zone}]}", "edge zones"),
        ("network: {subnets: [{id: a, availabilityZone: eu-west-1-lon-1a}]}", "edge zones"),
        ("network: {subnets: [{id: a, isIpv6: true}]}", "IPv6"),
    ];
    for (spec, words) in cases {
        let mut world = World::new(&format!("region: eu-west-1, {spec}"));
        world.pass();
        assert_eq!(world.condition(ConditionType::Ready), "False/NotManagedYet", "{spec}");
        assert!(world.message(ConditionType::Ready).contains(words), "{spec}");
        assert_eq!(world.account.calls() + world.writes(), 1, "{spec}: only the status is written");
    }
}

#[test]
fn credentials_of_another_account_are_not_used() {
    let mut world = World::built("region: eu-west-1");
    world.account.set(|account| account.account_id = "999988887777".to_owned());
    world.account.reset_describes();
    world.delete();
    world.pass();
    assert_eq!(world.condition(ConditionType::IdentityReady), "False/AccountMismatch");
    assert!(world.message(ConditionType::Ready).contains("111122223333"));
    assert_eq!(world.account.describes().keys().collect::<Vec<_>>(), [&"GetCallerIdentity"]);
    assert!(world.cluster().is_some());
}

/// Another managed AWSCluster of a Cluster with the same name.
fn namesake(namespace: &str, created: &str, status: &str) -> AWSCluster {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, metadata: {{name: dev, namespace: \
         {namespace}, uid: other, creationTimestamp: '{created}', ownerReferences: [{{apiVersion: \
         cluster.x-k8s.io/v1beta2, kind: Cluster, name: dev, uid: c}}]}}, spec: {{region: eu-west-1}}, status: \
         {status}}}"
    ))
}

#[test]
fn the_second_cluster_of_a_name_waits_and_calls_nothing() {
    let made = "{accountID: '111122223333', resources: [{type: Vpc, name: dev-vpc, id: vpc-9, lifecycle: Owned}]}";
    let asked = "{accountID: '111122223333', resources: [{type: Vpc, name: dev-vpc, lifecycle: Owned, requestedAt: \
                 '1970-01-01T00:00:00Z'}]}";
    let elsewhere = made.replace("111122223333", "999988887777");
    let cases = [
        ("team-b", "2030-01-01T00:00:00Z", made, true),
        ("team-b", "2030-01-01T00:00:00Z", asked, true),
        ("aaa", "1970-01-01T00:00:00Z", "{}", true),
        ("team-b", "2030-01-01T00:00:00Z", "{}", false),
    ];
    for (namespace, created, status, is_first) in cases {
        let mut world = World::new("region: eu-west-1");
        world.add_other(namesake(namespace, created, status));
        world.pass();
        let expected = if is_first { "False/Conflict" } else { "False/Creating" };
        assert_eq!(world.condition(ConditionType::Ready), expected, "{namespace} {created} {status}");
        assert_eq!(world.account.calls(), usize::from(!is_first));
    }
    let mut world = World::built("region: eu-west-1");
    world.add_other(namesake("aaa", "1970-01-01T00:00:00Z", &elsewhere));
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "True/Ready", "another account has other resources");
}

#[test]
fn of_two_vpcs_with_the_tag_none_is_taken() {
    let owned = Tags::from([("sigs.k8s.io/cluster-api-provider-aws/cluster/dev".to_owned(), "owned".to_owned())]);
    let mut world = World::new("region: eu-west-1");
    let ids = [(); 2].map(|()| world.account.add_vpc("10.0.0.0/16", owned.clone()));
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/Conflict");
    assert!(ids.iter().all(|id| world.message(ConditionType::VpcReady).contains(id)));
    assert_eq!(world.account.calls(), 0);
}

#[test]
fn what_was_made_before_the_status_was_lost_is_found_again() {
    let mut world = World::built("region: eu-west-1");
    let before = world.account.contents();
    world.lose_status();
    world.rest();
    assert_eq!(world.account.contents(), before);
    assert_eq!(world.condition(ConditionType::VpcReady), "True/Ready");
}

#[test]
fn names_with_a_common_prefix_are_not_mixed_up() {
    let other = Tags::from([("sigs.k8s.io/cluster-api-provider-aws/cluster/dev-2".to_owned(), "owned".to_owned())]);
    let mut world = World::new("region: eu-west-1");
    let foreign = world.account.add_vpc("10.0.0.0/16", other);
    world.rest();
    assert_eq!(world.account.vpcs().len(), 2);
    world.delete();
    world.rest();
    assert_eq!(world.account.vpcs().iter().map(|vpc| vpc.id.clone()).collect::<Vec<_>>(), [foreign]);
    assert!(world.account.foreign_writes().is_empty());
}

#[test]
fn a_quota_is_named_and_tried_again() {
    let mut world = World::new("region: eu-west-1");
    world.account.set(|account| account.vpc_quota = 0);
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/QuotaExceeded");
    assert!(world.message(ConditionType::VpcReady).contains("VpcLimitExceeded"));
    world.account.set(|account| account.vpc_quota = 1);
    world.rest();
    assert_eq!(world.condition(ConditionType::VpcReady), "True/Ready");
}

#[test]
fn a_foreign_internet_gateway_is_left_attached() {
    let mut world = World::built("region: eu-west-1");
    let vpc = world.account.vpcs()[0].id.clone();
    let own = world.account.internet_gateways()[0].id.clone();
    assert!(world.account.set_attachment(&own, None));
    let foreign = world.account.add_internet_gateway(Some(&vpc), Tags::new());
    world.pass();
    assert_eq!(world.condition(ConditionType::InternetGatewayReady), "False/Conflict");
    assert!(world.message(ConditionType::InternetGatewayReady).contains(&foreign));
    assert!(world.account.foreign_writes().is_empty());
}

#[test]
fn a_refused_call_stops_only_what_depends_on_it() {
    let mut world = World::new("region: eu-west-1");
    world.pass();
    world.advance(Duration::from_secs(5));
    // The second call is the first one that the VPC made possible.
    world.account.fail(1, Fault::Refused("UnauthorizedOperation"));
    world.pass();
    let failing = [ConditionType::SubnetsReady, ConditionType::InternetGatewayReady, ConditionType::VpcReady]
        .into_iter()
        .filter(|condition| world.condition(*condition) == "False/Unauthorized");
    assert_eq!(failing.count(), 1);
    assert!(world.account.calls() > 6, "the others were made");
}

#[test]
fn an_older_namesake_with_another_identity_goes_first_too() {
    let mut other = namesake("aaa", "1970-01-01T00:00:00Z", "{}");
    other.spec.identity_ref = Some(read("{kind: AWSClusterRoleIdentity, name: other}"));
    let mut world = World::new("region: eu-west-1");
    world.add_other(other);
    world.pass();
    assert_eq!(world.condition(ConditionType::Ready), "False/Conflict", "its account is not known");
    assert_eq!(world.account.calls(), 0);
}

#[test]
fn tags_that_make_another_cluster_the_owner_are_refused() {
    let tag = "{sigs.k8s.io/cluster-api-provider-aws/cluster/victim: owned}";
    for spec in [
        format!("additionalTags: {tag}"),
        format!("network: {{vpc: {{tags: {tag}}}}}"),
        format!(
            "network: {{subnets: [{{id: a, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, isPublic: true, tags: \
             {tag}}}]}}"
        ),
    ] {
        let mut world = World::new(&format!("region: eu-west-1, {spec}"));
        world.pass();
        assert_eq!(world.condition(ConditionType::Ready), "False/InvalidSpec", "{spec}");
        assert!(world.message(ConditionType::Ready).contains("cluster/victim"));
        assert_eq!(world.account.calls(), 0);
    }
}

#[test]
fn a_recorded_resource_without_the_tag_is_not_touched() {
    let mut world = World::aged("region: eu-west-1");
    let foreign = world.account.add_vpc("10.0.0.0/16", Tags::new());
    world.edit(|cluster| {
        let resources = &mut cluster.status.as_mut().unwrap().resources;
        let vpc = resources.iter_mut().find(|resource| resource.resource_type == "Vpc");
        vpc.unwrap().id = Some(foreign.clone());
    });
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/NotOwned");
    assert!(world.message(ConditionType::VpcReady).contains(&foreign));
    world.delete();
    for _ in 0..20 {
        world.pass();
        world.advance(Duration::from_secs(60));
    }
    assert!(world.account.vpcs().iter().any(|vpc| vpc.id == foreign));
    assert!(world.account.foreign_writes().is_empty());
    assert!(world.cluster().is_some());
}

#[test]
fn another_region_in_the_spec_is_refused_even_in_deletion() {
    let mut world = World::aged("region: eu-west-1");
    world.delete();
    world.set_spec("region: eu-central-1");
    world.pass();
    assert_eq!(world.condition(ConditionType::Ready), "False/InvalidSpec");
    assert!(world.message(ConditionType::Ready).contains("eu-west-1"));
    assert!(world.cluster().is_some());
}

#[test]
fn a_spec_that_was_wrong_for_a_while_does_no_harm() {
    let mut world = World::aged("region: eu-west-1");
    let before = (world.account.contents(), world.account.calls());
    world.set_spec("region: eu-west-1, network: {vpc: {cidrBlock: 10.0.0.0/28}}");
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/InvalidSpec");
    world.set_spec("region: eu-west-1");
    world.rest();
    assert_eq!(world.condition(ConditionType::SubnetsReady), "True/Ready");
    assert_eq!((world.account.contents(), world.account.calls()), before);
}

#[test]
fn whoever_has_something_in_aws_has_the_finalizer() {
    let mut world = World::aged("region: eu-west-1");
    world.edit(|cluster| cluster.metadata.finalizers = None);
    world.rest();
    world.delete_completely();
}

/// A world with the AWS resources of `world`, and with a new AWSCluster for a Cluster of the same name.
fn with_namesake(world: &World) -> World {
    let namesake = world.fork();
    namesake.edit(|cluster| {
        cluster.metadata.namespace = Some("team-b".to_owned());
        cluster.metadata.uid = Some("another".to_owned());
        cluster.metadata.finalizers = None;
        cluster.spec.control_plane_endpoint = None;
        cluster.status = None;
    });
    namesake
}

#[test]
fn a_new_cluster_does_not_take_what_another_one_of_its_name_has() {
    let world = World::aged("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}");
    let mut namesake = with_namesake(&world);
    let (before, calls) = (namesake.account.contents(), namesake.account.calls());
    let vpc = namesake.account.vpcs()[0].id.clone();
    namesake.rest_for(Duration::from_mins(30));
    assert_eq!(namesake.condition(ConditionType::VpcReady), "False/Conflict");
    let message = namesake.message(ConditionType::VpcReady);
    assert!(message.contains(&format!("set network.vpc.id to {vpc}")), "{message}");
    namesake.delete();
    assert!(namesake.cluster().is_none(), "nothing was made for it");
    assert_eq!((namesake.account.contents(), namesake.account.calls()), (before, calls));
}

#[test]
fn a_cluster_whose_vpc_was_refused_does_not_take_that_of_another_one() {
    let mut world = World::new("region: eu-west-1");
    world.account.set(|account| account.vpc_quota = 0);
    world.pass();
    world.account.set(|account| account.vpc_quota = 1);
    let tag = (meta::cluster_tag("dev"), meta::OWNED_TAG_VALUE.to_owned());
    let vpc = world.account.add_vpc("10.0.0.0/16", Tags::from([tag]));
    let calls = world.account.calls();
    world.rest_for(Duration::from_mins(30));
    assert_eq!(world.condition(ConditionType::VpcReady), "False/Conflict");
    assert!(world.message(ConditionType::VpcReady).contains(&vpc));
    world.delete();
    world.rest();
    assert!(world.cluster().is_none(), "nothing was made for it");
    assert_eq!(world.account.calls(), calls);
}

#[test]
fn a_restored_cluster_takes_the_vpc_that_its_spec_names() {
    let world = World::aged("region: eu-west-1");
    let mut restored = with_namesake(&world);
    restored.rest_for(Duration::from_mins(1));
    assert_eq!(restored.condition(ConditionType::VpcReady), "False/Conflict");
    let before = restored.account.contents();
    let vpc = restored.account.vpcs()[0].id.clone();
    let tag = meta::cluster_tag("dev");
    restored.set_spec(&format!("region: eu-west-1, network: {{vpc: {{id: {vpc}, tags: {{{tag}: owned}}}}}}"));
    restored.rest();
    assert_eq!(restored.condition(ConditionType::VpcReady), "True/Ready");
    assert_eq!(restored.account.vpcs()[0].id, vpc);
    restored.delete();
    restored.rest();
    assert!(restored.account.is_empty(), "{:?} of {before:?}", restored.account.contents());
}

#[test]
fn a_renamed_subnet_of_the_same_range_is_kept() {
    let spec = |id: &str| {
        format!(
            "region: eu-west-1, network: {{subnets: [{{id: {id}, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, \
             isPublic: true}}]}}"
        )
    };
    let mut world = World::aged(&spec("front"));
    let named = |world: &World| {
        let subnets = world.account.subnets().into_iter();
        let named = subnets.map(|subnet| (subnet.id, subnet.tags[meta::NAME_TAG].clone()));
        named.collect::<Vec<_>>()
    };
    let (before, calls) = (named(&world), world.account.calls());
    world.set_spec(&spec("web"));
    world.rest();
    assert_eq!(world.condition(ConditionType::SubnetsReady), "True/Ready");
    let renamed = before.into_iter().map(|(id, _)| (id, "web".to_owned()));
    assert_eq!(named(&world), renamed.collect::<Vec<_>>());
    let journal = world.account.journal();
    let made: Vec<&str> = journal[calls..].iter().map(|entry| entry.call.action()).collect();
    assert_eq!(made, ["CreateTags"]);
}
