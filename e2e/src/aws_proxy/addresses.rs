//! Elastic IPs, as far as moto lacks them: public IPv4 pools, the instance of an interface that gets an address, and
//! the refusals of what an address cannot do.

use std::time::Instant;

use super::answer::{Answer, Refusal};
use super::caller::CallerIdentity;
use super::instances::PENDING;
use super::request::Request;
use super::state::{AccountState, Shared};
use super::xml::Element;

/// DescribePublicIpv4Pools: the pools that the request names.
pub(super) fn describe_pools(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let named = request.parameters.iter().filter(|(key, _)| key.starts_with("PoolId."));
    let mut items = Vec::new();
    for (_, pool) in named {
        let free = shared.with_account(&caller.account, |account| account.address_pools.get(pool).copied());
        let free = free.ok_or_else(|| unknown_pool(pool))?;
        let fields =
            vec![Element::text("poolId", pool), Element::text("totalAvailableAddressCount", &free.to_string())];
        items.push(Element::parent("item", fields));
    }
    let set = Element::parent("publicIpv4PoolSet", items);
    Ok(Answer::of("DescribePublicIpv4Pools", vec![set]))
}

/// AllocateAddress: an address of a pool is taken from the pool.
pub(super) async fn allocate(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let Some(pool) = request.parameter("PublicIpv4Pool") else {
        return shared.moto.pass_on(&caller.account, request).await;
    };
    shared.with_account(&caller.account, |account| {
        let free = account.address_pools.get_mut(pool).ok_or_else(|| unknown_pool(pool))?;
        *free = free.checked_sub(1).ok_or_else(|| Refusal::injected("InsufficientAddressCapacity", "ec2"))?;
        Ok::<_, Refusal>(())
    })?;
    let answer = shared.moto.call(&caller.account, &request.scope, &request.parameters).await;
    let tree = answer.as_ref().ok().and_then(|answer| answer.tree().ok());
    let id = tree.as_ref().and_then(|tree| tree.find("allocationId")).map(|id| id.text.clone());
    shared.with_account(&caller.account, |account| match id {
        Some(id) => drop(account.pool_of_address.insert(id, pool.to_owned())),
        None => account.free_address(pool),
    });
    answer
}

/// AssociateAddress with an interface: DescribeAddresses shows the instance, too, to which the interface is attached.
/// moto shows it only if the call names the instance.
pub(super) async fn associate(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let Some(interface) = request.parameter("NetworkInterfaceId") else {
        return shared.moto.pass_on(&caller.account, request).await;
    };
    let named = [("NetworkInterfaceId.1".to_owned(), interface.to_owned())];
    let tree = shared.moto.ask(&caller.account, &request.scope, "DescribeNetworkInterfaces", named).await?;
    let instance = tree.as_ref().and_then(|tree| tree.find("attachment")?.find("instanceId"));
    let mut parameters = request.parameters.clone();
    if let Some(instance) = instance {
        let state = |account: &mut AccountState| account.instances.state(&instance.text, Instant::now());
        if shared.with_account(&caller.account, state) == PENDING {
            let words = format!("The pending instance {} is not in a valid state", instance.text);
            return Err(Refusal::new(400, "IncorrectInstanceState", words));
        }
        parameters.remove("NetworkInterfaceId");
        parameters.insert("InstanceId".to_owned(), instance.text.clone());
    }
    shared.moto.call(&caller.account, &request.scope, &parameters).await
}

/// ReleaseAddress: refused while the address is associated.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html>
pub(super) async fn release(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let id = request.parameter("AllocationId").unwrap_or_default();
    let named = [("AllocationId.1".to_owned(), id.to_owned())];
    let tree = shared.moto.ask(&caller.account, &request.scope, "DescribeAddresses", named).await?;
    let association = tree.as_ref().and_then(|tree| tree.find("associationId"));
    if association.is_some_and(|id| !id.text.is_empty()) {
        let words = format!("the address with allocation id {id} is associated");
        return Err(Refusal::new(400, "InvalidIPAddress.InUse", words));
    }
    let answer = shared.moto.pass_on(&caller.account, request).await?;
    shared.with_account(&caller.account, |account| {
        if answer.succeeded()
            && let Some(pool) = account.pool_of_address.remove(id)
        {
            account.free_address(&pool);
        }
    });
    Ok(answer)
}

fn unknown_pool(pool: &str) -> Refusal {
    let words = format!("the pool id '{pool}' does not exist");
    Refusal::new(400, "InvalidPublicIpv4PoolID.NotFound", words)
}
