//! One pass over the AWS resources of a managed cluster: observe, plan, record, call, record.

use capa_api::conditions::Reason;
use capa_cloud::managed::{Call, ChangeAnswer, Effect, ManagedCloud, Repeat, Scope};
use capa_cloud::{CloudError, ErrorClass, ec2};
use capa_runtime::reconcile::EventDraft;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use strum::IntoEnumIterator as _;

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, Step, Why};
use super::planners;
use super::reference::{Id, Kind, Ref};
use super::step_result::{Failure, StepResult};
use super::{classic_load_balancer, load_balancer, network_interface, tagging, target_group};

/// The name of resources that may exist after a lost status.
const UNKNOWN: &str = "unknown";

/// The most calls of one cluster at a time.
const AT_ONCE: usize = 8;

/// The ready steps of a plan with the calls that they make.
pub(super) struct ReadySteps {
    steps: Vec<ReadyStep>,
}

/// A step with the call that it makes.
struct ReadyStep {
    step: Step,
    call: Call<String>,
    /// Whether the call was made before, without an answer.
    is_repeat: bool,
}

impl ReadySteps {
    /// The ready steps. A step whose ids are not all known is not ready.
    pub(super) fn of(plan: &Plan, ledger: &Ledger) -> Self {
        let ready = plan.steps.iter().filter(|step| plan.held_up_by(step).is_none());
        let mut id = |id: &Id| ledger.resolve(id).map(str::to_owned).ok_or(());
        let steps = ready.filter_map(|step| {
            let known_token = ledger.client_token(&step.target);
            Some(ReadyStep {
                step: step.clone(),
                call: step.call.try_map(&mut id).ok()?,
                is_repeat: known_token.is_some() && known_token == step.client_token(),
            })
        });
        Self { steps: steps.collect() }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Records in the ledger the resources that these steps create and tag. Returns whether any of that is new
    /// and must be stored before the calls.
    pub(super) fn open(&self, inputs: &Inputs, ledger: &mut Ledger, now: Timestamp) -> bool {
        let creations = self.steps.iter().filter(|ready| ready.step.creates() && !ready.is_repeat);
        let mut opens = false;
        for ReadyStep { step, .. } in creations {
            ledger.open(&step.target, step.client_token(), now);
            opens = true;
        }
        for ReadyStep { step, .. } in self.steps.iter().filter(|ready| ready.step.writes_tags()) {
            let target = step.target.whole();
            let wanted = planners::tags_of(inputs, &target);
            opens |= tagging::record(&target, &wanted, inputs, ledger);
        }
        opens
    }

    /// Makes the calls, and records their answers in the ledger. `in_use` is the reason for a resource that cannot be
    /// deleted because it is in use; `seen` shows what uses it.
    pub(super) async fn execute(
        self,
        cloud: &dyn ManagedCloud,
        ledger: &mut Ledger,
        in_use: Reason,
        seen: &ec2::Observed,
    ) -> (Vec<StepResult>, Vec<EventDraft>) {
        let calls = self.steps.into_iter().map(|ready| async move {
            let answer = cloud.call(&ready.call).await;
            (ready, answer)
        });
        let answers: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).collect().await;
        let mut results = Vec::new();
        let mut events = Vec::new();
        for (ready, answer) in answers {
            let action = ready.call.action();
            if let Ok(ChangeAnswer::Made(id)) = &answer {
                ledger.assign(&ready.step.target, id);
            }
            let failure = answer.err().and_then(|error| failure(&ready, &error, ledger, in_use, seen));
            let step = ready.step;
            if failure.is_none() {
                events.push(done(&step, ledger));
                if step.call.effect() == Effect::Delete {
                    ledger.record_gone(&step.target);
                }
            }
            let target = step.target;
            results.push(StepResult { target, action, failure });
        }
        results.sort_by(|one, other| one.target.cmp(&other.target));
        (results, events)
    }
}

