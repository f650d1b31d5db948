use capa_cloud::{ec2, elb};

use super::*;

fn create(resource: &str, tags: Tags) -> ec2::tag::Call<String> {
    ec2::tag::Call::CreateTags { resource: resource.to_owned(), tags }
}

#[test]
fn tags_are_added_replaced_and_removed() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", Tags::from([("team".to_owned(), "a".to_owned())]));
    let added = Tags::from([("team".to_owned(), "b".to_owned()), ("stage".to_owned(), "test".to_owned())]);
    call(&account, create(&vpc, added.clone())).unwrap();
    assert_eq!(account.vpcs()[0].tags, added);
    let remove = ec2::tag::Call::DeleteTags { resource: vpc, keys: ["team", "unknown"].map(str::to_owned).into() };
    call(&account, remove).unwrap();
    assert_eq!(account.vpcs()[0].tags, Tags::from([("stage".to_owned(), "test".to_owned())]));
}

#[test]
fn unknown_resources_and_too_many_tags_are_refused() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let many = |number: usize| (0..number).map(|number| (format!("key-{number}"), String::new())).collect();
    let cases = [
        (create("vpc-9", owned()), "InvalidID.NotFound"),
        (create("unknown", owned()), "InvalidID.NotFound"),
        (create(&vpc, many(50)), "TagLimitExceeded"),
        (create(&vpc, many(49)), ""),
    ];
    for (tagging, expected) in cases {
        assert_eq!(code(call(&account, tagging.clone())), expected, "{tagging:?}");
    }
    for resource in ["arn:unknown", "name-of-a-classic-load-balancer"] {
        let add = elb::tag::Call::AddTags { resource: resource.to_owned(), tags: owned() };
        assert_eq!(code(call(&account, add)), "LoadBalancerNotFound", "{resource}");
    }
}
