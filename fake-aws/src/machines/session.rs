//! Sessions on the simulated EC2: the traits for the reconcilers, implemented for the simulation and for test doubles.
//!
//! A [`Transport`] delivers calls: the double of a test answers at once, and the simulation passes the call to its
//! scheduler, which may lose, delay or refuse the call.

mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::Tags;
use jiff::Timestamp;

use capa_cloud::informer::{InformerSnapshot, TerminationBatch};
use capa_cloud::limits::{CallRequest, Caller, Flow, Priority, Shares};
use capa_cloud::session::{
    EndedCall, InformerCalls, Moment, Permit, RateLimiter, RateLimits, SessionAssignments, SessionCall, SessionDriver,
    SessionKey, SessionState,
};
use capa_cloud::targets::{GroupAnswer, GroupCall, GroupRequest};
use capa_cloud::{
    CloudError, ClusterKey, DnsRecords, ElasticIpAnswer, ElasticIpCall, HostRequest, Instance, InstanceMetadataOptions,
    InstanceState, LaunchRequest, MachineKey, PresignRequest, PresignedUrl, Query, SecretActions, SecretStore,
    StoredSecret, Timing,
};

use super::client::Client;
use super::secrets;

/// The description of a call to the simulated EC2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDescription {
    /// The API action.
    pub action: &'static str,
    /// Whether the call writes.
    pub writes: bool,
    /// The parameters of the call, for a trace.
    pub about: String,
}

/// The transport from a session to the simulated EC2.
pub trait Transport: Clone + Send + Sync + 'static {
    /// Makes a call: `effect` runs when the call reaches EC2.
    fn call<T: Send + 'static>(
        &self,
        call: CallDescription,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<T, CloudError> + Send + 'static,
    ) -> impl Future<Output = Result<T, CloudError>> + Send;

    /// Runs `act` on the sessions of the process at the current moment.
    fn sessions<T>(&self, act: impl FnOnce(&mut Sessions, Moment) -> T) -> T;

    /// Waits.
    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send;

    /// Waits until this process is certainly the leader. The wait does not end if another process is the leader.
    fn wait_until_leading(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// All sessions of a process. A session is created when it is first used.
pub struct Sessions {
    timing: Timing,
    limits: Arc<RateLimits>,
    by_key: BTreeMap<SessionKey, (SessionState, Arc<RateLimiter>)>,
    owners: SessionAssignments<SessionKey>,
}

impl Default for Sessions {
    /// Sessions with the default timing and shares.
    fn default() -> Self {
        let timing = Timing::default();
        Self::new(timing, RateLimits::new(Shares::default(), timing.rate_second))
    }
}

impl Sessions {
    /// An empty set of sessions, which will all use this timing and these request rates.
    pub fn new(timing: Timing, limits: RateLimits) -> Self {
        Self { timing, limits: Arc::new(limits), by_key: BTreeMap::new(), owners: SessionAssignments::default() }
    }

    /// The calls that are due now.
    pub fn next_calls(&mut self, now: Duration) -> Vec<(SessionKey, SessionCall)> {
        let mut calls = Vec::new();
        for (key, (state, _)) in &mut self.by_key {
            while let Some(call) = state.next_call(now) {
                calls.push((key.clone(), call));
            }
        }
        calls
    }

    /// The time at which [`Sessions::next_calls`] returns the next call, unless an event makes one due earlier. A time
    /// in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        self.by_key.values().filter_map(|(state, _)| state.next_due()).min()
    }

    /// Records the answer to a call.
    pub fn call_ended(&mut self, key: &SessionKey, ended: EndedCall, now: Duration) {
        self.state(key).call_ended(ended, now);
    }

    /// The machines to wake since the last call of this function.
    pub fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        let mut woken = BTreeSet::new();
        for (state, _) in self.by_key.values_mut() {
            woken.append(&mut state.take_woken());
        }
        woken
    }

    /// Ends every session's interest for a machine.
    pub fn forget(&mut self, machine: &MachineKey) {
        if let Some(owner) = self.owners.release(machine) {
            self.state(&owner).forget(machine);
        }
        let caller = Caller::Machine(machine.clone());
        for (_, rates) in self.by_key.values() {
            rates.forget(&caller);
        }
    }

    /// How many entries the sessions keep, together with those that say which session follows a machine.
    pub fn entries(&self) -> usize {
        let kept = self.by_key.values().map(|(state, _)| state.entries());
        self.owners.entries() + kept.sum::<usize>()
    }

    /// The state of the informer of each session, with its region.
    pub fn snapshots(&self) -> Vec<(String, InformerSnapshot)> {
        let states = self.by_key.iter();
        let snapshots = states.map(|(key, (state, _))| (key.region.clone(), state.informer().snapshot()));
        snapshots.collect()
    }

    /// The state of a session.
    pub fn state(&mut self, key: &SessionKey) -> &mut SessionState {
        &mut self.session(key).0
    }

    fn session(&mut self, key: &SessionKey) -> &mut (SessionState, Arc<RateLimiter>) {
        let (timing, limits) = (self.timing, &self.limits);
        self.by_key.entry(key.clone()).or_insert_with(|| {
            let rates = RateLimiter::new(limits.clone(), &key.identity, &key.region);
            (SessionState::new(timing), Arc::new(rates))
        })
    }

    fn claim(&mut self, key: &SessionKey, machine: &MachineKey) {
        if let Some(before) = self.owners.claim(machine, key.clone()) {
            self.state(&before).forget(machine);
        }
    }
}

