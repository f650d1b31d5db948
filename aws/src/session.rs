//! The session of one identity in one region: its calls, the answers that its callers share, and its state.

mod reads;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::Tags;
use capa_cloud::informer::TerminationBatch;
use capa_cloud::limits::{Caller, Flow};
use capa_cloud::session::{
    InformerCalls, MachineSession, Moment, RateLimiter, SessionAssignments, SessionDriver, SessionState,
};
use capa_cloud::targets::{GroupAnswer, GroupCall};
use capa_cloud::{
    CloudError, ClusterCloud, ClusterKey, DnsRecords, ElasticIpAnswer, ElasticIpCall, Found, HostRequest, Instance,
    InstanceMetadataOptions, InstanceState, LaunchRequest, MachineCloud, MachineKey, PresignRequest, PresignedUrl,
    Query, Read, SecretStore, StoredSecret, Timing,
};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::ec2::Ec2Calls;
use crate::elb::ElbCalls;
use crate::facts::FactsGatherer;
use crate::iam::IamCalls;
use crate::informer::{InformerTask, SharedState, Wakes};
use crate::kms::KmsCalls;
use crate::lookups::{Ages, SharedAnswers};
use crate::s3::S3Calls;
use crate::sdk::call_runner::CallRunner;
use crate::sdk::clients::SdkClients;
use crate::sdk::replacements::Replacements;
use crate::service_quotas::ServiceQuotasCalls;

/// The age up to which the zones of a region are reused. AWS adds a zone every few years.
const ZONES_AGE: Duration = Duration::from_hours(24);

/// The session that follows a machine.
struct Owner(Weak<SharedState>);

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// The state that all sessions of a process share.
pub(crate) struct Shared {
    pub(crate) timing: Timing,
    pub(crate) wakes: Arc<Wakes>,
    assignments: Mutex<SessionAssignments<Owner>>,
    /// Ends every informer.
    pub(crate) stop: CancellationToken,
    /// Receives the region of an informer that died.
    pub(crate) died: watch::Sender<Option<String>>,
}

impl Shared {
    pub(crate) fn new(timing: Timing) -> Self {
        Self {
            timing,
            wakes: Arc::default(),
            assignments: Mutex::default(),
            stop: CancellationToken::new(),
            died: watch::Sender::new(None),
        }
    }

    fn claim(&self, machine: &MachineKey, state: &Arc<SharedState>) {
        let before = self.assignments.lock().claim(machine, Owner(Arc::downgrade(state)));
        forget(before, machine);
    }

    /// Ends the following of a machine by any session.
    pub(crate) fn release(&self, machine: &MachineKey) {
        let before = self.assignments.lock().release(machine);
        forget(before, machine);
    }
}

fn forget(owner: Option<Owner>, machine: &MachineKey) {
    if let Some(state) = owner.and_then(|owner| owner.0.upgrade()) {
        state.act(|session, _| session.forget(machine));
    }
}

/// One identity in one region.
pub(crate) struct Session {
    pub(crate) region: String,
    clients: SdkClients,
    runner: CallRunner,
    shared: Arc<Shared>,
    replacements: Arc<Replacements>,
    state: Arc<SharedState>,
    informer: OnceLock<InformerTask>,
    /// The pending calls for the account id, by the number of replacements of the credentials. The session's state
    /// decides how long their answers are valid.
    account: SharedAnswers<u64, String>,
    reads: SharedAnswers<Read, Found>,
    /// The names of the zones that the account can use.
    zones: SharedAnswers<(), Vec<String>>,
    used: Mutex<Instant>,
}

