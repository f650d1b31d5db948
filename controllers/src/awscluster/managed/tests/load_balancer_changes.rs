//! Existing network load balancers: drift, changes of the spec, and loss.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;

use super::load_balancers::{NAME, NLB, READY, balancer, group, observe_again, with, with_secondary};
use super::world::World;

#[test]
fn drift_is_repaired() {
    let spec = with("additionalListeners: [{port: 8132}]");
    let mut world = World::aged(&spec);
    let expected = world.account.contents();
    let arn = balancer(&world, NAME).arn;
    let [api, other] = [6443, 8132].map(|port| group(&world, port).arn);
    let listener = |world: &World, port: i32| {
        let all = world.account.listeners();
        all.iter().find(|listener| listener.port == port).unwrap().arn.clone()
    };
    let check = |world: &mut World, what: &str| {
        assert_ne!(world.account.contents(), expected, "{what} is a change");
        observe_again(world);
        assert_eq!(world.account.contents(), expected, "{what}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{what}");
    };
    assert!(world.account.remove_listener(&listener(&world, 8132)));
    check(&mut world, "a listener was deleted");
    assert!(world.account.remove_listener(&listener(&world, 8132)) && world.account.remove_target_group(&other));
    check(&mut world, "a target group was deleted");
    assert!(world.account.set_load_balancer_attribute(&arn, "load_balancing.cross_zone.enabled", "true"));
    check(&mut world, "an attribute of the load balancer");
    assert!(world.account.set_target_group_attribute(&api, "preserve_client_ip.enabled", "true"));
    check(&mut world, "an attribute of a target group");
    let mut health_check = group(&world, 6443).health_check;
    health_check.timing.interval_seconds = 300;
    assert!(world.account.set_health_check(&api, health_check));
    check(&mut world, "a health check");
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_target_group("mine", &vpc, 6443, Tags::new());
    assert!(world.account.set_listener_targets(&listener(&world, 6443), &[&foreign]));
    observe_again(&mut world);
    let targets = world.account.listeners();
    assert!(targets.iter().any(|listener| listener.target_group_arns == [api.clone()]), "{targets:?}");
    assert!(world.reasons().contains(&"SuccessfulModifyListener"));
}

#[test]
fn what_the_spec_no_longer_names_goes_and_what_others_made_stays() {
    let mut world = World::aged(&with_secondary("additionalListeners: [{port: 8132}]"));
    let plain = World::aged(NLB).account.contents();
    let inside = balancer(&world, "inside").arn;
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_target_group("mine", &vpc, 80, Tags::new());
    let of_user = world.account.add_listener(&balancer(&world, NAME).arn, 80, &foreign, Tags::new());
    world.set_spec(&with_secondary("additionalListeners: []"));
    world.rest();
    assert!(!world.account.listeners().iter().any(|listener| listener.port == 8132));
    assert!(!world.account.target_groups().iter().any(|group| group.port == 8132));
    assert!(world.account.load_balancers().iter().any(|balancer| balancer.arn == inside));
    world.set_spec(NLB);
    // The spec of a user has the endpoint that the provider has written.
    world.edit(|cluster| cluster.spec.control_plane_endpoint = None);
    world.rest();
    assert!(!world.account.load_balancers().iter().any(|balancer| balancer.arn == inside));
    assert!(world.account.listeners().iter().any(|listener| listener.arn == of_user));
    assert!(world.account.remove_listener(&of_user) && world.account.remove_target_group(&foreign));
    let mut contents = world.account.contents();
    let mut expected = plain;
    for vpc in contents.vpcs.iter_mut().chain(&mut expected.vpcs) {
        vpc.security_groups.clear();
    }
    assert_eq!(contents, expected);
}

#[test]
fn a_target_group_of_capa_is_adopted_by_its_listener() {
    let mut world = World::aged(NLB);
    let ours = group(&world, 6443);
    let vpc = world.account.vpcs()[0].id.clone();
    let theirs = world.account.add_target_group("apiserver-target-x7k2p", &vpc, 6443, ours.tags.clone());
    assert!(world.account.set_health_check(&theirs, ours.health_check.clone()));
    let listener = world.account.listeners()[0].arn.clone();
    assert!(world.account.set_listener_targets(&listener, &[&theirs]) && world.account.remove_target_group(&ours.arn));
    world.lose_status();
    observe_again(&mut world);
    let groups = world.account.target_groups();
    assert!(groups.len() == 1 && groups[0].arn == theirs, "{groups:?}");
    let targets = world.status().network.unwrap().control_plane_targets;
    assert_eq!(targets[0].target_group_arn.as_deref(), Some(theirs.as_str()));
}

#[test]
fn a_provisioned_cluster_stays_ready_while_a_part_is_repaired() {
    let mut world = World::aged(NLB);
    let gateway = world.account.nat_gateways()[0].id.clone();
    assert!(world.account.remove_nat_gateway(&gateway));
    world.advance(Duration::from_mins(10));
    let mut fell = false;
    world.rest_watched(|world, _| {
        fell |= world.condition(ConditionType::NatGatewaysReady).starts_with("False");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready");
        assert!(world.status().provisioned());
    });
    assert!(fell);
}

/// A cluster that has a load balancer, with another spec and the endpoint that was published.
fn changed_to(spec: &str) -> World {
    let mut world = World::aged(NLB);
    world.set_spec(spec);
    world.rest_for(Duration::from_mins(30));
    world
}

