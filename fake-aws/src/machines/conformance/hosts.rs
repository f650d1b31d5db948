//! Dedicated Hosts.

use capa_api::machine::{HostAffinity, Tenancy};

use capa_cloud::{Host, HostPlacement, HostRequest, InstanceState, LaunchOptions, LaunchRequest, Query};

use super::{Deviation, Ec2UnderTest, expect, expect_refusal};

const KEY: &str = "MachineName";

fn request(ec2: &dyn Ec2UnderTest, token: &str) -> HostRequest {
    HostRequest {
        client_token: token.to_owned(),
        availability_zone: ec2.place().zone.clone(),
        instance_type: ec2.place().instance_type.clone(),
        tags: [(KEY.to_owned(), token.to_owned())].into(),
    }
}

async fn tagged(ec2: &dyn Ec2UnderTest) -> Result<Vec<Host>, Deviation> {
    Ok(ec2.describe_hosts(&Query::filter("tag-key", [KEY])).await?)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: a successful request that is repeated
/// with the same token and parameters succeeds without further actions.
pub(super) async fn a_repeated_allocation_makes_no_second_host(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let first = ec2.allocate_host(&request(ec2, "one")).await?;
    let second = ec2.allocate_host(&request(ec2, "one")).await?;
    expect("the second answer", second, first.clone())?;
    let other = ec2.allocate_host(&request(ec2, "two")).await?;
    let hosts = tagged(ec2).await?;
    expect("the hosts", hosts.len(), 2)?;
    let token = |id: &str| hosts.iter().find(|host| host.id == id)?.client_token.clone();
    expect("the token of the first", token(&first).as_deref(), Some("one"))?;
    expect("the token of the other", token(&other).as_deref(), Some("two"))
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: other parameters with the same token are
/// an `IdempotentParameterMismatch`.
pub(super) async fn a_known_token_takes_no_other_host(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    ec2.allocate_host(&request(ec2, "one")).await?;
    let other = HostRequest { instance_type: "m5.large".to_owned(), ..request(ec2, "one") };
    let refused = ec2.allocate_host(&other).await;
    expect_refusal("another type", refused, "IdempotentParameterMismatch")?;
    expect("the hosts", tagged(ec2).await?.len(), 1)
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeHosts.html>: the filters, and the state of a
/// released host.
pub(super) async fn hosts_are_found_by_the_key_of_a_tag(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = ec2.allocate_host(&request(ec2, "one")).await?;
    let hosts = tagged(ec2).await?;
    expect("the id", hosts.first().map(|host| host.id.clone()), Some(id.clone()))?;
    let tag = hosts.first().and_then(|host| host.tags.get(KEY).cloned());
    expect("the tag", tag.as_deref(), Some("one"))?;
    let zone = hosts.first().map(|host| host.availability_zone.clone());
    expect("the zone", zone, Some(ec2.place().zone.clone()))?;
    let others = ec2.describe_hosts(&Query::filter("tag-key", ["other"])).await?;
    expect("those with another tag", others.len(), 0)?;
    ec2.release_host(&id).await?;
    let living = tagged(ec2).await?.iter().filter(|host| !host.is_released()).count();
    expect("those that are not released", living, 0)
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseHosts.html>: running instances must be terminated
/// before the host can be released.
pub(super) async fn an_occupied_host_is_not_released(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = ec2.allocate_host(&request(ec2, "one")).await?;
    let launch = LaunchRequest {
        options: LaunchOptions {
            tenancy: Some(Tenancy::Host),
            host: Some(HostPlacement { id: id.clone(), affinity: HostAffinity::Host }),
            ..LaunchOptions::default()
        },
        ..ec2.place().request("launch")
    };
    let instance = ec2.run_instances(&launch).await?.id;
    let refused = ec2.release_host(&id).await;
    expect_refusal("while an instance runs", refused, "InvalidHost.Occupied")?;
    ec2.terminate_instances(std::slice::from_ref(&instance)).await?;
    let ended = super::state(ec2, &instance).await?;
    expect("the instance", ended, Some(InstanceState::Terminated))?;
    Ok(ec2.release_host(&id).await?)
}
