//! Kubernetes in memory. Objects have resource versions, and a write with an old resource version is refused.

mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::cluster::{AWSCluster, ControlPlaneEndpoint};
use capa_api::common::IdentityReference;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_api::meta;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::core::Status;
use parking_lot::{Mutex, MutexGuard};

use super::Journal;
use super::source::FakeSource;
use crate::awsmachine::claimed_instances;
use crate::kubernetes_api::{
    ClusterKubernetes, Identity, IdentityKubernetes, Kubernetes, KubernetesError, MachineKubernetes, NetworkKubernetes,
    NetworkReader, ReadPending, SourceObjects, SourceOutcome, SourceRead, SourceRequest,
};
use crate::machine_networks::MachineNetworks;

/// UID of the management cluster.
pub(crate) const MANAGEMENT_CLUSTER: &str = "0f6d2a4b-0000-4000-8000-000000000001";

/// Kubernetes in memory.
pub(crate) struct FakeKubernetes {
    journal: Journal,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Timestamp,
    uptime: Duration,
    versions: u64,
    clusters: BTreeMap<(String, String), Arc<Cluster>>,
    machines: BTreeMap<(String, String), Arc<Machine>>,
    aws_machines: BTreeMap<(String, String), Arc<AWSMachine>>,
    aws_clusters: Vec<Arc<AWSCluster>>,
    identities: BTreeMap<IdentityReference, Identity>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    secrets: BTreeMap<(String, String), Secret>,
    /// Secrets whose reads fail, with code and reason of the answer, if there is one.
    unread_secrets: BTreeMap<(String, String), Option<(u16, &'static str)>>,
    /// Network sources by name.
    sources: BTreeMap<String, FakeSource>,
    /// Network sources whose read does not end.
    being_read: BTreeSet<String>,
    /// Clusters whose infrastructure object publishes a target group, by its ARN.
    target_groups: BTreeMap<String, Vec<Arc<Cluster>>>,
    /// Calls to fail, with the number of successful calls before the failure.
    failing: BTreeMap<&'static str, usize>,
    /// Calls to delay, with the number of calls before the delay and its duration.
    delays: BTreeMap<&'static str, (usize, Duration)>,
}

impl State {
    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.uptime += by;
    }
}

impl FakeKubernetes {
    /// A Kubernetes with only the controller identity, which allows every namespace. The clock starts at the epoch.
    pub(crate) fn new(journal: &Journal) -> Self {
        let kubernetes = Self { journal: journal.clone(), state: Mutex::default() };
        kubernetes.identity_object("AWSClusterControllerIdentity", "default", "allowedNamespaces: {}");
        kubernetes
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.state().advance(by);
    }

    /// Sets the clock that records carry; no time passes.
    pub(crate) fn set_clock(&self, now: Timestamp) {
        self.state().now = now;
    }

    /// Makes one call of this kind fail without effect, after `others` successful calls.
    pub(crate) fn fail_after(&self, others: usize, call: &'static str) {
        self.state().failing.insert(call, others);
    }

    /// Delays one call of this kind, after `others` calls without a delay.
    pub(crate) fn delay_after(&self, others: usize, call: &'static str, by: Duration) {
        self.state().delays.insert(call, (others, by));
    }

