//! The processing of a request: read, apply faults, decide, forward, transform the answer, record.

use std::time::Instant;

use http::request::Parts;
use http::{HeaderMap, header};
use jiff::Timestamp;

use super::answer::{Answer, CALLER, Refusal, unreadable};
use super::caller::CallerIdentity;
use super::faults::{Delay, Ending, FaultEffect, Stage};
use super::instances;
use super::journal::{AssumedRole, Call, Fate, RawLaunch, redacted};
use super::outcome::{Outcome, injected};
use super::request::{CredentialScope, Request};
use super::sessions::Session;
use super::state::{KeyEntry, Shared};
use super::unanswered::UnansweredLaunch;
use super::{addresses, changes, host_calls, launches, load_balancing, protocol, reservations};

/// The result of a request that has had its effect.
pub(super) struct Served {
    /// The answer; `None` where the connection is closed instead.
    pub(super) answer: Option<Answer>,
    /// The delay before the answer or the closing.
    pub(super) held_back: Delay,
    /// The launch whose answer is held back, with its account.
    pub(super) launched: Option<(String, UnansweredLaunch)>,
}

/// Serves a request up to its answer, and records the call.
pub(super) async fn serve(shared: &Shared, head: &Parts, body: &[u8]) -> Served {
    let (at, began) = (Timestamp::now(), Instant::now());
    let scope = CredentialScope::read(&head.headers, &head.uri).unwrap_or_default();
    let key = shared.with(|state| state.keys.get(&scope.access_key_id).cloned());
    let is_check = is_of_checks(&head.headers);
    let request = Request::read(&head.method, &head.uri, &head.headers, body);
    let outcome = match &request {
        Ok(request) => meet_faults(shared, request, key.as_ref(), is_check).await,
        Err(refusal) => Err(refusal.clone()),
    };
    let mut outcome = outcome.unwrap_or_else(|refusal| refusal.answer(&scope.service).into());
    outcome.answer.stamp();
    let request = request.ok();
    let action = request.as_ref().map(|request| request.action.clone()).unwrap_or_default();
    let account = key.as_ref().map(|key| key.account.clone());
    let call = Call {
        at,
        took: began.elapsed(),
        service: scope.service,
        region: scope.region,
        access_key_id: scope.access_key_id,
        account: account.clone(),
        role: key.and_then(|key| key.role),
        is_check,
        by_url: scope.by_url,
        parameters: request.as_ref().map(redacted).unwrap_or_default(),
        status: outcome.answer.status,
        error: outcome.answer.error_code(),
        instance_ids: changed_instances(&action, &outcome.answer),
        action,
        replayed: outcome.replayed,
        fate: outcome.fate,
    };
    let launch = (call.action == "RunInstances").then_some(request).flatten();
    let raw = launch.as_ref().map(|request| RawLaunch::new(request, body));
    let launched = account.zip(launch.filter(|_| !call.instance_ids.is_empty() && !call.replayed));
    let launched = launched.map(|(account, request)| (account, UnansweredLaunch::new(&request, &call.instance_ids)));
    shared.record(call, raw);
    Served {
        answer: (outcome.fate == Fate::Answered).then_some(outcome.answer),
        held_back: outcome.held_back,
        launched,
    }
}

/// Whether a check of infrastructure makes the request.
fn is_of_checks(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| agent.contains("cluster-api-provider-aws-rs-checks"))
}

fn changed_instances(action: &str, answer: &Answer) -> Vec<String> {
    let lists_instances = ["RunInstances", "TerminateInstances", "StopInstances", "StartInstances"].contains(&action);
    match answer.tree() {
        Ok(tree) if lists_instances && answer.succeeded() => instances::ids(&tree),
        _ => Vec::new(),
    }
}

/// Applies the account's faults to a request, then processes it.
async fn meet_faults(
    shared: &Shared,
    request: &Request,
    key: Option<&KeyEntry>,
    is_check: bool,
) -> Result<Outcome, Refusal> {
    let Some(key) = key else {
        return Err(not_valid(request));
    };
    let caller =
        CallerIdentity { account: key.account.clone(), is_node: key.is_node, meets_no_faults: key.is_user || is_check };
    let zone = launches::zone(shared, request, &caller.account).await?;
    let FaultEffect { ending, delay } = shared.apply_faults(&caller, request, &zone, Stage::Request);
    let outcome = match &ending {
        Ending::RequestLost => return Ok(Outcome::lost_request(delay)),
        _ if key.revoked => Err(not_valid(request)),
        Ending::Refused(code) => Ok(injected(code, &request.scope.service).into()),
        _ if !shared.admit(&caller, request) => Ok(injected("RequestLimitExceeded", &request.scope.service).into()),
        _ => decide(shared, request, &caller, &zone).await,
    };
    let mut outcome = outcome.unwrap_or_else(|refusal| refusal.answer(&request.scope.service).into());
    outcome.held_back.extend(delay);
    if ending == Ending::AnswerLost {
        outcome.fate = Fate::AnswerLost;
    }
    Ok(outcome)
}