/// The meaning of a call's error, which is recorded in the ledger. `None` if the call has nothing left to do.
fn failure(
    ready: &ReadyStep,
    error: &CloudError,
    ledger: &mut Ledger,
    in_use: Reason,
    seen: &ec2::Observed,
) -> Option<Failure> {
    let step = &ready.step;
    let effect = step.call.effect();
    let code = error.code.as_deref().unwrap_or_default();
    // AWS may not show a resource yet that it has just created: the next observation shows whether it is gone.
    let is_young = effect == Effect::Delete && ledger.may_hide(&step.target);
    let is_missing = error.class == ErrorClass::NotFound || error.is_of_detached_gateway();
    if effect == Effect::Delete && !is_young && is_missing {
        return None;
    }
    let names_new = error.class == ErrorClass::NotFound && (is_young || ledger.may_hide_others(&step.target));
    // A refusal to create is certain, unless an earlier call with the same token may have created the resource. A
    // throttled call is also certain if the SDK makes it only once.
    let is_certain = match step.call.repeat() {
        Repeat::CreatesSecond => error.class.is_refusal() || error.class == ErrorClass::Throttled,
        Repeat::Token(_) => {
            let is_token_used = error.class == ErrorClass::IdempotentParameterMismatch;
            if is_token_used {
                ledger.record_used_client_token(&step.target);
            }
            error.class.is_refusal() && !ready.is_repeat && !is_token_used
        }
        // The SDK may have made the call twice: then the first call has created this resource.
        Repeat::Idempotent if error.is_of_taken_name() => false,
        Repeat::Idempotent => error.class.is_refusal() || error.retry_after.is_some(),
    };
    if effect == Effect::Create && is_certain {
        ledger.record_gone(&step.target);
    }
    let is_there = error.is_of_existing_part() || error.is_of_taken_name();
    let is_in_use = effect == Effect::Delete && error.is_of_used_resource();
    let (reason, words) = match error.class {
        _ if is_in_use => {
            let users = network_interface::users(&ready.call, seen);
            (in_use, users.unwrap_or_else(|| "another resource still uses it".to_owned()))
        }
        _ if names_new || is_there => (Reason::Creating, "AWS does not show the resource yet".to_owned()),
        ErrorClass::NoAnswer if effect == Effect::Create => {
            let outcome = if code.is_empty() { "no answer" } else { "AWS does not say whether the call took effect" };
            (error.class.reason(), format!("{outcome}; the provider looks for the resource"))
        }
        class => (class.reason(), quota(code, step.target.kind).unwrap_or_default().to_owned()),
    };
    let message = if words.is_empty() { error.to_string() } else { format!("{words}: {error}") };
    Some(Failure {
        reason,
        message,
        is_transient: names_new || is_there || (is_in_use && in_use == Reason::Deleting),
        is_unanswered: effect == Effect::Create && !is_certain,
        retry_after: error.retry_after,
    })
}

/// The event of a step that succeeded.
fn done(step: &Step, ledger: &Ledger) -> EventDraft {
    let id = ledger.id(&step.target.whole());
    let id = id.map(|id| format!(" ({id})")).unwrap_or_default();
    let why = match &step.why {
        Why::Missing | Why::Unwanted => String::new(),
        Why::Differs { field, is, wanted } => format!(": {field} was {is}, and is {wanted} now"),
    };
    let reason = format!("Successful{}", step.call.action());
    EventDraft::normal(reason, format!("{}{id}{why}", step.target)).recorded()
}

