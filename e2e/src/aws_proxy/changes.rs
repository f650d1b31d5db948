//! Changes of instances after their launch (stop, start, terminate, names), and their description.

use std::time::Instant;

use super::answer::{Answer, Refusal};
use super::caller::CallerIdentity;
use super::instances::{self, Instances, PENDING, SHUTTING_DOWN, STOPPED, STOPPING, State, TERMINATED};
use super::request::Request;
use super::state::{AccountState, Shared};
use super::xml::Element;

/// TerminateInstances; EC2 accepts it in every state.
pub(super) async fn terminate(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    change(shared, request, caller, |instances, id, now| {
        let before = instances.state(id, now);
        instances.terminated(id, now);
        (before, if before == TERMINATED { TERMINATED } else { SHUTTING_DOWN })
    })
    .await
}

/// StopInstances, for instances that are neither shutting down nor terminated.
pub(super) async fn stop(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    refuse_in(shared, request, caller, &[SHUTTING_DOWN, TERMINATED])?;
    change(shared, request, caller, |instances, id, now| {
        let before = instances.state(id, now);
        instances.stopped(id, now);
        (before, if before == STOPPED { STOPPED } else { STOPPING })
    })
    .await
}

/// StartInstances, for stopped instances.
pub(super) async fn start(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
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
    caller: &CallerIdentity,
    note: impl Fn(&mut Instances, &str, Instant) -> (State, State),
) -> Result<Answer, Refusal> {
    let transitions = shared.transitions(&caller.account);
    let _transition = transitions.write().await;
    terminate_dead(shared, request, caller).await?;
    let show = |tree: &mut Element| {
        let now = Instant::now();
        for instance in instances::listed(tree) {
            let id = instance.text_at(&["instanceId"]).to_owned();
            let noted = |account: &mut AccountState| note(&mut account.instances, &id, now);
            let (before, after) = shared.with_account(&caller.account, noted);
            instances::show(instance, "previousState", before);
            instances::show(instance, "currentState", after);
        }
    };
    let answer = shared.moto.edit(&caller.account, request, show).await?;
    if !answer.succeeded() && request.action == "TerminateInstances" {
        note_terminated(shared, request, caller).await?;
    }
    Ok(answer)
}