fn not_valid(request: &Request) -> Refusal {
    match request.scope.service.as_str() {
        "ec2" => Refusal::new(401, "AuthFailure", "the access key is not valid"),
        "s3" => Refusal::new(403, "InvalidAccessKeyId", "the access key is not valid"),
        service if protocol::is_json(service) => {
            Refusal::new(400, "UnrecognizedClientException", "the access key is not valid")
        }
        _ => Refusal::new(403, "InvalidClientTokenId", "the access key is not valid"),
    }
}

/// Passes the call to the module that emulates its action; moto answers the other actions unchanged.
async fn decide(shared: &Shared, request: &Request, caller: &CallerIdentity, zone: &str) -> Result<Outcome, Refusal> {
    if request.scope.service == load_balancing::SERVICE
        && let Some(answer) = load_balancing::serve(shared, request, caller).await
    {
        return answer.map(Outcome::from);
    }
    if request.scope.service == "ec2" {
        changes::refuse_hidden(shared, request, caller)?;
    }
    let answer = match (request.scope.service.as_str(), request.action.as_str()) {
        ("ec2", "RunInstances") => return launches::run_instances(shared, request, caller, zone).await,
        ("sts", "AssumeRole") => assume_role(shared, request).await,
        ("ec2", "AllocateAddress") => addresses::allocate(shared, request, caller).await,
        ("ec2", "DescribePublicIpv4Pools") => addresses::describe_pools(shared, request, caller),
        ("ec2", "AssociateAddress") => addresses::associate(shared, request, caller).await,
        ("ec2", "ReleaseAddress") => addresses::release(shared, request, caller).await,
        ("ec2", "AllocateHosts") => host_calls::allocate(shared, request, caller).await,
        ("ec2", "DescribeCapacityReservations") => Ok(reservations::describe(shared, caller)),
        ("ec2", "DescribeHosts") => host_calls::describe(shared, request, caller).await,
        ("ec2", "ReleaseHosts") => host_calls::release(shared, request, caller).await,
        ("ec2", "TerminateInstances") => changes::terminate(shared, request, caller).await,
        ("ec2", "StopInstances") => changes::stop(shared, request, caller).await,
        ("ec2", "StartInstances") => changes::start(shared, request, caller).await,
        ("ec2", "DescribeInstances") => changes::describe(shared, request, caller).await,
        ("ec2", "ModifyPrivateDnsNameOptions") => changes::set_dns_records(shared, request, caller),
        _ => shared.moto.pass_on(&caller.account, request).await,
    };
    answer.map(Outcome::from)
}

/// AssumeRole in the account of the *role*; records the account and role of the new key.
async fn assume_role(shared: &Shared, request: &Request) -> Result<Answer, Refusal> {
    let denied = || {
        let words = format!("User: {CALLER} is not authorized to perform: sts:AssumeRole on the role");
        Refusal::new(403, "AccessDenied", words)
    };
    let arn = request.parameter("RoleArn").ok_or_else(denied)?;
    let account = arn.split(':').nth(4).ok_or_else(denied)?;
    let external_id = shared
        .with(|state| state.accounts.get(account).and_then(|account| account.roles.get(arn).cloned()))
        .ok_or_else(denied)?;
    if external_id.is_some() && external_id.as_deref() != request.parameter("ExternalId") {
        return Err(denied());
    }
    let answer = shared.moto.call(account, &request.scope, &request.parameters).await?;
    if answer.succeeded() {
        let tree = answer.tree().map_err(unreadable)?;
        let session = Session::read(&tree, &answer);
        let access_key_id = session.access_key_id.clone();
        let session_name = request.parameter("RoleSessionName").unwrap_or_default().to_owned();
        let role = AssumedRole { arn: arn.to_owned(), session_name };
        let entry = KeyEntry { role: Some(role), ..KeyEntry::of(account) };
        shared.with(|state| state.keys.insert(access_key_id, entry));
        shared.with_account(account, |account| account.sessions.push(session));
    }
    Ok(answer)
}