impl Session {
    /// `replacements` counts the replacements of the credentials that `clients` sign with.
    pub(crate) fn new(
        region: &str,
        clients: SdkClients,
        runner: CallRunner,
        replacements: Arc<Replacements>,
        shared: Arc<Shared>,
    ) -> Self {
        let timing = shared.timing;
        let state = SharedState::new(timing, shared.wakes.clone(), replacements.clone());
        Self {
            region: region.to_owned(),
            clients,
            runner,
            shared,
            replacements,
            state: Arc::new(state),
            informer: OnceLock::new(),
            account: SharedAnswers::default(),
            reads: SharedAnswers::default(),
            zones: SharedAnswers::default(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// Records a use of this session.
    pub(crate) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// The time of the last use of this session.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock()
    }

    /// Whether this session follows a machine, or has pending work that a machine has submitted.
    pub(crate) fn is_at_work(&self) -> bool {
        self.state.act(|state, _| state.informer().is_watched() || state.next_due().is_some())
    }

    /// The state of the session.
    pub(crate) fn state(&self) -> &Arc<SharedState> {
        &self.state
    }

    /// Releases the rate limiter's turns of a machine that will not come back.
    pub(crate) fn forget_turns(&self, machine: &MachineKey) {
        let rates = self.runner.limiter().rates();
        rates.forget(&Caller::Machine(machine.clone()));
    }

    /// The session for the calls of a controller for a cluster.
    pub(crate) fn on_behalf_of(self: Arc<Self>, controller: &'static str, cluster: &ClusterKey) -> ControllerSession {
        let runner = self.runner.on_behalf_of(controller).for_cluster(cluster);
        let calls = Calls::new(&self.clients, &runner);
        ControllerSession { session: self, calls, controller }
    }
}

impl Session {
    /// Gathers facts about infrastructure for the checks of a cluster.
    pub(crate) fn facts(&self, controller: &'static str, cluster: &ClusterKey) -> FactsGatherer {
        let runner = self.runner.on_behalf_of(controller).for_cluster(cluster).patient();
        let (clients, checks) = self.clients.for_checks();
        FactsGatherer {
            calls: Calls::new(&clients, &runner),
            iam: IamCalls::new(checks.iam, runner.clone()),
            kms: KmsCalls::new(checks.kms, runner.clone()),
            s3: S3Calls::new(checks.s3, runner.clone(), &self.region),
            service_quotas: ServiceQuotasCalls::new(checks.service_quotas, runner),
        }
    }
}

/// A session for the calls of one controller.
pub(crate) struct ControllerSession {
    session: Arc<Session>,
    calls: Calls,
    controller: &'static str,
}

impl ControllerSession {
    /// The session for one pass over a machine of the cluster with this name in its tags. The first call starts the
    /// session's informer.
    pub(crate) fn for_machine(self, cluster: &str) -> impl MachineCloud + use<> {
        let session = &self.session;
        session.informer.get_or_init(|| {
            let runner = session.runner.on_behalf_of(self.controller);
            let calls =
                PacedCalls { calls: Calls::new(&session.clients, &runner), pause: session.shared.timing.rate_second };
            InformerTask::start(
                session.state.clone(),
                Arc::new(calls),
                session.region.clone(),
                session.shared.stop.child_token(),
                session.shared.died.clone(),
            )
        });
        MachineSession::new(self, cluster)
    }

    /// The session for one pass over a cluster.
    pub(crate) fn for_cluster(self) -> impl ClusterCloud {
        reads::ClusterSession(self)
    }

    /// The calls of EC2.
    pub(crate) fn ec2(&self) -> &Ec2Calls {
        &self.calls.ec2
    }

    /// The calls of Elastic Load Balancing.
    pub(crate) fn elb(&self) -> &ElbCalls {
        &self.calls.elb
    }

    /// The names of the zones that the account can use without opting in. They are read once a day.
    pub(crate) async fn zones(&self) -> Result<Vec<String>, CloudError> {
        let ask = || {
            let ec2 = self.calls.ec2.clone();
            async move { ec2.zone_names().await }.boxed()
        };
        self.session.zones.get((), Ages::fresh(ZONES_AGE), ask).await
    }
}

#[async_trait]
impl SessionDriver for ControllerSession {
    fn act<T>(&self, act: impl FnOnce(&mut SessionState, Moment) -> T) -> T {
        self.session.state.act(act)
    }

    fn claim(&self, machine: &MachineKey) {
        self.session.shared.claim(machine, &self.session.state);
    }

    fn rates(&self) -> &RateLimiter {
        self.session.runner.limiter().rates()
    }

    fn flow(&self) -> &Flow {
        self.session.runner.flow()
    }

    async fn ask_account(&self) -> Result<String, CloudError> {
        let ask = || {
            let sts = self.calls.sts.clone();
            async move { sts.account_id().await }.boxed()
        };
        self.session.account.get(self.session.replacements.count(), Ages::AT_ONCE, ask).await
    }

    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        self.calls.ec2.instances(query).await
    }

    async fn create_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        self.calls.secrets().create(machine, secret).await
    }

    async fn replace_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        self.calls.secrets().replace(machine, secret).await
    }

    async fn delete_secrets(
        &self,
        machine: &MachineKey,
        store: &SecretStore,
        names: &[String],
    ) -> Result<(), CloudError> {
        self.calls.secrets().delete(machine, store, names).await
    }

    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError> {
        self.calls.secrets().presign(request).await
    }

    async fn create_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        self.calls.ec2.create_tags(machine, resources, tags).await
    }

    async fn delete_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        self.calls.ec2.delete_tags(machine, resources, tags).await
    }

    async fn set_interface_groups(
        &self,
        machine: &MachineKey,
        interface_id: &str,
        group_ids: &[String],
    ) -> Result<(), CloudError> {
        let ec2 = &self.calls.ec2;
        ec2.set_interface_groups(machine, interface_id, group_ids).await
    }

    async fn set_metadata_options(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError> {
        let ec2 = &self.calls.ec2;
        ec2.set_metadata_options(machine, instance_id, options).await
    }

    async fn set_dns_records(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError> {
        self.calls.ec2.set_dns_records(machine, instance_id, records).await
    }

    async fn allocate_host(&self, machine: &MachineKey, request: &HostRequest) -> Result<String, CloudError> {
        self.calls.ec2.allocate_host(machine, request).await
    }

    async fn release_host(&self, machine: &MachineKey, host_id: &str) -> Result<(), CloudError> {
        self.calls.ec2.release_host(machine, host_id).await
    }

    async fn change_elastic_ip(
        &self,
        machine: &MachineKey,
        call: &ElasticIpCall,
    ) -> Result<ElasticIpAnswer, CloudError> {
        self.calls.ec2.change_elastic_ip(machine, call).await
    }

    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError> {
        self.calls.ec2.reserve_launch(machine)
    }

    async fn run_instance(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.calls.ec2.launch(machine, request).await
    }
}

/// The informer's calls, each of which waits for its turn.
struct PacedCalls {
    calls: Calls,
    /// The pause between the pages of a listing: a listing is not urgent, and other callers share the account's limits.
    pause: Duration,
}

#[async_trait]
impl InformerCalls for PacedCalls {
    async fn read(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        self.calls.ec2.list_instances(query, self.pause).await
    }

    async fn look_up(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        self.calls.ec2.shared_lookup(query).await
    }

    async fn terminate(&self, batch: &TerminationBatch) -> Result<Vec<(String, InstanceState)>, CloudError> {
        self.calls.ec2.terminate(batch).await
    }

    async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        self.calls.elb.group_call(call).await
    }
}
