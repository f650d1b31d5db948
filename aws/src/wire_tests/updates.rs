//! Changes of running instances.

use capa_api::common::Tags;
use capa_api::machine::{HttpTokens, Switch};
use capa_cloud::{DnsRecords, ErrorClass, InstanceMetadataOptions, InstanceUpdates, MachineClouds, PrimaryInterface};

use super::fake::{Answer, CLUSTER, Fake, REGION, at_its_turn, identity, machine};

const RESOURCES: [&str; 3] = ["i-1", "vol-1", "eni-1"];

fn resources() -> Vec<String> {
    RESOURCES.map(str::to_owned).into()
}

fn tags() -> Tags {
    [("team".to_owned(), "a".to_owned())].into()
}

fn interface() -> PrimaryInterface {
    PrimaryInterface { id: "eni-1".to_owned(), security_group_ids: vec!["sg-1".to_owned(), "sg-2".to_owned()] }
}

/// Makes each change of an instance.
pub(super) async fn change_instance(machines: &dyn InstanceUpdates) {
    let key = machine("one");
    let (resources, tags, interface) = (resources(), tags(), interface());
    let records = DnsRecords { a: Some(true), aaaa: None };
    let set = at_its_turn(async || machines.set_tags(&key, &resources, &tags).await);
    set.await.unwrap();
    let removed = at_its_turn(async || machines.remove_tags(&key, &resources, &tags).await);
    removed.await.unwrap();
    let grouped = at_its_turn(async || machines.set_security_groups(&key, "i-1", &interface).await);
    grouped.await.unwrap();
    let named = at_its_turn(async || machines.set_dns_records(&key, "i-1", records).await);
    named.await.unwrap();
    let options = InstanceMetadataOptions {
        http_endpoint: Switch::Enabled,
        http_tokens: HttpTokens::Required,
        http_put_response_hop_limit: 2,
        http_protocol_ipv6: Switch::Disabled,
        instance_metadata_tags: Switch::Disabled,
    };
    let restored = at_its_turn(async || machines.set_metadata_options(&key, "i-1", &options).await);
    restored.await.unwrap();
}

fn done(action: &str) -> Answer {
    (200, format!("<{action}Response><return>true</return></{action}Response>"))
}

#[tokio::test]
async fn a_change_is_one_call_for_all_that_belongs_to_an_instance() {
    let fake = Fake::start(|call| done(&call.action)).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    change_instance(machines.as_ref()).await;
    for action in ["CreateTags", "DeleteTags"] {
        let mut calls = fake.calls_of(action);
        assert_eq!(calls.len(), 1, "{action}");
        let call = calls.remove(0);
        let named = ["ResourceId.1", "ResourceId.2", "ResourceId.3"].map(|field| call.field(field));
        assert_eq!(named, RESOURCES, "{action}");
        // Without the value, the call would remove a tag that somebody else has set in the meantime.
        assert_eq!((call.field("Tag.1.Key"), call.field("Tag.1.Value")), ("team", "a"), "{action}");
    }
    let grouped = fake.calls_of("ModifyNetworkInterfaceAttribute").remove(0);
    assert_eq!(grouped.field("NetworkInterfaceId"), "eni-1");
    assert_eq!((grouped.field("SecurityGroupId.1"), grouped.field("SecurityGroupId.2")), ("sg-1", "sg-2"));
    let restored = fake.calls_of("ModifyInstanceMetadataOptions").remove(0);
    for (field, value) in [
        ("InstanceId", "i-1"),
        ("HttpEndpoint", "enabled"),
        ("HttpTokens", "required"),
        ("HttpPutResponseHopLimit", "2"),
        ("HttpProtocolIpv6", "disabled"),
        ("InstanceMetadataTags", "disabled"),
    ] {
        assert_eq!(restored.field(field), value, "{field}");
    }
    let named = fake.calls_of("ModifyPrivateDnsNameOptions").remove(0);
    assert_eq!(named.field("EnableResourceNameDnsARecord"), "true");
    assert_eq!(named.field("EnableResourceNameDnsAAAARecord"), "", "what has no value stays");
}

#[tokio::test]
async fn too_many_groups_are_no_transient_failure() {
    let answer = "<Response><Errors><Error><Code>SecurityGroupsPerInterfaceLimitExceeded</Code>\
                  <Message>no</Message></Error></Errors><RequestID>r</RequestID></Response>";
    let fake = Fake::start(move |_| (400, answer.to_owned())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let (key, interface) = (machine("one"), interface());
    let refused = at_its_turn(async || machines.set_security_groups(&key, "i-1", &interface).await);
    assert_eq!(refused.await.unwrap_err().class, ErrorClass::QuotaExceeded);
}
