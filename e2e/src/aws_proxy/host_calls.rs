//! The calls about Dedicated Hosts: the client tokens of allocations, and hosts that EC2 keeps because an instance runs
//! on them or because of their minimum allocation period.

use std::time::Instant;

use super::answer::{Answer, Refusal, unreadable};
use super::caller::CallerIdentity;
use super::hosts::Allocation;
use super::instances::TERMINATED;
use super::request::Request;
use super::state::{AccountState, Shared};
use super::tokens::TokenKey;
use super::xml::Element;

/// AllocateHosts: at most one allocation for a ClientToken in a region and zone.
pub(super) async fn allocate(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let Some(token) = request.parameter("ClientToken").map(str::to_owned) else {
        return shared.moto.pass_on(&caller.account, request).await;
    };
    let key = TokenKey {
        region: request.scope.region.clone(),
        zone: request.parameter("AvailabilityZone").unwrap_or_default().to_owned(),
        token: token.clone(),
    };
    let launching = shared.with_account(&caller.account, |account| account.launching.clone());
    let _turn = launching.lock().await;
    let known = shared.with_account(&caller.account, |account| {
        let first = account.hosts.allocations.get(&key)?;
        Some((first.parameters == request.parameters, first.answer.clone()))
    });
    match known {
        Some((true, body)) => return Ok(Answer { status: 200, body }),
        Some((false, _)) => {
            return Err(Refusal::new(
                400,
                "IdempotentParameterMismatch",
                "the client token was used with other parameters",
            ));
        }
        None => {}
    }
    let answer = shared.moto.call(&caller.account, &request.scope, &request.parameters).await?;
    if answer.succeeded() {
        let tree = answer.tree().map_err(unreadable)?;
        let ids = tree.child("hostIdSet").map(|set| set.children.as_slice());
        let ids: Vec<String> = ids.unwrap_or_default().iter().map(|id| id.text.clone()).collect();
        let allocation = Allocation { parameters: request.parameters.clone(), answer: answer.body.clone() };
        shared.with_account(&caller.account, |account| {
            account.hosts.tokens.extend(ids.into_iter().map(|id| (id, token.clone())));
            account.hosts.allocations.insert(key, allocation);
        });
    }
    Ok(answer)
}

/// DescribeHosts, with the client tokens.
pub(super) async fn describe(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let show = |tree: &mut Element| {
        let hosts = tree.child_mut("hostSet").map(|set| set.children.as_mut_slice());
        for host in hosts.unwrap_or_default() {
            let id = host.text_at(&["hostId"]).to_owned();
            let token = shared.with_account(&caller.account, |account| account.hosts.tokens.get(&id).cloned());
            if let Some(token) = token {
                host.set(Element::text("clientToken", &token));
            }
        }
    };
    shared.moto.edit(&caller.account, request, show).await
}

/// ReleaseHosts: hosts that EC2 keeps are listed with the reason.
pub(super) async fn release(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let id = request.parameter("HostId.1").unwrap_or_default().to_owned();
    let reason = shared.with_account(&caller.account, |account| kept_because(account, &id));
    let Some((code, message)) = reason else {
        return shared.moto.pass_on(&caller.account, request).await;
    };
    let error = Element::parent("error", vec![Element::text("code", code), Element::text("message", &message)]);
    let item = Element::parent("item", vec![error, Element::text("resourceId", &id)]);
    let list = Element::parent("unsuccessful", vec![item]);
    Ok(Answer::of("ReleaseHosts", vec![list]))
}

/// The code and the message of a host that is not released.
fn kept_because(account: &AccountState, id: &str) -> Option<(&'static str, String)> {
    let now = Instant::now();
    let hosts = &account.hosts;
    if !hosts.tokens.contains_key(id) {
        return Some(("Client.InvalidHostID.NotFound", format!("The host ID '{id}' does not exist")));
    }
    let mut occupants = hosts.occupants.iter().filter(|(_, host)| *host == id);
    if let Some((instance, _)) = occupants.find(|(instance, _)| account.instances.state(instance, now) != TERMINATED) {
        let message = format!("Dedicated host {id} cannot be released as it is occupied by {instance}");
        return Some(("Client.InvalidHost.Occupied", message));
    }
    hosts.kept.contains(id).then(|| {
        let message = format!("Dedicated host {id} cannot be released before its minimum allocation period ends");
        ("Client.InvalidHost.MinimumAllocationPeriod", message)
    })
}
