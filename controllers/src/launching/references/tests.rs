use crate::testing::read;

use super::*;

fn interface(id: &str, groups: &[&str]) -> NetworkInterface {
    NetworkInterface {
        id: id.into(),
        subnet_id: "subnet-0000000a".into(),
        availability_zone: "eu-west-1a".into(),
        security_group_ids: groups.iter().map(|id| (*id).to_owned()).collect(),
        ..NetworkInterface::default()
    }
}

#[test]
fn the_first_interface_places_and_all_give_their_groups() {
    let interfaces = OwnInterfaces(vec![
        interface("eni-0000000a", &["sg-0000000a", "sg-0000000b"]),
        interface("eni-0000000b", &["sg-0000000b", "sg-0000000c"]),
    ]);
    let placement = interfaces.placement(Some("eu-west-1a"), Some(&["subnet-0000000a"])).unwrap();
    assert_eq!(placement.subnet_id, "subnet-0000000a");
    assert_eq!(placement.availability_zone.as_deref(), Some("eu-west-1a"));
    assert_eq!(placement.security_group_ids, ["sg-0000000a", "sg-0000000b", "sg-0000000c"]);
    assert_eq!(interfaces.zone_of("subnet-0000000a"), Some("eu-west-1a"));
    assert_eq!(interfaces.zone_of("subnet-0000000b"), None);
}

#[test]
fn an_interface_that_cannot_be_used_is_a_conflict() {
    let attached = NetworkInterface { instance_id: Some("i-00000001".into()), ..interface("eni-0000000b", &[]) };
    let both = OwnInterfaces(vec![interface("eni-0000000a", &[]), attached]);
    let one = OwnInterfaces(vec![interface("eni-0000000a", &[])]);
    for (problem, parts) in [
        (both.placement(None, None), ["eni-0000000b", "i-00000001"]),
        (one.placement(Some("eu-west-1b"), None), ["eu-west-1a", "eu-west-1b"]),
        (one.placement(None, Some(&["subnet-0000000b"])), ["subnet-0000000a", "spec.subnet"]),
    ] {
        let problem = problem.unwrap_err();
        assert_eq!(problem.reason, Reason::Conflict);
        for part in parts {
            assert!(problem.message.contains(part), "{part}: {}", problem.message);
        }
    }
}

#[test]
fn a_reservation_precedes_a_host_and_empty_ids_are_absent() {
    let named = |fields: &str| capacity_source(&read(&format!("{{instanceType: m6i.large, {fields}}}")));
    let reservation = CapacitySource::Reservation("cr-1".into());
    assert_eq!(named("capacityReservationId: cr-1, hostID: h-1"), Some(reservation));
    assert_eq!(named("capacityReservationId: '', hostID: h-1"), Some(CapacitySource::Host("h-1".into())));
    assert_eq!(named("hostID: ''"), None);
}

#[test]
fn only_subnets_in_the_zone_of_the_capacity_remain() {
    let network = read(
        "{subnets: [{id: subnet-a, availabilityZone: eu-west-1a}, {id: subnet-b, availabilityZone: eu-west-1b}, \
         {id: subnet-x}]}",
    );
    let restricted = |zone: &str, failure_domain| {
        let zone = CapacityZone { zone: zone.to_owned(), source: CapacitySource::Reservation("cr-1".into()) };
        let network = zone.restrict(&network, failure_domain);
        network.map(|network| network.subnets.into_iter().map(|subnet| subnet.id).collect::<Vec<_>>())
    };
    assert_eq!(restricted("eu-west-1b", None).unwrap(), ["subnet-b", "subnet-x"]);
    assert_eq!(restricted("eu-west-1b", Some("eu-west-1b")).unwrap(), ["subnet-b", "subnet-x"]);
    let elsewhere = restricted("eu-west-1b", Some("eu-west-1a")).unwrap_err().message;
    assert!(elsewhere.contains("failure domain eu-west-1a, and capacity reservation cr-1 is in eu-west-1b"));
}

#[test]
fn a_zone_without_a_subnet_is_named() {
    let network = read("{subnets: [{id: subnet-a, availabilityZone: eu-west-1a}]}");
    let zone = CapacityZone { zone: "eu-west-1b".to_owned(), source: CapacitySource::Host("h-1".into()) };
    let problem = zone.restrict(&network, None).unwrap_err();
    let expected = "no subnet of the machine's network is in eu-west-1b, the zone of Dedicated Host h-1";
    assert!(problem.message.starts_with(expected), "{}", problem.message);
}