/// Records what a refused termination has terminated all the same: the instances in zones without a protected one.
async fn note_terminated(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<(), Refusal> {
    let named = request.parameters.iter().filter(|(key, _)| key.starts_with("InstanceId."));
    let named = named.map(|(key, id)| (key.clone(), id.clone()));
    let shown = shared.moto.ask(&caller.account, &request.scope, "DescribeInstances", named).await?;
    let is_terminated = |instance: &&Element| instance.text_at(&["instanceState", "name"]) == TERMINATED.name;
    let now = Instant::now();
    shared.with_account(&caller.account, |account| {
        for instance in shown.iter().flat_map(instances::described).filter(is_terminated) {
            account.instances.terminated(instance.text_at(&["instanceId"]), now);
        }
    });
    Ok(())
}

/// Refuses a call that names an instance which is hidden from the caller, as every call of EC2 is refused.
pub(super) fn refuse_hidden(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<(), Refusal> {
    let now = Instant::now();
    let hidden =
        |id: &str| shared.with_account(&caller.account, |account| account.instances.is_hidden_from(caller, id, now));
    let is_named = |key: &str| key == "InstanceId" || key.starts_with("InstanceId.") || key.starts_with("ResourceId.");
    let mut named = request.parameters.iter().filter(|(key, _)| is_named(key));
    match named.find(|(_, id)| hidden(id)).map(|(_, id)| id) {
        None => Ok(()),
        Some(id) => Err(unknown(id)),
    }
}

/// The refusal of a call that names an instance which does not exist, or is hidden.
fn unknown(id: &str) -> Refusal {
    let message = format!("The instance ID '{id}' does not exist");
    Refusal::new(400, "InvalidInstanceID.NotFound", message)
}

fn refuse_in(shared: &Shared, request: &Request, caller: &CallerIdentity, states: &[State]) -> Result<(), Refusal> {
    let now = Instant::now();
    let state = |id: &str| shared.with_account(&caller.account, |account| account.instances.state(id, now));
    match request.instance_ids().find(|id| states.contains(&state(id))) {
        None => Ok(()),
        Some(id) => {
            let message =
                format!("The instance '{id}' is not in a state from which it can do this: {}", state(id).name);
            Err(Refusal::new(400, "IncorrectInstanceState", message))
        }
    }
}

/// DescribeInstances, with the states of this proxy and without hidden instances.
pub(super) async fn describe(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    terminate_dead(shared, request, caller).await?;
    let mut request = request.clone();
    let filters = request.take_filters(&instances::FILTERS);
    let transitions = shared.transitions(&caller.account);
    let _listing = transitions.read().await;
    let now = Instant::now();
    let show = |tree: &mut Element| {
        shared.with_account(&caller.account, |account| {
            account.instances.describe(tree, &filters, caller.meets_no_faults, now);
        });
    };
    shared.moto.edit(&caller.account, &request, show).await
}

/// Terminates the instances in moto that died in `pending`, so that their volumes and interfaces are deleted too.
async fn terminate_dead(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<(), Refusal> {
    let region = &request.scope.region;
    let dead = shared.with_account(&caller.account, |account| account.instances.take_dead(region, Instant::now()));
    if dead.is_empty() {
        return Ok(());
    }
    let named = dead.into_iter().zip(1..).map(|(id, number)| (format!("InstanceId.{number}"), id));
    shared.moto.ask(&caller.account, &request.scope, "TerminateInstances", named).await?;
    Ok(())
}

/// ModifyPrivateDnsNameOptions, in every state of the instance: only a change of the kind of name needs a stopped one.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyPrivateDnsNameOptions.html>
pub(super) fn set_dns_records(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let id = request.parameter("InstanceId").unwrap_or_default();
    shared.with_account(&caller.account, |account| {
        let instances = &mut account.instances;
        if !instances.exists(id, &request.scope.region) {
            return Err(unknown(id));
        }
        instances.dns_records.changed(id, request);
        Ok(())
    })?;
    let fields = vec![Element::text("return", "true")];
    Ok(Answer::of("ModifyPrivateDnsNameOptions", fields))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::launches;
    use super::super::protocol::Protocol;
    use super::super::request::CredentialScope;
    use super::super::upstream::Moto;
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const ACCOUNT: &str = "100000000001";
    /// The last parameter of every call, in the order of their names.
    const VERSION: (&str, &str) = ("Version", "2016-11-15");

    /// A proxy in front of a moto that the test plays.
    async fn proxy(set_up: impl FnOnce(&mut Instances)) -> (Arc<Shared>, TcpListener) {
        let moto = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", moto.local_addr().unwrap());
        let shared = Arc::new(Shared::new(String::new(), Moto::new(&url)));
        shared.with_account(ACCOUNT, |account| set_up(&mut account.instances));
        (shared, moto)
    }

    /// Receives the next call of the proxy.
    async fn received(moto: &TcpListener) -> TcpStream {
        let (mut call, _) = moto.accept().await.unwrap();
        let (name, value) = VERSION;
        let end = format!("{name}={value}");
        let mut request = Vec::new();
        while !request.ends_with(end.as_bytes()) {
            assert_ne!(call.read_buf(&mut request).await.unwrap(), 0, "the call is cut off");
        }
        call
    }

    /// Answers a call of the proxy.
    async fn answer(mut call: TcpStream, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        call.write_all(answer.as_bytes()).await.unwrap();
    }

    /// Calls the proxy as the manager does.
    async fn call(shared: Arc<Shared>, action: &'static str) -> Answer {
        let request = Request {
            scope: CredentialScope { region: "eu-west-1".into(), service: "ec2".into(), ..CredentialScope::default() },
            action: action.into(),
            parameters: [("Action", action), VERSION].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            protocol: Protocol::Query,
        };
        let caller = CallerIdentity { account: ACCOUNT.into(), is_node: false, meets_no_faults: false };
        let answer = match action {
            "RunInstances" => {
                launches::run_instances(&shared, &request, &caller, "").await.map(|outcome| outcome.answer)
            }
            "TerminateInstances" => terminate(&shared, &request, &caller).await,
            "StopInstances" => stop(&shared, &request, &caller).await,
            "StartInstances" => start(&shared, &request, &caller).await,
            _ => describe(&shared, &request, &caller).await,
        };
        answer.unwrap()
    }

    /// Changes an instance. Checks that a listing has to wait until the change is recorded, and returns the state that
    /// the listing then shows in place of moto's.
    async fn listed_after(
        action: &'static str,
        moto_shows: &str,
        set_up: impl FnOnce(&mut Instances),
    ) -> Option<String> {
        let (shared, moto) = proxy(set_up).await;
        let transitions = shared.transitions(ACCOUNT);
        let change = tokio::spawn(call(shared.clone(), action));
        let changed = received(&moto).await;
        assert!(transitions.try_read().is_err(), "{action} does not hold up a listing");
        let items = "<item><instanceId>i-1</instanceId></item>";
        answer(changed, &format!("<R><instancesSet>{items}</instancesSet></R>")).await;
        change.await.unwrap();
        let listing = tokio::spawn(call(shared, "DescribeInstances"));
        let listed = received(&moto).await;
        assert!(transitions.try_write().is_err(), "a listing does not hold up a change");
        let state = format!("<instanceState><code>0</code><name>{moto_shows}</name></instanceState>");
        let items = format!("<item><instanceId>i-1</instanceId>{state}</item>");
        let items = format!("<item><instancesSet>{items}</instancesSet></item>");
        answer(listed, &format!("<R><reservationSet>{items}</reservationSet></R>")).await;
        let shown = listing.await.unwrap().tree().unwrap();
        shown.find("name").map(|name| name.text.clone())
    }

    fn launched(instances: &mut Instances) {
        instances.launched("i-1", "eu-west-1", None, Instant::now());
    }

    #[tokio::test]
    async fn a_listing_waits_until_a_launch_is_recorded() {
        let shown = listed_after("RunInstances", "running", |instances| instances.pending = HOUR).await;
        assert_eq!(shown.as_deref(), Some("pending"));
        let shown = listed_after("RunInstances", "running", |instances| instances.hidden = HOUR).await;
        assert_eq!(shown, None);
    }

    #[tokio::test]
    async fn a_listing_waits_until_a_stop_is_recorded() {
        let stopping = |instances: &mut Instances| {
            launched(instances);
            instances.stopping = HOUR;
        };
        let shown = listed_after("StopInstances", "stopped", stopping).await;
        assert_eq!(shown.as_deref(), Some("stopping"));
    }

    #[tokio::test]
    async fn a_listing_waits_until_a_start_is_recorded() {
        let stopped = |instances: &mut Instances| {
            launched(instances);
            instances.stopped("i-1", Instant::now());
            instances.pending = HOUR;
        };
        let shown = listed_after("StartInstances", "running", stopped).await;
        assert_eq!(shown.as_deref(), Some("pending"));
    }

    #[tokio::test]
    async fn a_listing_waits_until_a_termination_is_recorded() {
        let shutting_down = |instances: &mut Instances| {
            launched(instances);
            instances.shutting_down = HOUR;
        };
        let shown = listed_after("TerminateInstances", "terminated", shutting_down).await;
        assert_eq!(shown.as_deref(), Some("shutting-down"));
    }
}
