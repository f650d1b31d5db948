//! The way of a request: read, decide, forward, transform the answer, record.

use std::time::Instant;

use axum::http::{HeaderMap, Method};
use jiff::Timestamp;

use super::answer::{Answer, Refusal};
use super::instances::{self, SHUTTING_DOWN, TERMINATED};
use super::journal::{AssumedRole, Call, redacted};
use super::request::{Request, Scope};
use super::state::{KeyEntry, Shared};
use super::tokens::{Known, Place};

/// How a request ended.
struct Outcome {
    answer: Answer,
    replayed: bool,
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            replayed: false,
        }
    }
}

/// Serves one request to its end and records it.
pub(super) async fn serve(shared: &Shared, method: Method, headers: HeaderMap, body: &[u8]) -> Answer {
    let (at, began) = (Timestamp::now(), Instant::now());
    let scope = Scope::read(&headers).unwrap_or_default();
    let key = shared.with(|state| state.keys.get(&scope.access_key_id).cloned());
    let request = Request::read(&method, &headers, body);
    let outcome = match &request {
        Ok(request) => decide(shared, request, key.as_ref()).await,
        Err(refusal) => Err(refusal.clone()),
    };
    let Outcome { answer, replayed } = outcome.unwrap_or_else(|refusal| refusal.answer(&scope.service).into());
    let request = request.ok();
    let action = request
        .as_ref()
        .map(|request| request.action.clone())
        .unwrap_or_default();
    let lists_instances = answer.succeeded() && matches!(action.as_str(), "RunInstances" | "TerminateInstances");
    let call = Call {
        at,
        took: began.elapsed(),
        service: scope.service,
        region: scope.region,
        access_key_id: scope.access_key_id,
        account: key.as_ref().map(|key| key.account.clone()),
        role: key.and_then(|key| key.role),
        action,
        parameters: request.map(|request| redacted(&request.parameters)).unwrap_or_default(),
        status: answer.status,
        error: answer.error_code(),
        instance_ids: if lists_instances {
            answer.tree().map(|tree| instances::ids(&tree)).unwrap_or_default()
        } else {
            Vec::new()
        },
        replayed,
    };
    shared.with(|state| state.journal.push(call));
    answer
}

/// Refuses strangers, then hands the call to what emulates its action; moto alone answers the others.
async fn decide(shared: &Shared, request: &Request, key: Option<&KeyEntry>) -> Result<Outcome, Refusal> {
    let Some(key) = key.filter(|key| !key.revoked) else {
        return Err(match request.scope.service.as_str() {
            "ec2" => Refusal::new(401, "AuthFailure", "the access key is not valid"),
            _ => Refusal::new(403, "InvalidClientTokenId", "the access key is not valid"),
        });
    };
    let account = key.account.as_str();
    match (request.scope.service.as_str(), request.action.as_str()) {
        ("sts", "AssumeRole") => assume_role(shared, request).await.map(Outcome::from),
        ("ec2", "RunInstances") => run_instances(shared, request, account).await,
        ("ec2", "TerminateInstances") => terminate_instances(shared, request, account).await.map(Outcome::from),
        ("ec2", "DescribeInstances") => describe_instances(shared, request, account).await.map(Outcome::from),
        _ => shared
            .moto
            .call(account, &request.scope, &request.parameters)
            .await
            .map(Outcome::from),
    }
}

/// Asks the account of the *role*, and learns whom the new key stands for.
async fn assume_role(shared: &Shared, request: &Request) -> Result<Answer, Refusal> {
    let denied = || {
        Refusal::new(
            403,
            "AccessDenied",
            "the role does not exist or does not trust the caller",
        )
    };
    let arn = request.parameter("RoleArn").ok_or_else(denied)?;
    let account = arn.split(':').nth(4).ok_or_else(denied)?;
    let external_id = shared
        .with(|state| {
            state
                .accounts
                .get(account)
                .and_then(|account| account.roles.get(arn).cloned())
        })
        .ok_or_else(denied)?;
    if external_id.is_some() && external_id.as_deref() != request.parameter("ExternalId") {
        return Err(denied());
    }
    let answer = shared.moto.call(account, &request.scope, &request.parameters).await?;
    if answer.succeeded() {
        let tree = answer.tree().map_err(unreadable)?;
        let access_key_id = tree.find("AccessKeyId").map(|key| key.text.clone()).unwrap_or_default();
        let session_name = request.parameter("RoleSessionName").unwrap_or_default().to_owned();
        let role = Some(AssumedRole {
            arn: arn.to_owned(),
            session_name,
        });
        let entry = KeyEntry {
            account: account.to_owned(),
            role,
            revoked: false,
        };
        shared.with(|state| state.keys.insert(access_key_id, entry));
    }
    Ok(answer)
}

