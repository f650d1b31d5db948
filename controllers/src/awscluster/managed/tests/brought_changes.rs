//! Changes of the spec of clusters in a VPC of the user.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;

use super::brought::bring;
use super::world::World;

#[test]
fn another_vpc_in_the_spec_is_refused() {
    let mut brought = bring().build();
    let other = brought.world.account.add_vpc("10.8.0.0/16", Tags::new());
    let calls = brought.world.account.calls();
    let spec = brought.spec("", "").replace(&brought.vpc, &other);
    brought.world.set_spec(&spec);
    brought.world.rest_for(Duration::from_mins(15));
    assert_eq!(brought.world.condition(ConditionType::VpcReady), "False/InvalidSpec");
    assert_eq!(brought.world.account.calls(), calls);
}

#[test]
fn a_role_keeps_the_security_group_that_machines_have() {
    let groups = ConditionType::ClusterSecurityGroupsReady;
    for is_overridden in [false, true] {
        let mut brought = bring();
        let account = brought.world.account.clone();
        let [first, second] =
            ["first", "second"].map(|name| account.add_security_group(&brought.vpc, name, Tags::new()));
        let with = |id: &str| format!(", securityGroupOverrides: {{node: {id}}}");
        let right = if is_overridden { with(&first) } else { String::new() };
        brought.world.set_spec(&brought.spec(&right, ""));
        brought.world.rest();
        let (network, contents) = (brought.world.status().network, account.contents());
        for wrong in [with(&second), String::new(), with(&first)] {
            let is_right = wrong == right;
            brought.world.set_spec(&brought.spec(&wrong, ""));
            brought.world.rest_for(Duration::from_mins(15));
            let expected = if is_right { "True/Ready" } else { "False/InvalidSpec" };
            assert_eq!(brought.world.condition(groups), expected, "{wrong:?} after {right:?}");
            assert_eq!(brought.world.status().network, network, "{wrong:?} after {right:?}");
            assert_eq!(account.contents(), contents, "{wrong:?} after {right:?}");
        }
        // The groups of the user stay, whatever the spec says by then.
        brought.world.set_spec("region: eu-west-1");
        brought.world.delete();
        brought.world.rest();
        let names: Vec<String> = account.security_groups().into_iter().map(|group| group.name).collect();
        assert!(names.contains(&"first".to_owned()) && names.contains(&"second".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("dev-")), "{names:?}");
    }
}

#[test]
fn what_a_deleted_cluster_leaves_alone_does_not_depend_on_its_spec() {
    for spec in ["region: eu-west-1", "region: eu-west-1, network: {vpc: {id: vpc-0f0f0f0f}}"] {
        let mut brought = bring().build();
        let account = brought.world.account.clone();
        // Somebody's leftovers have the tag of the cluster.
        let owned = || Tags::from([(capa_api::meta::cluster_tag("dev"), "owned".to_owned())]);
        let subnet = account.add_subnet(&brought.vpc, "10.7.9.0/24", "eu-west-1b", owned());
        let table = account.add_route_table(&brought.vpc, owned());
        let address = account.add_address(owned());
        brought.world.set_spec(spec);
        brought.world.delete();
        brought.world.rest();
        assert!(brought.world.cluster().is_none(), "{spec}");
        assert!(account.subnets().iter().any(|known| known.id == subnet), "{spec}");
        assert!(account.route_tables().iter().any(|known| known.id == table), "{spec}");
        assert!(account.addresses().iter().any(|known| known.allocation_id == address), "{spec}");
    }
}

#[test]
fn a_vpc_of_the_user_can_leave_the_spec_before_anything_is_made() {
    let mut brought = bring();
    let wrong = format!("region: eu-west-1, network: {{vpc: {{id: {}}}}}", brought.vpc);
    brought.world.set_spec(&wrong);
    brought.world.rest_for(Duration::from_mins(5));
    assert_eq!(brought.world.account.calls(), 0);
    brought.world.set_spec("region: eu-west-1");
    brought.world.rest();
    let world = &brought.world;
    assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{}", world.message(ConditionType::VpcReady));
    assert_ne!(world.status().network.unwrap().vpc.unwrap().id, brought.vpc);
}

