//! The handle of a simulated account: its clock, its faults, and what has happened in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::ec2::{InternetGateway, NatGateway, RouteTable, SecurityGroup, Subnet, Vpc, VpcDns};
use capa_cloud::elb::{ClassicLoadBalancer, Listener, LoadBalancer, TargetGroup};
use capa_cloud::managed::{Call, ChangeAnswer, Observed, Scope};
use capa_cloud::{CloudError, ElasticIp};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::behaviour::Behaviour;
use crate::contents::Contents;
use crate::ec2::{Ec2, vpc_of};
use crate::elb::Elb;
use crate::faults::{Fault, refusal};
use crate::journal::Entry;

/// One AWS account and region in memory. Clones are handles of the same account.
#[derive(Clone, Debug, Default)]
pub struct FakeAccount {
    pub(crate) state: Arc<Mutex<State>>,
}

/// All that an account knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) ec2: Ec2,
    pub(crate) elb: Elb,
    /// Ids that a test added by hand, also after they were removed. The name of a Classic Load Balancer leaves this set
    /// when a call makes another one with it.
    pub(crate) foreign: BTreeSet<String>,
    /// The entries of the journal that name a foreign id.
    foreign_writes: Vec<Entry>,
    faults: BTreeMap<usize, Fault>,
    crashed_by: Option<Fault>,
    journal: Vec<Entry>,
}

impl FakeAccount {
    /// An empty account with the default [`Behaviour`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Another account in the state of this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.lock().clone();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn ec2(&self) -> MappedMutexGuard<'_, Ec2> {
        MutexGuard::map(self.state.lock(), |state| &mut state.ec2)
    }

    pub(crate) fn elb(&self) -> MappedMutexGuard<'_, Elb> {
        MutexGuard::map(self.state.lock(), |state| &mut state.elb)
    }

    pub(crate) fn behaviour(&self) -> MappedMutexGuard<'_, Behaviour> {
        MutexGuard::map(self.state.lock(), |state| &mut state.ec2.behaviour)
    }

    /// Changes the behaviour of the account.
    pub fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state.lock().ec2.behaviour);
    }

    /// Lets time pass.
    pub fn advance(&self, duration: Duration) {
        self.state.lock().ec2.advance(duration);
    }

    /// Time that has passed since the account exists.
    pub fn elapsed(&self) -> Duration {
        self.state.lock().ec2.now()
    }

    /// Plans a fault for one call: the `index`-th of all calls that change something, counted from 0 over the whole
    /// life of the account as in [`FakeAccount::journal`]. A later plan for the same call replaces the former.
    pub fn fail(&self, index: usize, fault: Fault) {
        self.state.lock().faults.insert(index, fault);
    }

    /// Plans that the next `count` NAT gateways fail at the end of pending, with this code and message. A later plan
    /// replaces the former. A gateway in a VPC without an internet gateway fails without a plan.
    pub fn fail_nat_gateways(&self, count: usize, code: &str, message: &str) {
        self.state.lock().ec2.plan_failures(count, code, message);
    }

    /// Plans that the next `count` load balancers fail at the end of provisioning, with this message. A later plan
    /// replaces the former.
    pub fn fail_load_balancers(&self, count: usize, message: &str) {
        self.state.lock().elb.plan_failures(count, message);
    }

    /// Whether a fault has ended the process. A call of an ended process never completes: the caller drops its pass.
    pub fn crashed(&self) -> bool {
        self.state.lock().is_crashed()
    }

    /// Starts the process again after a crash. Calls from before the crash still never complete.
    pub fn restart(&self) {
        self.state.lock().crashed_by = None;
    }

    /// All calls that change something, oldest first. Calls of an ended process are not in it, unless they were in
    /// flight when it ended ([`Fault::CrashInFlight`]).
    pub fn journal(&self) -> Vec<Entry> {
        self.state.lock().journal.clone()
    }

    /// The number of entries of [`FakeAccount::journal`]: the index of the next call that changes something.
    pub fn calls(&self) -> usize {
        self.state.lock().journal.len()
    }

    /// The calls that name a resource which a test added by hand, refused ones too. A managed cluster may name such a
    /// resource only where its spec does.
    pub fn foreign_writes(&self) -> Vec<Entry> {
        self.state.lock().foreign_writes.clone()
    }

    /// How often each action that only reads was called, by its name, or by the name in
    /// [`Behaviour::refused_describes`] for actions of Classic Load Balancers.
    pub fn describes(&self) -> BTreeMap<&'static str, usize> {
        self.state.lock().ec2.describes().clone()
    }

    /// Forgets how often each action that only reads was called.
    pub fn reset_describes(&self) {
        self.state.lock().ec2.reset_describes();
    }

    /// All that is in the account, without ids: equal for two accounts in which the same things exist.
    pub fn contents(&self) -> Contents {
        let state = self.state.lock();
        Contents::of(&state.ec2, &state.elb)
    }

    /// Whether nothing is in the account. NAT gateways that are deleted, main route tables and default security
    /// groups do not count.
    pub fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.ec2.is_empty() && state.elb.is_empty()
    }

    /// All VPCs, hidden ones too, oldest first.
    pub fn vpcs(&self) -> Vec<Vpc> {
        self.state.lock().ec2.all_vpcs()
    }

    /// All subnets, hidden ones too, oldest first.
    pub fn subnets(&self) -> Vec<Subnet> {
        self.state.lock().ec2.all_subnets()
    }

    /// All internet gateways, hidden ones too, oldest first.
    pub fn internet_gateways(&self) -> Vec<InternetGateway> {
        self.state.lock().ec2.all_internet_gateways()
    }

    /// Adds a public IPv4 pool with so many free addresses, or replaces it.
    pub fn add_pool(&self, id: &str, free: u32) {
        self.state.lock().ec2.add_pool(id, free);
    }

    /// All Elastic IPs, hidden ones too, oldest first.
    pub fn addresses(&self) -> Vec<ElasticIp> {
        self.state.lock().ec2.all_addresses()
    }

    /// All NAT gateways that EC2 lists, also those that have failed or are deleted, and hidden ones, oldest first.
    pub fn nat_gateways(&self) -> Vec<NatGateway> {
        self.state.lock().ec2.all_nat_gateways()
    }

    /// All route tables, main ones and hidden ones too, oldest first.
    pub fn route_tables(&self) -> Vec<RouteTable> {
        self.state.lock().ec2.all_route_tables()
    }

    /// All security groups, default ones and hidden ones too, in order of their ids. The id of a default one ends as
    /// that of its VPC does.
    pub fn security_groups(&self) -> Vec<SecurityGroup> {
        self.state.lock().ec2.all_security_groups()
    }

    /// All load balancers with their attributes, hidden ones too, in order of their ARNs.
    pub fn load_balancers(&self) -> Vec<LoadBalancer> {
        let state = self.state.lock();
        state.elb.all_load_balancers(&state.ec2)
    }

    /// All target groups with their attributes, hidden ones too, in order of their ARNs.
    pub fn target_groups(&self) -> Vec<TargetGroup> {
        self.state.lock().elb.all_target_groups()
    }

    /// All listeners, hidden ones too, in order of their ARNs.
    pub fn listeners(&self) -> Vec<Listener> {
        self.state.lock().elb.all_listeners()
    }

    /// All Classic Load Balancers with their attributes, hidden ones too, in order of their names.
    pub fn classic_load_balancers(&self) -> Vec<ClassicLoadBalancer> {
        self.state.lock().elb.all_classic_load_balancers()
    }

    /// The DNS attributes of a VPC; `None` if it does not exist.
    pub fn dns(&self, vpc: &str) -> Option<VpcDns> {
        self.state.lock().ec2.dns_of(vpc)
    }
}