/// Launches at most once for a ClientToken in a zone.
async fn run_instances(shared: &Shared, request: &Request, account: &str) -> Result<Outcome, Refusal> {
    let Some(token) = request.parameter("ClientToken") else {
        return launch(shared, request, account).await.map(Outcome::from);
    };
    let zone = zone(shared, request, account).await?;
    let place = Place {
        region: request.scope.region.clone(),
        zone,
        token: token.to_owned(),
    };
    let launching = shared.with_account(account, |account| account.launching.clone());
    let _turn = launching.lock().await;
    match shared.with_account(account, |account| account.tokens.look_up(&place, &request.parameters)) {
        Known::Same(body) => replay(shared, &Answer { status: 200, body }, account),
        Known::Mismatch => Err(Refusal::new(
            400,
            "IdempotentParameterMismatch",
            "the client token was used in this zone with other parameters",
        )),
        Known::New => {
            let answer = launch(shared, request, account).await?;
            if answer.succeeded() {
                let (parameters, body) = (request.parameters.clone(), answer.body.clone());
                shared.with_account(account, |account| account.tokens.remember(place, parameters, body));
            }
            Ok(answer.into())
        }
    }
}

async fn launch(shared: &Shared, request: &Request, account: &str) -> Result<Answer, Refusal> {
    let answer = shared.moto.call(account, &request.scope, &request.parameters).await?;
    if answer.succeeded() {
        let ids = instances::ids(&answer.tree().map_err(unreadable)?);
        let now = Instant::now();
        shared.with_account(account, |account| {
            for id in &ids {
                account.instances.launched(id, now);
            }
        });
    }
    Ok(answer)
}

/// The first answer again; only the states of the instances are those of now.
fn replay(shared: &Shared, first: &Answer, account: &str) -> Result<Outcome, Refusal> {
    let mut tree = first.tree().map_err(unreadable)?;
    let now = Instant::now();
    for instance in instances::listed(&mut tree) {
        let id = instance.text_at(&["instanceId"]).to_owned();
        let state = shared.with_account(account, |account| account.instances.state(&id, now));
        instances::show(instance, "instanceState", state);
    }
    Ok(Outcome {
        answer: first.with_tree(&tree).map_err(unreadable)?,
        replayed: true,
    })
}

/// The zone that a launch goes to; empty where the request leaves it open.
async fn zone(shared: &Shared, request: &Request, account: &str) -> Result<String, Refusal> {
    let subnet = request
        .parameter("SubnetId")
        .or_else(|| request.parameter("NetworkInterface.1.SubnetId"));
    let Some(subnet) = subnet else {
        return Ok(request
            .parameter("Placement.AvailabilityZone")
            .unwrap_or_default()
            .to_owned());
    };
    if let Some(zone) = shared.with_account(account, |account| account.zones.get(subnet).cloned()) {
        return Ok(zone);
    }
    let question = [
        ("Action", "DescribeSubnets"),
        ("Version", "2016-11-15"),
        ("SubnetId.1", subnet),
    ];
    let parameters = question.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let answer = shared.moto.call(account, &request.scope, &parameters).await?;
    if !answer.succeeded() {
        return Ok(String::new()); // the launch itself will be refused for its subnet
    }
    let tree = answer.tree().map_err(unreadable)?;
    let zone = tree
        .find("availabilityZone")
        .map(|zone| zone.text.clone())
        .unwrap_or_default();
    shared.with_account(account, |account| account.zones.insert(subnet.to_owned(), zone.clone()));
    Ok(zone)
}

async fn terminate_instances(shared: &Shared, request: &Request, account: &str) -> Result<Answer, Refusal> {
    let answer = shared.moto.call(account, &request.scope, &request.parameters).await?;
    if !answer.succeeded() {
        return Ok(answer);
    }
    let mut tree = answer.tree().map_err(unreadable)?;
    let now = Instant::now();
    for instance in instances::listed(&mut tree) {
        let id = instance.text_at(&["instanceId"]).to_owned();
        let (before, after) = shared.with_account(account, |account| {
            let before = account.instances.state(&id, now);
            account.instances.terminated(&id, now);
            (
                before,
                if before == TERMINATED {
                    TERMINATED
                } else {
                    SHUTTING_DOWN
                },
            )
        });
        instances::show(instance, "previousState", before);
        instances::show(instance, "currentState", after);
    }
    answer.with_tree(&tree).map_err(unreadable)
}

async fn describe_instances(shared: &Shared, request: &Request, account: &str) -> Result<Answer, Refusal> {
    let mut request = request.clone();
    let filters = request.take_filters(&instances::FILTERS);
    let answer = shared.moto.call(account, &request.scope, &request.parameters).await?;
    if !answer.succeeded() {
        return Ok(answer);
    }
    let mut tree = answer.tree().map_err(unreadable)?;
    let now = Instant::now();
    shared.with_account(account, |account| account.instances.describe(&mut tree, &filters, now));
    answer.with_tree(&tree).map_err(unreadable)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unreadable(error: super::xml::XmlError) -> Refusal {
    Refusal::new(500, "InternalError", format!("moto's answer: {error}"))
}
