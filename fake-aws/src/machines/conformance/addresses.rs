//! Elastic IPs.

use capa_cloud::{CloudError, ElasticIp, ElasticIpAnswer, ElasticIpCall, Query};

use super::{Deviation, Ec2UnderTest, expect, expect_refusal, launched};

const KEY: &str = "MachineName";

async fn allocated(ec2: &dyn Ec2UnderTest, name: &str) -> Result<String, Deviation> {
    let call = ElasticIpCall::Allocate { pool: None, tags: [(KEY.to_owned(), name.to_owned())].into() };
    match ec2.change_elastic_ip(&call).await? {
        ElasticIpAnswer::Allocated { allocation_id, .. } => Ok(allocation_id),
        ElasticIpAnswer::Done => Err(Deviation("the answer shows no address".to_owned())),
    }
}

async fn tagged(ec2: &dyn Ec2UnderTest, name: &str) -> Result<Vec<ElasticIp>, Deviation> {
    Ok(ec2.elastic_ips(&Query::filter(format!("tag:{KEY}"), [name])).await?)
}

async fn associate(
    ec2: &dyn Ec2UnderTest,
    allocation_id: &str,
    interface_id: &str,
) -> Result<ElasticIpAnswer, CloudError> {
    let call =
        ElasticIpCall::Associate { allocation_id: allocation_id.to_owned(), interface_id: interface_id.to_owned() };
    ec2.change_elastic_ip(&call).await
}

/// The ids of a new instance, and of its primary interface.
async fn launched_with_interface(ec2: &dyn Ec2UnderTest, token: &str) -> Result<(String, String), Deviation> {
    let id = launched(ec2, token).await?;
    let shown = ec2.describe_instances(&Query::filter("instance-id", [&id])).await?;
    let interface = shown.into_iter().find_map(|instance| instance.primary_interface);
    let interface = interface.ok_or_else(|| Deviation(format!("{id} shows no interface")))?;
    Ok((id, interface.id))
}

async fn release(ec2: &dyn Ec2UnderTest, allocation_id: &str) -> Result<ElasticIpAnswer, CloudError> {
    let call = ElasticIpCall::Release { allocation_id: allocation_id.to_owned() };
    ec2.change_elastic_ip(&call).await
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: AllocateAddress is not among the actions
/// that take a client token.
pub(super) async fn a_repeated_allocation_makes_a_second_address(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let first = allocated(ec2, "one").await?;
    let second = allocated(ec2, "one").await?;
    expect("another address", first == second, false)?;
    expect("the addresses", tagged(ec2, "one").await?.len(), 2)?;
    expect("those of another name", tagged(ec2, "two").await?.len(), 0)
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html>: an address that is associated must
/// be disassociated before it is released.
pub(super) async fn an_associated_address_is_not_released(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let (instance, interface) = launched_with_interface(ec2, "one").await?;
    let id = allocated(ec2, "one").await?;
    associate(ec2, &id, &interface).await?;
    associate(ec2, &id, &interface).await?;
    let shown = tagged(ec2, "one").await?.into_iter().next();
    let holder = shown.as_ref().and_then(|address| address.instance_id.clone());
    expect("the instance", holder, Some(instance))?;
    expect_refusal("the release", release(ec2, &id).await, "InvalidIPAddress.InUse")?;
    let free = allocated(ec2, "two").await?;
    release(ec2, &free).await?;
    expect("the addresses", tagged(ec2, "two").await?.len(), 0)?;
    expect_refusal("another release", release(ec2, &free).await, "InvalidAllocationID.NotFound")
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AssociateAddress.html>: without reassociation, an
/// address of another instance is refused.
pub(super) async fn the_address_of_another_instance_stays_there(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let (first, interface) = launched_with_interface(ec2, "one").await?;
    let (_, other) = launched_with_interface(ec2, "two").await?;
    let id = allocated(ec2, "one").await?;
    associate(ec2, &id, &interface).await?;
    let taken = associate(ec2, &id, &other).await;
    expect_refusal("the second association", taken, "Resource.AlreadyAssociated")?;
    let shown = tagged(ec2, "one").await?.into_iter().next();
    expect("the instance", shown.and_then(|address| address.instance_id), Some(first))
}
