//! The double of AWS for clusters and machines: the production sessions on the simulated EC2, with the uptime of
//! [`FakeKubernetes`].
//!
//! The double answers a call at once. The journal records calls of a pass and writes of a session, and a test can make
//! these calls fail. Sessions make their background calls in [`FakeAws::settle`].

mod calls;
mod set_up;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::limits::{Share, Shares};
use capa_cloud::session::{MachineSession, RateLimits, SessionKey};
use capa_cloud::{
    CloudError, ClusterCloud, ClusterClouds, LaunchRequest, MachineCloud, MachineClouds, MachineKey, ResolvedIdentity,
    StoredSecret, Timing,
};
use capa_fake_aws::machines::{
    Accounts, AllocatedAddress, AllocatedHost, LaunchedInstance, Region, Sessions, SimSession,
};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::{FakeKubernetes, Journal};
use crate::kubernetes_api::Kubernetes;
use calls::Failure;
pub(crate) use calls::{refused, unanswered};
pub(crate) use set_up::DRAINS_FOR;

const ACCOUNT: &str = "111122223333";
const HOME: &str = "eu-west-1";
/// The access key of every identity. A test sets the account of the key.
const ACCESS_KEY: &str = "AKIATEST";

/// AWS in memory, in one region. Clones share all other state.
#[derive(Clone)]
pub(crate) struct FakeAws {
    journal: Journal,
    clock: Arc<FakeKubernetes>,
    state: Arc<Mutex<State>>,
    region: String,
}

struct State {
    accounts: Accounts,
    sessions: Sessions,
    account_id: String,
    /// Number of times that the account was replaced.
    replacements: u64,
    /// Regions of the created clients, in order.
    regions: Vec<String>,
    launches: Vec<LaunchRequest>,
    forgotten: Vec<MachineKey>,
    failures: BTreeMap<&'static str, VecDeque<Failure>>,
    reads: Reads,
    /// How long calls do not see created or ended resources.
    hidden: Duration,
}

/// The behaviour of an informer's reads.
#[derive(Clone)]
enum Reads {
    Answered,
    /// The reads do not end.
    Slow,
    Failing(CloudError),
}

impl FakeAws {
    /// An empty account in `eu-west-1`.
    pub(crate) fn new(journal: &Journal, clock: &Arc<FakeKubernetes>) -> Self {
        let state = State {
            accounts: Accounts::new(),
            sessions: sessions(Duration::ZERO),
            account_id: ACCOUNT.to_owned(),
            replacements: 0,
            regions: Vec::new(),
            launches: Vec::new(),
            forgotten: Vec::new(),
            failures: BTreeMap::new(),
            reads: Reads::Answered,
            hidden: Duration::ZERO,
        };
        Self {
            journal: journal.clone(),
            clock: clock.clone(),
            state: Arc::new(Mutex::new(state)),
            region: HOME.to_owned(),
        }
    }

    /// The same AWS in another region.
    pub(crate) fn in_region(&self, region: &str) -> Self {
        Self { region: region.to_owned(), ..self.clone() }
    }

    /// All requested launches, including refused ones.
    pub(crate) fn launches(&self) -> Vec<LaunchRequest> {
        self.state().launches.clone()
    }

    /// The secrets that services keep.
    pub(crate) fn secrets(&self) -> Vec<StoredSecret> {
        self.state().region(&self.region).secrets().to_vec()
    }

    /// The Dedicated Hosts that were ever allocated, oldest first.
    pub(crate) fn hosts(&self) -> Vec<AllocatedHost> {
        self.state().region(&self.region).hosts().to_vec()
    }

    /// The Elastic IPs that were ever allocated, oldest first.
    pub(crate) fn addresses(&self) -> Vec<AllocatedAddress> {
        self.state().region(&self.region).addresses().to_vec()
    }

    /// Ids of the instances that were ever launched.
    pub(crate) fn instance_ids(&self) -> Vec<String> {
        let state = self.state();
        state.accounts.launched().map(|instance| instance.id.clone()).collect()
    }

    /// The tags of an instance, of its volume or of its network interface.
    pub(crate) fn tags_of(&self, id: &str) -> Tags {
        let mut state = self.state();
        let region = state.region(&self.region);
        let tags = region.launched().find_map(|instance| {
            let own = (instance.id == id).then_some(&instance.tags);
            own.or_else(|| instance.resource_tags.get(id))
        });
        tags.cloned().unwrap_or_default()
    }

