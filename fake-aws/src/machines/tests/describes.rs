use super::*;

#[test]
fn a_stale_describe_shows_the_former_state() {
    let mut world = Fixture::new();
    let id = world.run(&request("token", "subnet-a")).unwrap().id;
    world.pass(20);
    world.terminate(&[&id]).unwrap();
    world.pass(40);
    assert_eq!(world.states(), [InstanceState::Terminated]);
    world.behaviour().staleness = Duration::from_secs(20);
    assert_eq!(world.states(), [InstanceState::ShuttingDown]);
    let running = Query::filter("instance-state-name", ["running"]);
    assert_eq!(world.describe(&running), []);
    world.behaviour().staleness = Duration::from_secs(41);
    assert_eq!(world.states(), [InstanceState::Pending]);
    world.behaviour().staleness = Duration::from_secs(61);
    assert_eq!(world.states(), []);
    let (now, seen) = (world.now, Timestamp::UNIX_EPOCH);
    let shown = world.client().as_of(seen).describe_instances(now, &Query::default()).unwrap();
    assert_eq!(shown[0].state, InstanceState::Pending);
}

#[test]
fn only_identifying_tags_are_shown_and_all_can_be_filtered_by() {
    let mut world = Fixture::new();
    world.run(&request("token", "subnet-a")).unwrap();
    let shown = world.describe(&Query::filter("tag:cost", ["high"])).remove(0);
    assert_eq!(shown.tags.into_keys().collect::<Vec<_>>(), ["MachineName"]);
}

#[test]
fn infrastructure_is_found_by_id_vpc_zone_name_and_tag() {
    let mut world = Fixture::new();
    world
        .region()
        .tag("subnet-b", "Name", "second")
        .vpc("vpc-2", "10.1.0.0/16")
        .security_group("sg-2", "vpc-2", "nodes");
    let now = world.now;
    let mut client = world.client();
    let subnets = |query: Query, client: &mut Client<'_>| {
        let found = client.describe_subnets(now, &query).unwrap();
        found.into_iter().map(|subnet| subnet.id).collect::<Vec<_>>()
    };
    assert_eq!(subnets(Query::filter("availability-zone", ["eu-west-1a"]), &mut client), ["subnet-a", "subnet-c"]);
    assert_eq!(subnets(Query::filter("tag:Name", ["second"]), &mut client), ["subnet-b"]);
    assert_eq!(subnets(Query::filter("subnet-id", ["subnet-x"]), &mut client), [""; 0]);
    let groups = Query::filter("group-name", ["nodes"]).and("vpc-id", ["vpc-2"]);
    let groups = client.describe_security_groups(now, &groups).unwrap();
    assert_eq!(groups[0].id, "sg-2");
    let vpcs = client.describe_vpcs(now, &Query::filter("cidr", ["10.1.0.0/16"])).unwrap();
    assert_eq!(vpcs[0].id, "vpc-2");
    let main = Query::filter("association.main", ["true"]).and("vpc-id", ["vpc-1"]);
    let tables = client.describe_route_tables(now, &main).unwrap();
    assert_eq!(tables[0].id, "rtb-1");
    let images = client.describe_images(now, &Query::filter("image-id", ["ami-1"])).unwrap();
    assert_eq!(images[0].root_device_name.as_deref(), Some("/dev/xvda"));
    world.region().remove("ami-1");
    let images = world.client().describe_images(now, &Query::default()).unwrap();
    assert_eq!(images, []);
}
