//! One managed AWSCluster with its API server and its AWS account, in simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::cluster::{AWSCluster, ControlPlaneEndpoint};
use capa_api::common::IdentityReference;
use capa_api::conditions::{ConditionType, find};
use capa_api::contract::Cluster;
use capa_api::meta;
use capa_cloud::Timing;
use capa_cloud::managed::ManagedObserver;
use capa_fake_aws::FakeAccount;
use capa_runtime::reconcile::{EventDraft, Next};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use parking_lot::Mutex;

use super::super::{KnownDetails, ManagedContext, PlanFacts, Preview, preview, reconcile};
use crate::kubernetes_api::{ClusterKubernetes, Identity, Kubernetes, KubernetesError};
use crate::machine_networks::MachineNetworks;
use crate::testing::{FakeKubernetes, Journal, read, status_and_reason};

/// More polls than any pass needs, unless it waits for a process that has ended.
const POLLS: usize = 100;
/// More passes than any world needs to come to rest.
pub(super) const PASSES: usize = 200;
/// The back-off of an object after a pass with a failure.
const BACKOFF: Duration = Duration::from_secs(5);

/// The API server with one AWSCluster.
struct Stored {
    fake: FakeKubernetes,
    cluster: Mutex<Option<AWSCluster>>,
    machines: Mutex<BTreeSet<String>>,
    others: Mutex<Vec<Arc<AWSCluster>>>,
    writes: Mutex<usize>,
}

/// The AWSCluster, the API server and AWS.
pub(crate) struct World {
    stored: Arc<Stored>,
    pub(crate) account: FakeAccount,
    context: ManagedContext,
    owner: Option<Cluster>,
    pub(super) events: Vec<EventDraft>,
}

impl Stored {
    fn change(&self, read: &AWSCluster, change: impl FnOnce(&mut AWSCluster)) -> Result<AWSCluster, KubernetesError> {
        let mut stored = self.cluster.lock();
        let current = stored.as_mut().filter(|current| current.resource_version() == read.resource_version());
        let Some(current) = current else {
            return Err(KubernetesError {
                attempted: "write the AWSCluster".to_owned(),
                source: "the object has changed".into(),
            });
        };
        change(current);
        let version: u64 = current.resource_version().unwrap().parse().unwrap();
        current.metadata.resource_version = Some((version + 1).to_string());
        *self.writes.lock() += 1;
        let written = current.clone();
        if written.metadata.deletion_timestamp.is_some() && written.finalizers().is_empty() {
            *stored = None;
        }
        Ok(written)
    }
}

#[async_trait]
impl Kubernetes for Stored {
    fn now(&self) -> Timestamp {
        self.fake.now()
    }

    fn uptime(&self) -> Duration {
        self.fake.uptime()
    }

    fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>> {
        self.fake.cluster(namespace, name)
    }

    fn identity(&self, reference: &IdentityReference) -> Option<Identity> {
        self.fake.identity(reference)
    }

    fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.fake.namespace_labels(namespace)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, KubernetesError> {
        self.fake.secret(namespace, name).await
    }
}

#[async_trait]
impl ClusterKubernetes for Stored {
    fn machine_networks(&self, _: &str, _: &str) -> MachineNetworks {
        MachineNetworks::default()
    }

    fn held_machines(&self, _: &str, _: &str) -> BTreeSet<String> {
        self.machines.lock().clone()
    }

    fn managed_clusters(&self) -> Vec<Arc<AWSCluster>> {
        let own = self.cluster.lock().clone().map(Arc::new);
        self.others.lock().iter().cloned().chain(own).collect()
    }

    async fn write_status(
        &self,
        cluster: &AWSCluster,
        status: &AWSClusterStatus,
    ) -> Result<AWSCluster, KubernetesError> {
        self.change(cluster, |current| current.status = Some(status.clone()))
    }

    async fn publish_endpoint(
        &self,
        cluster: &AWSCluster,
        endpoint: &ControlPlaneEndpoint,
    ) -> Result<AWSCluster, KubernetesError> {
        self.change(cluster, |current| {
            current.spec.control_plane_endpoint = Some(endpoint.clone());
            current.metadata.generation = current.metadata.generation.map(|generation| generation + 1);
        })
    }

    async fn add_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        self.change(cluster, |current| {
            current.finalizers_mut().push(meta::CLUSTER_FINALIZER.to_owned());
        })
    }

    async fn remove_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        self.change(cluster, |current| current.finalizers_mut().clear())
    }
}