    /// What is known of a launched instance; the default without such an instance.
    fn of_instance<T: Default>(&self, instance_id: &str, known: impl FnOnce(&LaunchedInstance) -> T) -> T {
        let mut state = self.state();
        let mut launched = state.region(&self.region).launched();
        let instance = launched.find(|instance| instance.id == instance_id);
        instance.map(known).unwrap_or_default()
    }

    /// The security groups of the network interface of an instance.
    pub(crate) fn groups_of(&self, instance_id: &str) -> Vec<String> {
        self.of_instance(instance_id, |instance| instance.security_group_ids.clone())
    }

    /// Whether the resource-based name of an instance has an A and an AAAA record.
    pub(crate) fn dns_records_of(&self, instance_id: &str) -> (Option<bool>, Option<bool>) {
        self.of_instance(instance_id, |instance| (instance.dns_records.a, instance.dns_records.aaaa))
    }

    /// How many hops the answers of the metadata service of an instance may take.
    pub(crate) fn hop_limit_of(&self, instance_id: &str) -> i64 {
        self.of_instance(instance_id, |instance| instance.metadata_options.http_put_response_hop_limit)
    }

    /// Regions of the created clients.
    pub(crate) fn regions(&self) -> Vec<String> {
        self.state().regions.clone()
    }

    /// Machines that sessions were told to forget.
    pub(crate) fn forgotten(&self) -> Vec<MachineKey> {
        self.state().forgotten.clone()
    }

    /// Replaces the process's credentials with credentials of another account.
    pub(crate) fn set_account(&self, account_id: &str) {
        let mut state = self.state();
        account_id.clone_into(&mut state.account_id);
        state.replacements += 1;
    }

    /// Drops the state of all sessions, as a restart of the process does.
    pub(crate) fn restart(&self) {
        self.state().sessions = sessions(Duration::ZERO);
    }

    /// Drops the state of all sessions, and lists instances in these intervals from now on.
    pub(crate) fn restart_listing_every(&self, interval: Duration) {
        self.state().sessions = sessions(interval);
    }

    fn session(&self, key: SessionKey) -> SimSession<Self> {
        SimSession::new(self.in_region(&key.region), key)
    }

    fn client_for(&self, identity: &ResolvedIdentity, region: &str) -> SimSession<Self> {
        self.state().regions.push(region.to_owned());
        let session = self.session(SessionKey::new(identity, region));
        session.for_cluster(&identity.cluster)
    }

    /// AWS's own clock, which tests do not set.
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.since_start()
    }

    fn since_start(&self) -> Duration {
        self.clock.uptime()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Sessions without waits and batching, so that the next pass sees the last change of a test. `listing_interval` is the
/// time between two listings. The sessions use AWS's full request rates.
fn sessions(listing_interval: Duration) -> Sessions {
    let shipped = Timing::default();
    let shares = Shares { default: Share::WHOLE, ..Shares::default() };
    let limits = RateLimits::new(shares, shipped.rate_second);
    let timing = Timing {
        listing_interval,
        transition_interval: Duration::ZERO,
        target_poll: Duration::ZERO,
        lookup_gathering: Duration::ZERO,
        rate_second: Duration::ZERO,
        ..shipped
    };
    Sessions::new(timing, limits)
}

impl State {
    /// A region of the account. States of instances last until a test changes them.
    fn region(&mut self, name: &str) -> &mut Region {
        self.accounts.issue_key(ACCESS_KEY, &self.account_id);
        let region = self.accounts.account(&self.account_id).region(name);
        let mut behaviour = region.behaviour();
        behaviour.hidden = self.hidden;
        behaviour.pending = Duration::MAX;
        behaviour.stopping = Duration::MAX;
        behaviour.shutting_down = Duration::MAX;
        drop(behaviour);
        region
    }
}

impl ClusterClouds for FakeAws {
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud> {
        Arc::new(self.client_for(identity, region))
    }
}

impl MachineClouds for FakeAws {
    fn machines(&self, identity: &ResolvedIdentity, region: &str, cluster: &str) -> Arc<dyn MachineCloud> {
        Arc::new(MachineSession::new(self.client_for(identity, region), cluster))
    }

    fn forget(&self, machine: &MachineKey) {
        let mut state = self.state();
        state.forgotten.push(machine.clone());
        state.sessions.forget(machine);
    }
}