    fn called(&self, call: &'static str) -> Result<(), KubernetesError> {
        self.journal.note(call);
        let mut state = self.state();
        match state.delays.remove(call) {
            Some((0, delay)) => state.advance(delay),
            Some((others, delay)) => drop(state.delays.insert(call, (others - 1, delay))),
            None => {}
        }
        match state.failing.remove(call) {
            Some(0) => Err(error(call, "the API server does not answer")),
            Some(others) => {
                state.failing.insert(call, others - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn next_version(&self) -> u64 {
        let mut state = self.state();
        state.versions += 1;
        state.versions
    }

    /// Applies `change` to an AWSMachine. The write is refused if the object has changed since it was read.
    fn change(
        &self,
        machine: &AWSMachine,
        call: &'static str,
        change: impl FnOnce(&mut AWSMachine),
    ) -> Result<AWSMachine, KubernetesError> {
        self.called(call)?;
        let (namespace, name) = key(&machine.metadata);
        let current = self.aws_machine(&namespace, &name);
        let mut current = current.ok_or_else(|| error(call, "the object is gone"))?;
        if current.metadata.resource_version != machine.metadata.resource_version {
            return Err(error(call, "the object has changed"));
        }
        change(&mut current);
        Ok(self.stored(current))
    }

    fn stored(&self, mut machine: AWSMachine) -> AWSMachine {
        machine.metadata.resource_version = Some(self.next_version().to_string());
        let gone = machine.metadata.deletion_timestamp.is_some() && machine.finalizers().is_empty();
        let mut state = self.state();
        if gone {
            state.aws_machines.remove(&key(&machine.metadata));
        } else {
            state.aws_machines.insert(key(&machine.metadata), Arc::new(machine.clone()));
        }
        machine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn error(attempted: &str, source: &str) -> KubernetesError {
    KubernetesError { attempted: attempted.to_owned(), source: source.into() }
}

#[async_trait]
impl Kubernetes for FakeKubernetes {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn uptime(&self) -> Duration {
        self.state().uptime
    }

    fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>> {
        self.state().clusters.get(&(namespace.into(), name.into())).cloned()
    }

    fn identity(&self, reference: &IdentityReference) -> Option<Identity> {
        self.state().identities.get(reference).cloned()
    }

    fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.state().namespaces.get(namespace).cloned()
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, KubernetesError> {
        let key = (namespace.to_owned(), name.to_owned());
        let state = self.state();
        match state.unread_secrets.get(&key) {
            None => Ok(state.secrets.get(&key).cloned()),
            Some(None) => Err(error("read Secret", "connection refused")),
            Some(Some((code, reason))) => {
                let status = Status::failure("User \"the-manager\" cannot", reason).with_code(*code);
                Err(KubernetesError {
                    attempted: "read Secret".to_owned(),
                    source: Box::new(kube::Error::Api(status.boxed())),
                })
            }
        }
    }
}

impl IdentityKubernetes for FakeKubernetes {
    fn clusters_naming(&self, reference: &IdentityReference) -> Vec<Arc<AWSCluster>> {
        let uses = |cluster: &&Arc<AWSCluster>| cluster.spec.effective_identity_ref() == *reference;
        self.state().aws_clusters.iter().filter(uses).cloned().collect()
    }

    fn machines_naming(&self, reference: &IdentityReference) -> Vec<Arc<AWSMachine>> {
        let uses = |machine: &&Arc<AWSMachine>| machine.identity_ref() == Some(reference);
        self.state().aws_machines.values().filter(uses).cloned().collect()
    }
}

#[async_trait]
impl ClusterKubernetes for FakeKubernetes {
    fn machine_networks(&self, namespace: &str, cluster: &str) -> MachineNetworks {
        let machines = MachineKubernetes::machines_of_cluster(self, namespace, cluster);
        MachineNetworks::of(machines.iter().map(|machine| &machine.spec))
    }

    fn held_machines(&self, namespace: &str, cluster: &str) -> BTreeSet<String> {
        let machines = MachineKubernetes::machines_of_cluster(self, namespace, cluster);
        let held = machines.iter().filter(|machine| meta::has_finalizer(&machine.metadata, meta::MACHINE_FINALIZER));
        held.map(|machine| machine.name_any()).collect()
    }

    fn managed_clusters(&self) -> Vec<Arc<AWSCluster>> {
        self.state().aws_clusters.clone()
    }

    async fn write_status(
        &self,
        cluster: &AWSCluster,
        status: &AWSClusterStatus,
    ) -> Result<AWSCluster, KubernetesError> {
        self.called("write_status")?;
        let mut cluster = cluster.clone();
        cluster.status = Some(status.clone());
        cluster.metadata.resource_version = Some(self.next_version().to_string());
        Ok(cluster)
    }

    async fn publish_endpoint(
        &self,
        cluster: &AWSCluster,
        endpoint: &ControlPlaneEndpoint,
    ) -> Result<AWSCluster, KubernetesError> {
        self.called("publish_endpoint")?;
        let mut cluster = cluster.clone();
        cluster.spec.control_plane_endpoint = Some(endpoint.clone());
        Ok(cluster)
    }

    async fn add_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        self.called("add_finalizer")?;
        let mut cluster = cluster.clone();
        cluster.finalizers_mut().push(meta::CLUSTER_FINALIZER.to_owned());
        Ok(cluster)
    }

    async fn remove_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        self.called("remove_finalizer")?;
        let mut cluster = cluster.clone();
        cluster.finalizers_mut().retain(|finalizer| finalizer != meta::CLUSTER_FINALIZER);
        Ok(cluster)
    }
}

#[async_trait]
impl NetworkKubernetes for FakeKubernetes {
    async fn source(&self, _: &NetworkReader, request: &SourceRequest) -> Result<SourceRead, ReadPending> {
        let SourceObjects::Named(name) = &request.objects else {
            panic!("{request} is no request by name");
        };
        let state = self.state();
        if state.being_read.contains(name) {
            return Err(ReadPending);
        }
        let found = state.sources.get(name).cloned();
        let found = found.unwrap_or(FakeSource::Outcome(SourceOutcome::NotFound));
        Ok(found.read(name, request))
    }
}

#[async_trait]
impl MachineKubernetes for FakeKubernetes {
    fn machine(&self, namespace: &str, name: &str) -> Option<Arc<Machine>> {
        self.state().machines.get(&(namespace.into(), name.into())).cloned()
    }

    fn aws_machine(&self, namespace: &str, name: &str) -> Option<Arc<AWSMachine>> {
        self.aws_machine(namespace, name).map(Arc::new)
    }

    fn machines_of_cluster(&self, namespace: &str, cluster: &str) -> Vec<Arc<AWSMachine>> {
        let state = self.state();
        let belongs = |machine: &&Arc<AWSMachine>| {
            machine.metadata.namespace.as_deref() == Some(namespace)
                && meta::cluster_name_label(&machine.metadata) == Some(cluster)
        };
        state.aws_machines.values().filter(belongs).cloned().collect()
    }

    fn machines_with_instance(&self, id: &str) -> Vec<Arc<AWSMachine>> {
        let state = self.state();
        let has_it = |machine: &&Arc<AWSMachine>| claimed_instances(machine).iter().any(|claimed| claimed == id);
        state.aws_machines.values().filter(has_it).cloned().collect()
    }

    fn management_cluster(&self) -> Option<String> {
        Some(MANAGEMENT_CLUSTER.to_owned())
    }

    fn aws_machines(&self) -> Vec<Arc<AWSMachine>> {
        self.state().aws_machines.values().cloned().collect()
    }

    fn clusters_with_target_group(&self, arn: &str) -> Vec<Arc<Cluster>> {
        self.state().target_groups.get(arn).cloned().unwrap_or_default()
    }

    async fn add_finalizer(&self, machine: &AWSMachine) -> Result<AWSMachine, KubernetesError> {
        self.change(machine, "add_finalizer", |machine| {
            machine.finalizers_mut().push(meta::MACHINE_FINALIZER.to_owned());
        })
    }

    async fn remove_finalizer(&self, machine: &AWSMachine) -> Result<(), KubernetesError> {
        let removed = self.change(machine, "remove_finalizer", |machine| {
            machine.finalizers_mut().retain(|finalizer| finalizer != meta::MACHINE_FINALIZER);
        });
        removed.map(drop)
    }

    async fn confirm(&self, machine: &AWSMachine) -> Result<(), KubernetesError> {
        self.called("confirm")?;
        let (namespace, name) = key(&machine.metadata);
        match self.aws_machine(&namespace, &name) {
            Some(current) if current.metadata.resource_version == machine.metadata.resource_version => Ok(()),
            _ => Err(error("confirm", "the object has changed")),
        }
    }

    async fn block_move(&self, machine: &AWSMachine, account_id: &str) -> Result<AWSMachine, KubernetesError> {
        self.change(machine, "block_move", |machine| {
            let annotations = machine.annotations_mut();
            annotations.insert(meta::BLOCK_MOVE_ANNOTATION.to_owned(), account_id.to_owned());
        })
    }

    async fn allow_move(&self, machine: &AWSMachine, instance_id: Option<&str>) -> Result<AWSMachine, KubernetesError> {
        self.change(machine, "allow_move", |machine| {
            let annotations = machine.annotations_mut();
            annotations.remove(meta::BLOCK_MOVE_ANNOTATION);
            if let Some(id) = instance_id {
                annotations.insert(meta::ADOPT_INSTANCE_ANNOTATION.to_owned(), id.to_owned());
            }
        })
    }

    async fn write_status(
        &self,
        machine: &AWSMachine,
        status: &AWSMachineStatus,
    ) -> Result<AWSMachine, KubernetesError> {
        // An equal status is not written.
        if machine.status.as_ref() == Some(status) {
            return Ok(machine.clone());
        }
        // The status as it is stored, with times in whole seconds.
        let stored = serde_json::to_value(status).expect("a status is JSON");
        let stored: AWSMachineStatus = serde_json::from_value(stored).expect("a status is read as it is written");
        self.change(machine, "write_status", |machine| machine.status = Some(stored))
    }

    async fn publish_ids(
        &self,
        machine: &AWSMachine,
        provider_id: &str,
        instance_id: &str,
    ) -> Result<AWSMachine, KubernetesError> {
        self.change(machine, "publish_ids", |machine| {
            machine.annotations_mut().remove(meta::ADOPT_INSTANCE_ANNOTATION);
            machine.spec.provider_id = Some(provider_id.to_owned());
            machine.spec.instance_id = Some(instance_id.to_owned());
        })
    }
}