/// The scope of an observation.
pub(super) fn scope(inputs: &Inputs, ledger: &Ledger, is_deleted: bool) -> Scope {
    let id = |target| ledger.id(target).map(str::to_owned);
    let mut load_balancers = load_balancer::names(inputs, ledger);
    let mut classic_load_balancers = classic_load_balancer::names(inputs, ledger);
    // Load balancers of Services, of either generation, prevent the deletion of the VPC. A cluster without load
    // balancers may lack the permission to describe them.
    if is_deleted && load_balancers.is_empty() != classic_load_balancers.is_empty() {
        let [network, classic] = &inputs.endpoint_load_balancers;
        load_balancers.push(network.name.clone());
        classic_load_balancers.push(classic.name.clone());
    }
    // In a VPC of the user only load balancers have addresses of the cluster.
    let has_addresses = inputs.vpc.brought.is_none()
        || inputs.elastic_ip_pool.is_some()
        || ledger.of_kind(Kind::LoadBalancerAddress).next().is_some();
    let addresses = [Kind::ElasticIp, Kind::LoadBalancerAddress];
    let addresses = addresses.map(|kind| recorded_ids(ledger, kind)).concat();
    Scope {
        cluster: inputs.names.cluster.clone(),
        vpc: inputs.vpc.id().map(str::to_owned).or_else(|| id(&inputs.vpc.target)),
        is_vpc_of_user: inputs.vpc.brought.is_some(),
        internet_gateway: id(&inputs.internet_gateway),
        has_addresses,
        addresses,
        public_ipv4_pool: inputs
            .elastic_ip_pool
            .as_ref()
            .filter(|_| !is_deleted)
            .and_then(|pool| pool.public_ipv4_pool.clone()),
        load_balancers,
        target_groups: target_group::wanted(inputs).map(|target| target.name).collect(),
        classic_load_balancers,
        network_interfaces: false,
        known: None,
    }
}

/// Opens an entry for everything that may exist although the status does not say so, because the status is lost.
pub(super) fn open_wanted_entries(inputs: &Inputs, ledger: &mut Ledger, now: Timestamp) {
    for target in planners::wanted(inputs) {
        ledger.open(&target, None, now);
    }
}

/// Opens an entry for each kind of resource, for resources that are not known by name.
pub(super) fn open_entry_of_each_kind(ledger: &mut Ledger, now: Timestamp) {
    for kind in Kind::iter().filter(|kind| kind.is_resource()) {
        ledger.open(&Ref::new(kind, UNKNOWN), None, now);
    }
}

fn recorded_ids(ledger: &Ledger, kind: Kind) -> Vec<String> {
    let ids = ledger.of_kind(kind).filter_map(|target| ledger.id(target));
    ids.map(str::to_owned).collect()
}

/// The name in Service Quotas of the quota that this error code is about.
fn quota(code: &str, kind: Kind) -> Option<&'static str> {
    Some(match code {
        "VpcLimitExceeded" => "quota L-F678F1CE, VPCs per Region (5 by default), is reached",
        "CidrLimitExceeded" => "quota L-83CA0A9D, IPv4 CIDR blocks per VPC (5 by default), is reached",
        "InternetGatewayLimitExceeded" => "quota L-A4707A72, internet gateways per Region (5 by default), is reached",
        "AddressLimitExceeded" => "quota L-0263D0A3, EC2-VPC Elastic IPs (5 by default), is reached",
        "NatGatewayLimitExceeded" => "quota L-FE5A380F, NAT gateways per Availability Zone (5 by default), is reached",
        "RouteTableLimitExceeded" => "quota L-589F43AA, route tables per VPC (200 by default), is reached",
        "SecurityGroupLimitExceeded" => {
            "quota L-E79EC296, VPC security groups per Region (2,500 by default), is reached"
        }
        "RulesPerSecurityGroupLimitExceeded" => {
            "quota L-0EA8095F, inbound or outbound rules per security group (60 by default), is reached"
        }
        "TooManyLoadBalancers" if kind == Kind::ClassicLoadBalancer => {
            "quota L-E9E9831D, Classic Load Balancers per Region (20 by default), is reached"
        }
        "TooManyLoadBalancers" => "quota L-69A177A2, Network Load Balancers per Region (50 by default), is reached",
        "TooManyTargetGroups" => "quota L-B22855CB, Target Groups per Region (3,000 by default), is reached",
        "TooManyListeners" => "quota L-57A373D6, Listeners per Network Load Balancer (50 by default), is reached",
        "SubnetLimitExceeded" => "quota L-407747CB, subnets per VPC (200 by default), is reached",
        _ => return None,
    })
}