impl World {
    /// A world with an AWSCluster of this spec, which belongs to the Cluster `dev`.
    pub(super) fn new(spec: &str) -> Self {
        Self::in_account(spec, FakeAccount::new())
    }

    /// The same in an account that others use, too.
    pub(crate) fn in_account(spec: &str, account: FakeAccount) -> Self {
        let fake = FakeKubernetes::new(&Journal::default());
        let cluster: AWSCluster = read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, metadata: {{name: dev, \
             namespace: team-a, uid: u, generation: 1, resourceVersion: '1', creationTimestamp: \
             '1970-01-01T00:00:00Z', ownerReferences: [{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: \
             dev, uid: c}}]}}, spec: {{{spec}}}}}"
        ));
        let owner = read(
            "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: dev, namespace: team-a}, spec: {}}",
        );
        Self::of(fake, cluster, Some(owner), account)
    }

    fn of(fake: FakeKubernetes, cluster: AWSCluster, owner: Option<Cluster>, account: FakeAccount) -> Self {
        let stored = Arc::new(Stored {
            fake,
            cluster: Mutex::new(Some(cluster)),
            machines: Mutex::default(),
            others: Mutex::default(),
            writes: Mutex::default(),
        });
        let context = ManagedContext {
            kubernetes: stored.clone(),
            clouds: Arc::new(account.clone()),
            timing: Timing::default(),
            identity_namespace: "capa-rs-system".to_owned(),
            known_details: KnownDetails::default(),
        };
        Self { stored, account, context, owner, events: vec![] }
    }

    /// Another world with the cluster and the account of this one, after a restart of the provider.
    pub(super) fn fork(&self) -> Self {
        let fake = FakeKubernetes::new(&Journal::default());
        fake.advance(self.account.elapsed());
        let cluster = self.cluster().expect("the AWSCluster exists");
        Self::of(fake, cluster, self.owner.clone(), self.account.fork())
    }

    /// The stored AWSCluster; `None` once it is gone.
    pub(super) fn cluster(&self) -> Option<AWSCluster> {
        self.stored.cluster.lock().clone()
    }

    /// Changes the stored AWSCluster, as a user does.
    pub(super) fn edit(&self, change: impl FnOnce(&mut AWSCluster)) {
        let read = self.cluster().expect("the AWSCluster exists");
        self.stored.change(&read, change).expect("a write without another one");
    }

    /// Changes the spec like a user who applies another one: the endpoint that the provider has published stays.
    pub(super) fn set_spec(&self, spec: &str) {
        self.edit(|cluster| {
            let published = cluster.spec.control_plane_endpoint.take();
            cluster.spec = read(&format!("{{{spec}}}"));
            let endpoint = &mut cluster.spec.control_plane_endpoint;
            *endpoint = endpoint.take().or(published);
            cluster.metadata.generation = cluster.metadata.generation.map(|generation| generation + 1);
        });
    }

    /// Deletes the AWSCluster.
    pub(crate) fn delete(&self) {
        let now = self.stored.now();
        self.edit(|cluster| cluster.metadata.deletion_timestamp = Some(Time(now)));
    }

    /// Changes the port of the API server in the Cluster.
    pub(super) fn set_api_server_port(&mut self, port: i32) {
        let owner = self.owner.as_mut().expect("the Cluster exists");
        let network = owner.spec.cluster_network.get_or_insert_default();
        network.api_server_port = Some(port);
    }

    /// Removes the Cluster, as somebody who forces its deletion does.
    pub(super) fn forget_owner(&mut self) {
        self.owner = None;
    }

    /// Loses the status, as a restored backup without it does.
    pub(super) fn lose_status(&self) {
        self.edit(|cluster| cluster.status = None);
    }

    pub(super) fn set_machines(&self, names: &[&str]) {
        *self.stored.machines.lock() = names.iter().map(ToString::to_string).collect();
    }

    pub(super) fn add_other(&self, other: AWSCluster) {
        self.stored.others.lock().push(Arc::new(other));
    }

    pub(super) fn advance(&self, by: Duration) {
        self.stored.fake.advance(by);
        self.account.advance(by);
    }

    /// The number of writes to the API server so far.
    pub(super) fn writes(&self) -> usize {
        *self.stored.writes.lock()
    }

    /// One pass, whose status is written as by the runtime, and the wait after it. `None`: the process ended in the
    /// pass, or the pass failed, and the next one comes after a restart or a back-off.
    pub(super) fn pass(&mut self) -> Option<Next> {
        let object = self.cluster()?;
        let result = {
            let pass = pin!(reconcile(object, self.owner.as_ref(), &self.context));
            poll(pass)
        };
        let Some(result) = result else {
            assert!(self.account.crashed(), "a pass waits although no process has ended");
            self.account.restart();
            self.context.known_details = KnownDetails::default();
            return None;
        };
        let Ok(outcome) = result else { return None };
        self.events.extend(outcome.events);
        if let Some(status) = outcome.status
            && self.cluster().is_some()
            && outcome.object.status.as_ref() != Some(&status)
        {
            let stored = self.stored.change(&outcome.object, |current| current.status = Some(status));
            stored.ok()?;
        }
        Some(outcome.next)
    }

    /// The preview of the next actions.
    pub(super) fn preview(&self) -> Result<(Preview, PlanFacts), String> {
        self.preview_with(&self.account)
    }

    /// The preview of the next actions from an observation of `cloud`.
    pub(super) fn preview_with(&self, cloud: &dyn ManagedObserver) -> Result<(Preview, PlanFacts), String> {
        let cluster = self.cluster().expect("the AWSCluster exists");
        let owner = self.owner.as_ref().expect("the Cluster exists");
        let preview = pin!(preview(&cluster, owner, cloud, self.stored.now()));
        poll(preview).expect("no process has ended")
    }

    /// Runs passes until nothing is left to do, or the AWSCluster is gone. Returns the number of passes. `each` is
    /// called after each pass.
    pub(super) fn rest_watched(&mut self, mut each: impl FnMut(&mut Self, usize)) -> usize {
        for pass in 0..PASSES {
            if self.cluster().is_none() {
                return pass;
            }
            let next = self.pass();
            each(self, pass);
            match next {
                Some(Next::AwaitChange) => return pass + 1,
                Some(Next::Requeue(wait) | Next::Deferred(wait)) => self.advance(wait),
                Some(Next::Retry) | None => self.advance(BACKOFF),
            }
        }
        let status = self.cluster().and_then(|cluster| cluster.status);
        panic!("the cluster comes to no rest: {:?}\n{status:#?}", self.account.journal());
    }

    pub(crate) fn rest(&mut self) -> usize {
        self.rest_watched(|_, _| {})
    }

    /// Runs passes for a time, whether or not anything is left to do.
    pub(crate) fn rest_for(&mut self, time: Duration) {
        let end = self.account.elapsed() + time;
        while self.account.elapsed() < end {
            let next = self.pass();
            let wait = match next {
                Some(Next::Requeue(wait) | Next::Deferred(wait)) => wait,
                Some(Next::AwaitChange) => Duration::from_mins(10),
                Some(Next::Retry) | None => BACKOFF,
            };
            self.advance(wait);
        }
    }

    /// A world whose cluster is complete.
    pub(super) fn built(spec: &str) -> Self {
        let mut world = Self::new(spec);
        world.rest();
        world
    }

    /// A world whose cluster is complete, after so long that AWS shows every resource for certain, and after a restart
    /// of the provider, whose next observation is complete.
    pub(super) fn aged(spec: &str) -> Self {
        let mut world = Self::built(spec);
        world.advance(Duration::from_mins(10));
        world.pass();
        world.context.known_details = KnownDetails::default();
        world
    }

    pub(crate) fn status(&self) -> AWSClusterStatus {
        self.cluster().and_then(|cluster| cluster.status).unwrap_or_default()
    }

    /// Deletes the cluster, and asserts that nothing of it is left.
    pub(super) fn delete_completely(&mut self) {
        self.delete();
        self.assert_gone();
    }

    /// Runs passes until nothing is left to do, and asserts that nothing of the deleted cluster is left.
    pub(crate) fn assert_gone(&mut self) {
        self.rest();
        assert!(self.account.is_empty(), "{:?}", self.account.contents());
        assert!(self.cluster().is_none());
    }

    pub(crate) fn condition(&self, condition: ConditionType) -> String {
        status_and_reason(&self.status().conditions, condition)
    }

    pub(crate) fn message(&self, condition: ConditionType) -> String {
        let status = self.status();
        let found = find(&status.conditions, condition);
        found.map(|found| found.message.clone()).unwrap_or_default()
    }

    /// The reasons of all events so far.
    pub(super) fn reasons(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.reason.as_str()).collect()
    }
}

/// The result of a future that only waits for a process that has ended; `None` if it does.
fn poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    (0..POLLS).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    })
}
