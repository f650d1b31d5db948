//! Tests of whole sessions with immediate answers.

mod scale;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capa_api::meta;
use futures::FutureExt;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::plain_request;
use crate::machines::{Accounts, CallDescription, Client, Sessions, SimSession, Transport};
use capa_cloud::elb::TargetType;
use capa_cloud::session::{MachineSession, Moment, SessionDriver, SessionKey, perform};
use capa_cloud::targets::{Desired, Group, TargetInstance, TargetPolicy, TargetRequest, TargetUser};
use capa_cloud::{
    Account, CloudError, ControlPlaneTarget, InstanceLifecycle, InstanceObserver, LaunchRequest, LoadBalancerTargets,
    MachineKey,
};

const ACCOUNT: &str = "111122223333";
const REGION: &str = "eu-west-1";
/// The cluster of all machines, where nothing else is said.
const CLUSTER: &str = "dev";
const TARGET_GROUP: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/1";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The launch of machine `one`.
fn request() -> LaunchRequest {
    LaunchRequest { tags: tags("one", CLUSTER), ..plain_request() }
}

/// The tags of a machine's instance.
fn tags(machine: &str, cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (meta::MACHINE_NAME_TAG.to_owned(), meta::machine_name_tag_value("default", machine)),
        (meta::cluster_tag(cluster), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), meta::NODE_ROLE_TAG_VALUE.to_owned()),
    ])
}

/// A double of AWS with immediate answers, and the sessions of one process.
#[derive(Clone)]
struct Double {
    world: Arc<Mutex<Simulated>>,
}

struct Simulated {
    accounts: Accounts,
    sessions: Sessions,
    at: Moment,
    calls: Vec<&'static str>,
}

impl Transport for Double {
    async fn call<T: Send + 'static>(
        &self,
        call: CallDescription,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<T, CloudError> + Send + 'static,
    ) -> Result<T, CloudError> {
        let mut world = self.world.lock();
        world.calls.push(call.action);
        let now = Timestamp::UNIX_EPOCH + world.at.now;
        effect(&mut world.accounts.client("mine", REGION), now)
    }

    fn sessions<T>(&self, act: impl FnOnce(&mut Sessions, Moment) -> T) -> T {
        let world = &mut *self.world.lock();
        act(&mut world.sessions, world.at)
    }

    async fn sleep(&self, wait: Duration) {
        self.world.lock().at.now += wait;
    }
}

