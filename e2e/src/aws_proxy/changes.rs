//! Changes of instances after their launch (stop, start, terminate), and their description.

use std::time::Instant;

use super::answer::{Answer, Refusal};
use super::instances::{self, Instances, PENDING, SHUTTING_DOWN, STOPPED, STOPPING, State, TERMINATED};
use super::pipeline::{Caller, unreadable};
use super::request::Request;
use super::state::Shared;

/// TerminateInstances; EC2 accepts it in every state.
pub(super) async fn terminate(shared: &Shared, request: &Request, caller: &Caller) -> Result<Answer, Refusal> {
    change(shared, request, caller, |instances, id, now| {
        let before = instances.state(id, now);
        instances.terminated(id, now);
        (
            before,
            if before == TERMINATED {
                TERMINATED
            } else {
                SHUTTING_DOWN
            },
        )
    })
    .await
}

/// StopInstances, for instances that are neither shutting down nor terminated.
pub(super) async fn stop(shared: &Shared, request: &Request, caller: &Caller) -> Result<Answer, Refusal> {
    refuse_in(shared, request, caller, &[SHUTTING_DOWN, TERMINATED])?;
    change(shared, request, caller, |instances, id, now| {
        let before = instances.state(id, now);
        instances.stopped(id, now);
        (before, if before == STOPPED { STOPPED } else { STOPPING })
    })
    .await
}

/// StartInstances, for stopped instances.
pub(super) async fn start(shared: &Shared, request: &Request, caller: &Caller) -> Result<Answer, Refusal> {
    refuse_in(shared, request, caller, &[STOPPING, SHUTTING_DOWN, TERMINATED])?;
    change(shared, request, caller, |instances, id, now| {
        let before = instances.state(id, now);
        instances.started(id, now);
        (before, if before == STOPPED { PENDING } else { before })
    })
    .await
}

/// Forwards the change to moto, records it, and answers with the states before and after as EC2 would.
async fn change(
    shared: &Shared,
    request: &Request,
    caller: &Caller,
    note: impl Fn(&mut Instances, &str, Instant) -> (State, State),
) -> Result<Answer, Refusal> {
    bury_the_dead(shared, request, caller).await?;
    refuse_hidden(shared, request, caller)?;
    let answer = shared
        .moto
        .call(&caller.account, &request.scope, &request.parameters)
        .await?;
    if !answer.succeeded() {
        return Ok(answer);
    }
    let mut tree = answer.tree().map_err(unreadable)?;
    let now = Instant::now();
    for instance in instances::listed(&mut tree) {
        let id = instance.text_at(&["instanceId"]).to_owned();
        let (before, after) = shared.with_account(&caller.account, |account| note(&mut account.instances, &id, now));
        instances::show(instance, "previousState", before);
        instances::show(instance, "currentState", after);
    }
    answer.with_tree(&tree).map_err(unreadable)
}

/// Refuses the whole call when it names an instance that is hidden from the caller.
fn refuse_hidden(shared: &Shared, request: &Request, caller: &Caller) -> Result<(), Refusal> {
    let now = Instant::now();
    let hidden = |id: &str| shared.with_account(&caller.account, |account| account.instances.is_hidden(id, now));
    match request.instance_ids().find(|id| !caller.is_user && hidden(id)) {
        None => Ok(()),
        Some(id) => {
            let message = format!("The instance ID '{id}' does not exist");
            Err(Refusal::new(400, "InvalidInstanceID.NotFound", message))
        }
    }
}

fn refuse_in(shared: &Shared, request: &Request, caller: &Caller, states: &[State]) -> Result<(), Refusal> {
    let now = Instant::now();
    let state = |id: &str| shared.with_account(&caller.account, |account| account.instances.state(id, now));
    match request.instance_ids().find(|id| states.contains(&state(id))) {
        None => Ok(()),
        Some(id) => {
            let message = format!(
                "The instance '{id}' is not in a state from which it can do this: {}",
                state(id).name
            );
            Err(Refusal::new(400, "IncorrectInstanceState", message))
        }
    }
}

/// DescribeInstances, with the states of this proxy and without hidden instances.
pub(super) async fn describe(shared: &Shared, request: &Request, caller: &Caller) -> Result<Answer, Refusal> {
    bury_the_dead(shared, request, caller).await?;
    refuse_hidden(shared, request, caller)?;
    let now = Instant::now();
    let mut request = request.clone();
    let filters = request.take_filters(&instances::FILTERS);
    let answer = shared
        .moto
        .call(&caller.account, &request.scope, &request.parameters)
        .await?;
    if !answer.succeeded() {
        return Ok(answer);
    }
    let mut tree = answer.tree().map_err(unreadable)?;
    shared.with_account(&caller.account, |account| {
        account.instances.describe(&mut tree, &filters, caller.is_user, now);
    });
    answer.with_tree(&tree).map_err(unreadable)
}

/// Terminates the instances in moto that died in `pending`, so that their volumes and interfaces are deleted too.
async fn bury_the_dead(shared: &Shared, request: &Request, caller: &Caller) -> Result<(), Refusal> {
    let region = &request.scope.region;
    let dead = shared.with_account(&caller.account, |account| {
        account.instances.take_dead(region, Instant::now())
    });
    if dead.is_empty() {
        return Ok(());
    }
    let ids = dead.into_iter().enumerate();
    let mut parameters: std::collections::BTreeMap<_, _> = ids
        .map(|(index, id)| (format!("InstanceId.{}", index + 1), id))
        .collect();
    parameters.insert("Action".to_owned(), "TerminateInstances".to_owned());
    parameters.insert("Version".to_owned(), "2016-11-15".to_owned());
    shared.moto.call(&caller.account, &request.scope, &parameters).await?;
    Ok(())
}
