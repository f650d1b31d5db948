//! Dedicated Hosts of machines.

use capa_cloud::{CloudError, ErrorClass, HostRequest, MachineCloud, MachineClouds, Query};

use super::fake::{Answer, CLUSTER, Call, Fake, REGION, answer, at_its_turn, identity, machine};

fn request() -> HostRequest {
    HostRequest {
        client_token: "uid-host-1".to_owned(),
        availability_zone: "eu-west-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        tags: [("MachineName".to_owned(), "team-a/m".to_owned())].into(),
    }
}

/// The answers to the calls.
pub(super) fn serve(call: &Call) -> Answer {
    match call.action.as_str() {
        "AllocateHosts" => answer("AllocateHosts", "<hostIdSet><item>h-1</item></hostIdSet>", None),
        "ReleaseHosts" => answer("ReleaseHosts", "<successful><item>h-1</item></successful>", None),
        other => answer(other, "", None),
    }
}

/// Makes each call about hosts.
pub(super) async fn allocate_and_release(machines: &dyn MachineCloud) {
    let (key, request) = (machine("one"), request());
    machines.hosts(&Query::filter("tag-key", ["MachineName"])).await.unwrap();
    let allocated = at_its_turn(async || machines.allocate_host(&key, &request).await);
    assert_eq!(allocated.await.unwrap(), "h-1");
    release(machines).await.unwrap();
}

async fn release(machines: &dyn MachineCloud) -> Result<(), CloudError> {
    let key = machine("one");
    at_its_turn(async || machines.release_host(&key, "h-1").await).await
}

#[tokio::test]
async fn a_host_is_requested_with_token_zone_type_and_tags() {
    let fake = Fake::start(serve).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    allocate_and_release(machines.as_ref()).await;
    let allocated = fake.calls_of("AllocateHosts").remove(0);
    for (field, value) in [
        ("ClientToken", "uid-host-1"),
        ("AvailabilityZone", "eu-west-1a"),
        ("InstanceType", "m5.large"),
        ("Quantity", "1"),
        ("AutoPlacement", "off"),
        ("TagSpecification.1.ResourceType", "dedicated-host"),
        ("TagSpecification.1.Tag.1.Key", "MachineName"),
        ("TagSpecification.1.Tag.1.Value", "team-a/m"),
    ] {
        assert_eq!(allocated.field(field), value, "{field}");
    }
    let looked_up = fake.calls_of("DescribeHosts").remove(0);
    assert_eq!(looked_up.field("Filter.1.Name"), "tag-key");
    assert_eq!(fake.calls_of("ReleaseHosts").remove(0).field("HostId.1"), "h-1");
}

#[tokio::test]
async fn a_host_is_shown_with_its_token_and_whether_it_is_released() {
    let fake = Fake::start(|call| {
        let host = |id: &str, state: &str| {
            format!(
                "<item><hostId>{id}</hostId><clientToken>uid-host-1</clientToken><state>{state}</state>\
                 <availabilityZone>eu-west-1a</availabilityZone>\
                 <hostProperties><instanceType>m5.large</instanceType></hostProperties>\
                 <tagSet><item><key>team</key><value>a</value></item></tagSet></item>"
            )
        };
        let hosts = format!("{}{}", host("h-1", "available"), host("h-2", "released"));
        answer(&call.action, &format!("<hostSet>{hosts}</hostSet>"), None)
    })
    .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let hosts = machines.hosts(&Query::default()).await.unwrap();
    assert_eq!(hosts[0].client_token.as_deref(), Some("uid-host-1"));
    assert_eq!((hosts[0].availability_zone.as_str(), hosts[0].instance_type.as_str()), ("eu-west-1a", "m5.large"));
    assert_eq!(hosts[0].tags.get("team").map(String::as_str), Some("a"));
    assert_eq!((hosts[0].is_released(), hosts[1].is_released()), (false, true));
}

#[tokio::test]
async fn a_host_that_is_kept_is_an_error_with_awss_reason() {
    let fake = Fake::start(|call| {
        let error = "<error><code>Client.InvalidHost.Occupied</code><message>occupied by i-1</message></error>";
        let kept = format!("<unsuccessful><item>{error}<resourceId>h-1</resourceId></item></unsuccessful>");
        answer(&call.action, &kept, None)
    })
    .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let kept = release(machines.as_ref()).await.unwrap_err();
    assert_eq!(kept.class, ErrorClass::Invalid);
    assert_eq!(kept.code.as_deref(), Some("InvalidHost.Occupied"));
    assert_eq!(kept.message, "occupied by i-1");
}

#[tokio::test]
async fn an_allocation_without_an_answer_is_not_repeated_by_itself() {
    let fake = Fake::start(|_| (503, String::new())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let (key, request) = (machine("one"), request());
    let lost = at_its_turn(async || machines.allocate_host(&key, &request).await).await;
    assert_eq!(lost.unwrap_err().class, ErrorClass::NoAnswer);
    assert_eq!(fake.calls_of("AllocateHosts").len(), 1);
}