impl Double {
    fn new() -> Self {
        let mut accounts = Accounts::new();
        accounts.issue_key("mine", ACCOUNT);
        let region = accounts.account(ACCOUNT).region(REGION);
        region.vpc("vpc-1", "10.0.0.0/16");
        region.subnet("subnet-1", "vpc-1", "eu-west-1a");
        region.security_group("sg-1", "vpc-1", "nodes");
        region.image("ami-1", "/dev/xvda");
        let group = Group::TargetGroup(TARGET_GROUP.to_owned());
        region.network().put_group(&group, TargetType::Instance, seconds(60));
        let world = Simulated { accounts, sessions: Sessions::default(), at: Moment::default(), calls: Vec::new() };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    fn driver(&self, identity: &str) -> SimSession<Self> {
        let key = SessionKey { identity: identity.to_owned(), region: REGION.to_owned(), cluster: None };
        SimSession::new(self.clone(), key)
    }

    fn session(&self, identity: &str) -> MachineSession<SimSession<Self>> {
        MachineSession::new(self.driver(identity), CLUSTER)
    }

    /// Advances the time and makes all calls that become due.
    fn run(&self, long: Duration) {
        let end = self.world.lock().at.now + long;
        while self.world.lock().at.now < end {
            let due = self.sessions(|sessions, at| sessions.next_calls(at.now));
            for (key, call) in due {
                let session = SimSession::new(self.clone(), key.clone());
                let ended = perform(&session, call).now_or_never().unwrap();
                self.sessions(|sessions, at| sessions.call_ended(&key, ended, at.now));
            }
            self.world.lock().at.now += Duration::from_millis(100);
        }
    }

    fn calls_of(&self, action: &str) -> usize {
        self.world.lock().calls.iter().filter(|call| **call == action).count()
    }
}

fn machine(name: &str) -> MachineKey {
    MachineKey { namespace: "default".into(), name: name.into() }
}

fn target() -> TargetRequest {
    TargetRequest {
        target: ControlPlaneTarget { target_group_arn: Some(TARGET_GROUP.into()), ..ControlPlaneTarget::default() },
        user: TargetUser {
            cluster: "default/dev".into(),
            cluster_tag: "dev".into(),
            policy: TargetPolicy::Any,
            used_by: None,
        },
        on_record: false,
    }
}

/// A running instance of a machine that is registered with the target group by the session of an identity.
fn registered(double: &Double, identity: &str) -> TargetInstance {
    let session = double.session(identity);
    let launched = session.launch(&machine("one"), &request()).now_or_never().unwrap().unwrap();
    double.run(seconds(60));
    let instance = TargetInstance { id: launched.id, addresses: Vec::new() };
    session.reconcile_targets(&machine("one"), &instance, &[target()], Desired::Registered);
    double.run(seconds(60));
    let states = session.reconcile_targets(&machine("one"), &instance, &[target()], Desired::Registered);
    assert!(states.iter().all(capa_cloud::targets::RegistrationState::is_healthy), "{states:?}");
    instance
}

fn registrations(double: &Double) -> usize {
    let mut world = double.world.lock();
    let now = Timestamp::UNIX_EPOCH + world.at.now;
    let group = Group::TargetGroup(TARGET_GROUP.to_owned());
    world.accounts.account(ACCOUNT).region(REGION).targets_of(now, &group).len()
}

fn take_out(double: &Double, id: &str) {
    let mut world = double.world.lock();
    let now = Timestamp::UNIX_EPOCH + world.at.now;
    let call = capa_cloud::targets::GroupCall {
        group: Group::TargetGroup(TARGET_GROUP.to_owned()),
        request: capa_cloud::targets::GroupRequest::Deregister(vec![capa_cloud::targets::Target {
            id: id.to_owned(),
            port: Some(6443),
        }]),
        urgent: false,
        cluster: None,
    };
    world.accounts.client("mine", REGION).group_call(now, &call).unwrap();
}

/// Otherwise the former session of the machine would register the instance again and again.
#[test]
fn targets_forgotten_by_a_new_session_end_with_the_old_one() {
    let double = Double::new();
    let instance = registered(&double, "a");
    double.session("b").forget_targets(&machine("one"));
    take_out(&double, &instance.id);
    double.run(seconds(1_400));
    assert_eq!(registrations(&double), 0);
}

#[test]
fn nothing_is_launched_with_credentials_of_an_unknown_account() {
    let double = Double::new();
    let session = double.session("a");
    assert_eq!(session.account_id().now_or_never().unwrap().as_deref(), Ok(ACCOUNT));
    double.world.lock().at.replacements += 1;
    let refused = session.launch(&machine("one"), &request()).now_or_never().unwrap();
    assert_eq!(refused, Err(CloudError::credentials_replaced("RunInstances")));
    assert_eq!(double.calls_of("RunInstances"), 0);
    assert!(session.account_id().now_or_never().unwrap().is_ok());
    assert!(session.launch(&machine("one"), &request()).now_or_never().unwrap().is_ok());
}

/// The answers of another account do not apply to the targets of this account.
#[test]
fn replaced_credentials_cause_new_reads_of_targets() {
    let double = Double::new();
    let instance = registered(&double, "a");
    let before = double.calls_of("DescribeTargetHealth");
    double.world.lock().at.replacements += 1;
    let session = double.session("a");
    let states = session.reconcile_targets(&machine("one"), &instance, &[target()], Desired::Deregistered);
    assert_eq!(states, [capa_cloud::targets::RegistrationState::Unknown]);
    double.run(seconds(3));
    assert!(double.calls_of("DescribeTargetHealth") > before);
}