/// A session over a transport, for one pass.
pub struct SimSession<T> {
    transport: T,
    key: SessionKey,
    flow: Flow,
    rates: Arc<RateLimiter>,
}

impl<T: Transport> SimSession<T> {
    /// The session of an identity in a region, for the calls that it makes by itself.
    pub fn new(transport: T, key: SessionKey) -> Self {
        let rates = transport.sessions(|sessions, _| sessions.session(&key).1.clone());
        let flow = key.flow();
        Self { transport, key, flow, rates }
    }

    /// The same for calls on behalf of a cluster.
    #[must_use]
    pub fn for_cluster(self, cluster: &ClusterKey) -> Self {
        Self { flow: Flow::Cluster(cluster.clone()), ..self }
    }

    fn now(&self) -> Duration {
        self.transport.sessions(|_, at| at.now)
    }

    async fn wait(&self, request: &CallRequest) -> Permit {
        loop {
            match self.rates.acquire(request, self.now()) {
                Ok(permit) => return permit,
                Err(deferred) => self.transport.sleep(deferred.retry_after.unwrap_or_default()).await,
            }
        }
    }

    async fn call<A: Send + 'static>(
        &self,
        permit: Permit,
        writes: bool,
        about: String,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<A, CloudError> + Send + 'static,
    ) -> Result<A, CloudError> {
        let action = permit.action;
        let call = CallDescription { action, writes, about };
        let answer = self.transport.call(call, effect).await;
        if let Err(error) = &answer {
            permit.failed(error, self.now());
        }
        answer
    }

    /// A change of a machine's instance after the launch.
    async fn update(
        &self,
        action: &'static str,
        machine: &MachineKey,
        about: String,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<(), CloudError> + Send + 'static,
    ) -> Result<(), CloudError> {
        let turn = CallRequest::update(action, &self.flow, machine);
        self.write(turn, about, effect).await
    }

    /// A write that is made by the leader only.
    async fn write<A: Send + 'static>(
        &self,
        turn: CallRequest,
        about: String,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<A, CloudError> + Send + 'static,
    ) -> Result<A, CloudError> {
        let permit = self.rates.acquire(&turn, self.now())?;
        self.transport.wait_until_leading().await;
        self.call(permit, true, about, effect).await
    }

    async fn describe_instances(&self, permit: Permit, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let (about, query) = (describe_query(query), query.clone());
        let effect = move |client: &mut Client<'_>, now| client.describe_instances(now, &query);
        self.call(permit, false, about, effect).await
    }
}

fn describe_query(query: &Query) -> String {
    let filters = query.filters.iter();
    let filters = filters.map(|(name, values)| format!("{name}={}", values.join(",")));
    filters.collect::<Vec<_>>().join(" ")
}