#[test]
fn a_wrong_change_leaves_a_working_load_balancer_as_it_is() {
    let many: Vec<String> = (1..9).map(|port| format!("{{port: {port}}}")).collect();
    for fields in [
        "additionalListeners: [{port: 6443}]".to_owned(),
        "healthCheckProtocol: SSL, additionalListeners: [{port: 1}]".to_owned(),
        format!("additionalListeners: [{}]", many.join(", ")),
        "additionalListeners: [{port: 1, healthCheck: {port: '08132'}}]".to_owned(),
    ] {
        let before = World::aged(NLB);
        let world = changed_to(&with(&fields));
        let [is, was] = [&world, &before].map(|world| world.account.contents().vpcs[0].load_balancers.clone());
        assert_eq!(is, was, "{fields}");
        assert_eq!(world.account.target_groups().len(), 1, "{fields}");
        assert_eq!(world.condition(READY), "False/InvalidSpec", "{fields}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{fields}");
        assert_eq!(world.status().network.unwrap().control_plane_targets.len(), 1, "{fields}");
    }
}

#[test]
fn machines_keep_their_targets_whatever_the_type_becomes() {
    let world = changed_to("region: eu-west-1");
    assert_eq!(world.account.load_balancers().len(), 1);
    let targets = world.status().network.unwrap().control_plane_targets;
    assert_eq!(targets[0].target_group_arn.as_deref(), Some(group(&world, 6443).arn.as_str()));
    // The same holds if the endpoint is a host name of the user.
    let mut world = World::new(&format!("{NLB}, controlPlaneEndpoint: {{host: api.example.org, port: 6443}}"));
    world.rest();
    world.set_spec("region: eu-west-1, controlPlaneEndpoint: {host: api.example.org, port: 6443}");
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.account.load_balancers().len(), 1);
}

#[test]
fn the_listener_of_the_published_port_stays() {
    let mut world = World::aged(NLB);
    world.set_api_server_port(8443);
    world.rest_for(Duration::from_mins(15));
    let mut ports: Vec<i32> = world.account.listeners().iter().map(|listener| listener.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [6443, 8443]);
    assert!(world.account.target_groups().iter().any(|group| group.port == 6443));
    for name in ["dev-apiserver-lb", "dev-lb", "dev-controlplane"] {
        let groups = world.account.security_groups();
        let group = groups.iter().find(|group| group.name == name).unwrap();
        for port in [6443, 8443] {
            let mut rules = group.ingress.iter();
            assert!(rules.any(|rule| rule.traffic.ports == Some((port, port))), "{name} {port}");
        }
    }
}

#[test]
fn a_new_listener_that_fails_keeps_no_control_plane_machine_waiting() {
    let mut world = World::aged(NLB);
    let elsewhere = world.account.add_vpc("10.9.0.0/16", Tags::new());
    let spec = with("additionalListeners: [{port: 8132}]");
    let name = {
        let other = World::aged(&spec);
        group(&other, 8132).name
    };
    let theirs = world.account.add_target_group(&name, &elsewhere, 80, Tags::new());
    world.set_spec(&spec);
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(READY), "False/Conflict");
    assert!(world.message(READY).contains(&theirs), "{}", world.message(READY));
    let network = world.status().network.unwrap();
    assert_eq!((network.control_plane_targets.len(), network.pending_control_plane_targets), (1, None));
    assert!(world.account.remove_target_group(&theirs));
    observe_again(&mut world);
    assert_eq!(world.status().network.unwrap().control_plane_targets.len(), 2);
}

#[test]
fn a_listener_of_others_on_a_wanted_port_is_a_conflict() {
    let mut world = World::aged(NLB);
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_target_group("mine", &vpc, 8132, Tags::new());
    let arn = balancer(&world, NAME).arn;
    let listener = world.account.add_listener(&arn, 8132, &foreign, Tags::new());
    world.set_spec(&with("additionalListeners: [{port: 8132}]"));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(READY), "False/Conflict");
    assert!(world.message(READY).contains(&listener), "{}", world.message(READY));
    assert!(world.account.foreign_writes().is_empty());
}

#[test]
fn a_provisioned_cluster_stays_ready_while_aws_does_not_answer() {
    let mut world = World::aged(NLB);
    let calls = world.account.calls();
    assert!(world.account.remove_listener(&world.account.listeners()[0].arn));
    for call in calls..calls + 3 {
        world.account.fail(call, capa_fake_aws::Fault::AnswerLost);
    }
    world.advance(Duration::from_mins(10));
    world.rest_watched(|world, _| assert_eq!(world.condition(ConditionType::Ready), "True/Ready"));
    world.set_machines(&["one"]);
    world.delete();
    world.pass();
    assert_eq!(world.condition(ConditionType::Ready), "True/DeletionBlocked");
}

#[test]
fn a_rename_behind_a_host_of_the_user_keeps_the_load_balancer() {
    let spec = |name: &str| {
        format!("{}, controlPlaneEndpoint: {{host: api.example.com, port: 6443}}", with(&format!("name: {name}")))
    };
    let mut world = World::aged(&spec("one"));
    let before = world.account.contents();
    world.set_spec(&spec("two"));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.account.contents(), before);
    assert_eq!(world.condition(READY), "False/InvalidSpec");
    assert!(world.message(READY).contains("back to one"), "{}", world.message(READY));
    world.set_spec(&spec("one"));
    world.rest();
    assert_eq!(world.condition(READY), "True/Ready");
}