#[test]
fn a_running_cluster_without_anything_of_its_own_keeps_its_vpc() {
    let mut brought = bring();
    let account = brought.world.account.clone();
    let roles = ["node", "lb", "controlplane", "apiserver-lb"];
    let overrides = roles.map(|role| {
        let id = account.add_security_group(&brought.vpc, role, Tags::new());
        format!("{role}: {id}")
    });
    let overrides = format!(", securityGroupOverrides: {{{}}}", overrides.join(", "));
    let disabled = ", controlPlaneEndpoint: {host: api.example.com, port: 6443}, controlPlaneLoadBalancer: \
                    {loadBalancerType: disabled}";
    let right = brought.spec(&overrides, disabled);
    brought.world.set_spec(&right);
    brought.world.rest();
    assert!(brought.world.status().provisioned(), "{}", brought.world.message(ConditionType::Ready));
    let network = brought.world.status().network;
    let other = account.add_vpc("10.8.0.0/16", Tags::new());
    brought.world.set_spec(&right.replace(&brought.vpc, &other));
    brought.world.rest_for(Duration::from_mins(15));
    assert_eq!(brought.world.condition(ConditionType::VpcReady), "False/InvalidSpec");
    assert_eq!(brought.world.status().network, network);
}

#[test]
fn a_wrong_id_of_the_vpc_can_be_corrected() {
    let mut brought = bring();
    let other = brought.world.account.add_vpc("10.8.0.0/16", Tags::new());
    let right = brought.spec("", "");
    for wrong in ["vpc-0f0f0f0f", &other] {
        brought.world.set_spec(&right.replace(&brought.vpc, wrong));
        brought.world.rest_for(Duration::from_mins(5));
        assert!(!brought.world.status().provisioned(), "{wrong}");
        assert_eq!(brought.world.account.calls(), 0, "{wrong}");
    }
    brought.world.set_spec(&right);
    brought.world.rest();
    assert!(brought.world.status().provisioned(), "{}", brought.world.message(ConditionType::VpcReady));
}

#[test]
fn a_vpc_of_ours_stays_ours_whatever_the_spec_names() {
    let mut world = World::aged("region: eu-west-1");
    let own = world.account.vpcs()[0].id.clone();
    let contents = world.account.contents();
    for (id, expected) in [("vpc-0f0f0f0f", "False/InvalidSpec"), (own.as_str(), "True/Ready")] {
        world.set_spec(&format!("region: eu-west-1, network: {{vpc: {{id: {id}}}}}"));
        world.rest_for(Duration::from_mins(15));
        assert_eq!(world.condition(ConditionType::VpcReady), expected, "{id}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{id}");
        assert_eq!(world.account.contents(), contents, "{id}");
    }
    // After a lost status, only the tag shows to whom the VPC belongs.
    world.lose_status();
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(ConditionType::VpcReady), "False/Conflict");
    assert_eq!(world.account.contents(), contents);
    world.delete();
    world.rest_for(Duration::from_mins(15));
    assert!(world.cluster().is_some(), "nothing is left behind without a word");
    world.edit(|cluster| cluster.spec.network = None);
    world.assert_gone();
}

#[test]
fn a_vpc_that_left_the_spec_stays_the_users() {
    let mut brought = bring().build();
    let network = brought.world.status().network;
    let calls = brought.world.account.calls();
    brought.world.set_spec("region: eu-west-1");
    brought.world.rest_for(Duration::from_mins(15));
    assert_eq!(brought.world.condition(ConditionType::VpcReady), "False/InvalidSpec");
    assert_eq!(brought.world.status().network, network);
    assert_eq!(brought.world.account.calls(), calls);
    brought.world.delete();
    brought.world.rest();
    assert_eq!(brought.world.account.contents(), brought.before);
}

#[test]
fn nodes_of_a_subnet_that_left_the_spec_still_reach_the_api() {
    let rules = "ingressRules: [{description: office, protocol: tcp, fromPort: 6443, toPort: 6443, cidrBlocks: \
                 [198.51.100.0/24]}]";
    let balancer = format!(", controlPlaneLoadBalancer: {{{rules}}}");
    let mut brought = bring();
    brought.world.set_spec(&brought.spec("", &balancer));
    brought.world.rest();
    let admitted = |world: &World| {
        let groups = world.account.security_groups();
        let group = groups.iter().find(|group| group.name == "dev-apiserver-lb").unwrap();
        group.ingress.clone()
    };
    let before = admitted(&brought.world);
    assert_eq!(before.len(), 2, "{before:?}");
    let whole = brought.spec("", &balancer);
    let private = format!("{{id: {}}}", brought.private);
    for spec in [whole.replace(&format!(", {private}"), ""), whole.replace(&private, "{id: subnet-0f0f0f0f}")] {
        brought.world.set_spec(&spec);
        brought.world.rest_for(Duration::from_mins(15));
        assert_eq!(admitted(&brought.world), before, "{spec}");
    }
}