#[async_trait]
impl<T: Transport> SessionDriver for SimSession<T> {
    fn act<A>(&self, act: impl FnOnce(&mut SessionState, Moment) -> A) -> A {
        self.transport.sessions(|sessions, at| act(sessions.state(&self.key), at))
    }

    fn claim(&self, machine: &MachineKey) {
        self.transport.sessions(|sessions, _| sessions.claim(&self.key, machine));
    }

    fn rates(&self) -> &RateLimiter {
        &self.rates
    }

    fn flow(&self) -> &Flow {
        &self.flow
    }

    async fn ask_account(&self) -> Result<String, CloudError> {
        let permit = Permit::unlimited("GetCallerIdentity");
        self.call(permit, false, String::new(), |client, _| client.account_id()).await
    }

    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let permit = self.rates.acquire_lookup(&self.flow, query, self.now())?;
        self.describe_instances(permit, query).await
    }

    async fn create_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        let action = SecretActions::of(&secret.store).create;
        let turn = CallRequest::of_machine(action, &self.flow, machine, Priority::Launch);
        let permit = self.rates.acquire(&turn, self.now())?;
        self.transport.wait_until_leading().await;
        let (about, secret) = (secret.name.clone(), secret.clone());
        let effect = move |client: &mut Client<'_>, now| client.create_secret(now, &secret);
        self.call(permit, true, about, effect).await
    }

    async fn replace_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        let action = SecretActions::of(&secret.store).replace;
        let turn = CallRequest::of_machine(action, &self.flow, machine, Priority::Launch);
        let permit = self.rates.acquire(&turn, self.now())?;
        self.transport.wait_until_leading().await;
        let (about, secret) = (secret.name.clone(), secret.clone());
        let effect = move |client: &mut Client<'_>, now| client.replace_secret(now, &secret);
        self.call(permit, true, about, effect).await
    }

    async fn delete_secrets(
        &self,
        machine: &MachineKey,
        store: &SecretStore,
        names: &[String],
    ) -> Result<(), CloudError> {
        let action = SecretActions::of(store).delete;
        let turn = CallRequest::of_machine(action, &self.flow, machine, Priority::Tag);
        let permit = self.rates.acquire(&turn, self.now())?;
        self.transport.wait_until_leading().await;
        let (about, store, names) = (names.join(" "), store.clone(), names.to_vec());
        let effect = move |client: &mut Client<'_>, now| client.delete_secrets(now, &store, &names);
        self.call(permit, true, about, effect).await
    }

    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError> {
        let replacements = self.transport.sessions(|_, at| at.replacements);
        let credentials = format!("{}-{replacements}", self.key.identity);
        Ok(secrets::presigned(request, &self.key.region, &credentials))
    }

    async fn create_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        let (ids, tags) = (resources.to_vec(), tags.clone());
        let effect = move |client: &mut Client<'_>, now| client.create_tags(now, &ids, &tags);
        self.update("CreateTags", machine, resources.join(" "), effect).await
    }

    async fn delete_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        let (ids, tags) = (resources.to_vec(), tags.clone());
        let effect = move |client: &mut Client<'_>, now| client.delete_tags(now, &ids, &tags);
        self.update("DeleteTags", machine, resources.join(" "), effect).await
    }

    async fn set_interface_groups(
        &self,
        machine: &MachineKey,
        interface_id: &str,
        group_ids: &[String],
    ) -> Result<(), CloudError> {
        let about = format!("{interface_id} {}", group_ids.join(" "));
        let (id, group_ids) = (interface_id.to_owned(), group_ids.to_vec());
        let effect = move |client: &mut Client<'_>, now| client.set_interface_groups(now, &id, &group_ids);
        self.update("ModifyNetworkInterfaceAttribute", machine, about, effect).await
    }

    async fn set_metadata_options(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError> {
        let (about, id) = (format!("{instance_id} {options:?}"), instance_id.to_owned());
        let options = options.clone();
        let effect = move |client: &mut Client<'_>, now| client.set_metadata_options(now, &id, &options);
        self.update("ModifyInstanceMetadataOptions", machine, about, effect).await
    }

    async fn set_dns_records(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError> {
        let (about, id) = (format!("{instance_id} {records:?}"), instance_id.to_owned());
        let effect = move |client: &mut Client<'_>, now| client.set_dns_records(now, &id, records);
        self.update("ModifyPrivateDnsNameOptions", machine, about, effect).await
    }

    async fn allocate_host(&self, machine: &MachineKey, request: &HostRequest) -> Result<String, CloudError> {
        let turn = CallRequest::of_machine("AllocateHosts", &self.flow, machine, Priority::Launch);
        let about = format!("token={} zone={}", request.client_token, request.availability_zone);
        let request = request.clone();
        let effect = move |client: &mut Client<'_>, now| client.allocate_host(now, &request);
        self.write(turn, about, effect).await
    }

    async fn release_host(&self, machine: &MachineKey, host_id: &str) -> Result<(), CloudError> {
        let turn = CallRequest::of_machine("ReleaseHosts", &self.flow, machine, Priority::Terminate);
        let (about, id) = (host_id.to_owned(), host_id.to_owned());
        let effect = move |client: &mut Client<'_>, now| client.release_host(now, &id);
        self.write(turn, about, effect).await
    }

    async fn change_elastic_ip(
        &self,
        machine: &MachineKey,
        call: &ElasticIpCall,
    ) -> Result<ElasticIpAnswer, CloudError> {
        let turn = CallRequest::of_machine(call.action(), &self.flow, machine, Priority::Launch);
        let (about, call) = (format!("{call:?}"), call.clone());
        let effect = move |client: &mut Client<'_>, now| client.change_elastic_ip(now, &call);
        self.write(turn, about, effect).await
    }

    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError> {
        let request = CallRequest::launch(&self.flow, machine);
        self.rates.reserve(&request, self.now())
    }

    async fn run_instance(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let turn = CallRequest::launch(&self.flow, machine);
        let permit = self.rates.acquire(&turn, self.now())?;
        let request = request.clone();
        let about = format!("token={} subnet={}", request.client_token, request.subnet_id);
        let effect = move |client: &mut Client<'_>, now| client.run_instances(now, &request);
        self.call(permit, true, about, effect).await
    }
}

#[async_trait]
impl<T: Transport> InformerCalls for SimSession<T> {
    async fn read(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let request = CallRequest::describe("DescribeInstances", &self.flow, query, Priority::Describe);
        let permit = self.wait(&request).await;
        self.describe_instances(permit, query).await
    }

    async fn look_up(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let permit = self.wait(&CallRequest::lookup(&self.flow, query)).await;
        self.describe_instances(permit, query).await
    }

    async fn terminate(&self, batch: &TerminationBatch) -> Result<Vec<(String, InstanceState)>, CloudError> {
        let permit = self.wait(&batch.rate_request()).await;
        self.transport.wait_until_leading().await;
        let (about, ids) = (batch.ids().join(" "), batch.ids().to_vec());
        let effect = move |client: &mut Client<'_>, now| client.terminate_instances(now, &ids);
        let changes = self.call(permit, true, about, effect).await?;
        let states = changes.into_iter().map(|change| (change.instance_id, change.current));
        Ok(states.collect())
    }

    async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        let permit = self.wait(&call.rate_request(&self.flow)).await;
        let (writes, about) = match &call.request {
            GroupRequest::Register(targets) | GroupRequest::Deregister(targets) => {
                let ids: Vec<&str> = targets.iter().map(|target| target.id.as_str()).collect();
                (true, format!("{} {}", call.group, ids.join(" ")))
            }
            GroupRequest::Facts | GroupRequest::Tags | GroupRequest::Health | GroupRequest::Delay => {
                (false, call.group.to_string())
            }
        };
        if writes {
            self.transport.wait_until_leading().await;
        }
        let call = call.clone();
        let effect = move |client: &mut Client<'_>, now| client.group_call(now, &call);
        self.call(permit, writes, about, effect).await
    }
}
