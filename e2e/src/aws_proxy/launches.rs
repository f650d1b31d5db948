//! RunInstances: at most one launch for a ClientToken in a zone.

use std::time::Instant;

use super::answer::{Answer, Refusal, unreadable};
use super::caller::CallerIdentity;
use super::faults::{Ending, FaultEffect, Stage};
use super::instances::{self, Death};
use super::launch_rules;
use super::outcome::{Outcome, injected};
use super::request::Request;
use super::state::Shared;
use super::tokens::{Known, TokenKey};

/// Launches instances, or repeats the answer of the launch that had the same ClientToken.
pub(super) async fn run_instances(
    shared: &Shared,
    request: &Request,
    caller: &CallerIdentity,
    zone: &str,
) -> Result<Outcome, Refusal> {
    let Some(token) = request.parameter("ClientToken") else {
        return launch(shared, request, caller, zone).await;
    };
    let key = TokenKey { region: request.scope.region.clone(), zone: zone.to_owned(), token: token.to_owned() };
    let launching = shared.with_account(&caller.account, |account| account.launching.clone());
    let _turn = launching.lock().await;
    let known = shared.with_account(&caller.account, |account| account.tokens.look_up(&key, &request.parameters));
    match known {
        Known::Same(body) => replay(shared, &Answer { status: 200, body }, &caller.account),
        Known::Mismatch => Err(Refusal::new(
            400,
            "IdempotentParameterMismatch",
            "the client token was used in this zone with other parameters",
        )),
        Known::New => {
            let outcome = launch(shared, request, caller, zone).await?;
            if outcome.answer.succeeded() {
                let (parameters, body) = (request.parameters.clone(), outcome.answer.body.clone());
                shared.with_account(&caller.account, |account| {
                    account.tokens.remember(key, parameters, body);
                });
            }
            Ok(outcome)
        }
    }
}

async fn launch(shared: &Shared, request: &Request, caller: &CallerIdentity, zone: &str) -> Result<Outcome, Refusal> {
    let FaultEffect { ending, delay } = shared.apply_faults(caller, request, zone, Stage::Launch);
    if let Ending::Refused(code) = &ending {
        return Ok(Outcome::after(injected(code, &request.scope.service), delay));
    }
    if let Some(refusal) = launch_rules::refusal(&request.parameters) {
        return Err(refusal);
    }
    let transitions = shared.transitions(&caller.account);
    let _transition = transitions.write().await;
    let answer = shared.moto.call(&caller.account, &request.scope, &request.parameters).await?;
    if answer.succeeded() {
        let mut tree = answer.tree().map_err(unreadable)?;
        let launched = instances::addresses(&tree);
        let (now, region) = (Instant::now(), &request.scope.region);
        let death = match ending {
            Ending::Dying { reason, after } => Some(Death { reason, after }),
            _ => None,
        };
        shared.with_account(&caller.account, |account| {
            for (id, address) in launched {
                account.instances.launched(&id, region, death.clone(), now);
                account.instances.addressed(&id, address);
                account.instances.dns_records.launched(&id, request);
                account.hosts.launched(&id, request);
            }
            for instance in instances::listed(&mut tree) {
                account.computers.launched(request, instance);
            }
        });
    }
    Ok(Outcome::after(answer, delay))
}

/// The first answer with the current states of the instances.
fn replay(shared: &Shared, first: &Answer, account: &str) -> Result<Outcome, Refusal> {
    let mut tree = first.tree().map_err(unreadable)?;
    let now = Instant::now();
    for instance in instances::listed(&mut tree) {
        let id = instance.text_at(&["instanceId"]).to_owned();
        let state = shared.with_account(account, |account| account.instances.state(&id, now));
        instances::show(instance, "instanceState", state);
    }
    Ok(Outcome { replayed: true, ..first.with_tree(&tree).map_err(unreadable)?.into() })
}

/// The zone of a launch; empty where the request leaves the zone open, and for every other action.
pub(super) async fn zone(shared: &Shared, request: &Request, account: &str) -> Result<String, Refusal> {
    if request.action != "RunInstances" {
        return Ok(String::new());
    }
    let Some(subnet) = request.subnet() else {
        return Ok(request.parameter("Placement.AvailabilityZone").unwrap_or_default().to_owned());
    };
    if let Some(zone) = shared.with_account(account, |account| account.zones.get(subnet).cloned()) {
        return Ok(zone);
    }
    let question = [("Action", "DescribeSubnets"), ("Version", "2016-11-15"), ("SubnetId.1", subnet)];
    let parameters = question.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let answer = shared.moto.call(account, &request.scope, &parameters).await?;
    if !answer.succeeded() {
        return Ok(String::new()); // the launch itself will be refused because of its subnet
    }
    let tree = answer.tree().map_err(unreadable)?;
    let zone = tree.find("availabilityZone").map(|zone| zone.text.clone()).unwrap_or_default();
    shared.with_account(account, |account| account.zones.insert(subnet.to_owned(), zone.clone()));
    Ok(zone)
}