impl State {
    pub(crate) fn is_crashed(&self) -> bool {
        self.crashed_by.is_some()
    }

    /// All describes of an observation.
    pub(crate) fn observe(&mut self, scope: &Scope) -> Observed {
        let ec2 = self.ec2.observe(scope);
        let vpc = vpc_of(scope, ec2.vpcs.shown().map(Vec::as_slice));
        let elb = self.elb.observe(&mut self.ec2, scope, vpc.as_deref());
        Observed { ec2, elb }
    }

    /// Makes a call and records it. `None`: the process that called has ended.
    pub(crate) fn call(&mut self, call: &Call<String>) -> Option<Result<ChangeAnswer, CloudError>> {
        let fault = match self.crashed_by {
            Some(Fault::CrashInFlight) => Some(Fault::CrashInFlight),
            Some(_) => return None,
            None => self.faults.get(&self.journal.len()).copied(),
        };
        let reaches_aws = fault.is_none_or(Fault::takes_effect);
        let is_refused = self.ec2.behaviour.refused_calls.contains(call.action());
        let effect = reaches_aws.then(|| match call {
            Call::Ec2(_) if is_refused => Err(refusal(call.action(), "UnauthorizedOperation")),
            Call::Elb(_) if is_refused => Err(refusal(call.action(), "AccessDenied")),
            Call::Ec2(call) => self.ec2.call(call),
            Call::Elb(call) => self.elb.call(&mut self.ec2, call),
        });
        let answer = match fault {
            None => effect.clone(),
            Some(fault) => fault.answer(call),
        };
        self.crashed_by = fault.filter(|fault| fault.is_crash());
        self.record(Entry { at: self.ec2.now(), call: call.clone(), effect, answer: answer.clone() });
        answer
    }

    fn record(&mut self, entry: Entry) {
        if entry.ids().iter().any(|id| self.foreign.contains(id)) {
            self.foreign_writes.push(entry.clone());
        }
        if let Some(made) = entry.made().filter(|made| self.elb.has_made_classic(made)) {
            self.foreign.remove(made);
        }
        self.journal.push(entry);
    }
}
