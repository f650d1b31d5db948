//! Elastic Load Balancing, both generations. moto stores load balancers, listeners and target groups; this module
//! stores the registrations and the health of targets (see [`targets`]).

mod calls;
mod classic;
mod endpoints;
mod facts;
mod groups;
pub(super) mod targets;

use std::collections::BTreeMap;
use std::time::Instant;

use super::answer::{Answer, Refusal, unreadable};
use super::caller::CallerIdentity;
use super::request::Request;
use super::state::{AccountState, Shared};
use super::xml::Element;

pub(super) use endpoints::healthy_targets;

/// The signing name of both generations.
pub(super) const SERVICE: &str = "elasticloadbalancing";

/// The API version of classic load balancers, which distinguishes their calls from the others.
const CLASSIC: &str = "2012-06-01";
/// The API version of all other load balancers.
const VERSION_2: &str = "2015-12-01";

/// Serves a call; `None` where moto answers it without changes.
pub(super) async fn serve(
    shared: &Shared,
    request: &Request,
    caller: &CallerIdentity,
) -> Option<Result<Answer, Refusal>> {
    let is_classic = request.parameter("Version") == Some(CLASSIC);
    Some(match (request.action.as_str(), is_classic) {
        ("RegisterTargets", false) => groups::register(shared, request, caller).await,
        ("DeregisterTargets", false) => groups::deregister(shared, request, caller).await,
        ("DescribeTargetHealth", false) => groups::health(shared, request, caller).await,
        ("RegisterInstancesWithLoadBalancer", true) => classic::register(shared, request, caller).await,
        ("DeregisterInstancesFromLoadBalancer", true) => classic::deregister(shared, request, caller).await,
        ("DescribeInstanceHealth", true) => classic::health(shared, request, caller).await,
        ("CreateLoadBalancer" | "DescribeLoadBalancers", _) => named(shared, request, caller).await,
        _ => return None,
    })
}

/// moto's answer with a unique DNS name for every load balancer: moto repeats its names from account to account.
async fn named(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let name = request.parameter("LoadBalancerName").or_else(|| request.parameter("Name"));
    let rename = |tree: &mut Element| endpoints::rename(tree, name, &caller.account, &request.scope.region);
    shared.moto.edit(&caller.account, request, rename).await
}

/// An answer with this result, in the envelope of the Query protocol.
fn answer(request: &Request, result: Vec<Element>) -> Result<Answer, Refusal> {
    let action = &request.action;
    let result = Element::parent(&format!("{action}Result"), result);
    let metadata = Element::parent("ResponseMetadata", vec![Element::text("RequestId", "-")]);
    let envelope = Element::parent(&format!("{action}Response"), vec![result, metadata]);
    let body = envelope.write().map_err(unreadable)?;
    Ok(Answer { status: 200, body })
}

/// Members of a list in an answer.
fn list(name: &str, members: impl IntoIterator<Item = Vec<Element>>) -> Element {
    let members = members.into_iter().map(|member| Element::parent("member", member));
    Element::parent(name, members.collect())
}

/// Runs `work` on the account's state with the current time.
fn with_account<T>(shared: &Shared, account: &str, work: impl FnOnce(&mut AccountState, Instant) -> T) -> T {
    shared.with_account(account, |account| work(account, Instant::now()))
}

/// The parameters of a call from this proxy to moto.
fn question(action: &str, version: &str, parameters: &[(&str, &str)]) -> BTreeMap<String, String> {
    let fixed = [("Action", action), ("Version", version)];
    let all = fixed.iter().chain(parameters);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
