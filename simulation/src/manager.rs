//! The dependencies of the reconcilers of one process: lagging caches, instance informers, and calls to the outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::cluster::{AWSCluster, ControlPlaneEndpoint};
use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::contract::{Cluster, Machine};
use capa_api::identity::{AWSClusterControllerIdentity, AWSClusterControllerIdentitySpec, AllowedNamespaces};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_api::meta;
use capa_controllers::awsmachine::claimed_instances;
use capa_controllers::kubernetes_api::{
    ClusterKubernetes, Identity, Kubernetes, KubernetesError, MachineKubernetes, NetworkKubernetes, NetworkReader,
    ReadPending, SourceObjects, SourceOutcome, SourceRead, SourceRequest,
};
use capa_controllers::machine_networks::MachineNetworks;
use capa_fake_aws::machines::Sessions;
use capa_network::Description;
use capa_runtime::kinds::ObjectName;
use capa_runtime::reconcile::WriteConflict;
use capa_runtime::status::StatusError;
use capa_runtime::writes::WriteTracker;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use parking_lot::{Mutex, MutexGuard};

use crate::calls::{Action, Failure, Mailbox};
use crate::management_cluster::ManagementCluster;
use crate::outside::Outside;
use crate::server::{Refusal, Stored, Watched, cluster_status_as_stored, machine_status_as_stored};
use crate::time::{START, since_start};

/// The state that the reconcilers of one process share. A clone is another handle to it.
#[derive(Clone)]
pub(crate) struct Manager {
    state: Arc<Mutex<State>>,
    pub(crate) mailbox: Mailbox,
    /// The management cluster that it is a manager of.
    of: ManagementCluster,
    /// The last writes of this process, so that no pass runs on an older object.
    pub(crate) writes: WriteTracker,
    controller_identity: Arc<AWSClusterControllerIdentity>,
}

/// The state that is read without a call.
pub(crate) struct State {
    /// The process's clock.
    pub(crate) now: Timestamp,
    /// Objects as far as the watches have told.
    pub(crate) cache: Stored,
    /// One an identity and region.
    pub(crate) sessions: Sessions,
    /// The key that AWS is called with.
    pub(crate) access_key: &'static str,
    /// How often it was another one than before.
    pub(crate) replacements: u64,
    /// Another process has taken the lease, and this one has yet to end.
    pub(crate) overtaken: bool,
}

impl Manager {
    pub(crate) fn new(of: ManagementCluster, cache: Stored, access_key: &'static str) -> Self {
        let mut identity = AWSClusterControllerIdentity::new(
            IdentityReference::CONTROLLER_IDENTITY_NAME,
            AWSClusterControllerIdentitySpec { allowed_namespaces: Some(AllowedNamespaces::default()) },
        );
        identity.metadata.uid = Some("identity".into());
        identity.metadata.resource_version = Some("1".into());
        let state =
            State { now: START, cache, sessions: Sessions::default(), access_key, replacements: 0, overtaken: false };
        Self {
            state: Arc::new(Mutex::new(state)),
            mailbox: Mailbox::default(),
            of,
            writes: WriteTracker::default(),
            controller_identity: Arc::new(identity),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// From now on AWS is called with this key.
    pub(crate) fn replace_key(&self, access_key: &'static str) {
        let mut state = self.state();
        state.replacements += u64::from(state.access_key != access_key);
        state.access_key = access_key;
    }

    /// Writes a cluster's status as the runtime does after a pass: only if it differs.
    pub(crate) async fn write_cluster_status(
        &self,
        cluster: &AWSCluster,
        status: &AWSClusterStatus,
    ) -> Result<(), KubernetesError> {
        let wanted = cluster_status_as_stored(status.clone());
        if is_stored(cluster.status.as_ref(), &wanted) {
            return Ok(());
        }
        let written = self.write("PUT AWSCluster/status", cluster, |cluster| {
            cluster.status = Some(wanted);
        });
        written.await.map(drop)
    }

    /// Reads an AWSMachine from the server, which the runtime does when its cache owes a write for too long.
    pub(crate) async fn read_machine(&self, name: &str) -> Result<Option<AWSMachine>, KubernetesError> {
        let (of, asked) = (self.of, name.to_owned());
        let read = self.mailbox.ask(
            Action::kubernetes("GET AWSMachine", false),
            asked.clone(),
            move |outside: &mut Outside, _| outside.server(of).get::<AWSMachine>(&asked),
        );
        let object = read.await.map_err(|failure| failed("read AWSMachine", failure))?;
        if let Some(object) = &object {
            self.writes.written(object.as_ref());
        }
        Ok(object.map(|object| AWSMachine::clone(&object)))
    }

    /// A write under the resource version that `object` was read with.
    async fn write<K: Watched>(
        &self,
        name: &'static str,
        object: &K,
        change: impl FnOnce(&mut K) + Send + 'static,
    ) -> Result<K, KubernetesError> {
        let (of, object_name, version) = (self.of, object.name_any(), object.resource_version());
        let about = format!("{object_name}@{}", version.as_deref().unwrap_or_default());
        let call = self.mailbox.ask(Action::kubernetes(name, true), about, move |outside: &mut Outside, _| {
            outside.server_mut(of).update(&object_name, version.as_deref(), change)
        });
        match call.await {
            Err(failure) => Err(failed(name, failure)),
            Ok(Ok(written)) => {
                self.writes.written(written.as_ref());
                Ok(K::clone(&written))
            }
            Ok(Err(Refusal::Gone)) => Err(gone(object, name)),
            Ok(Err(Refusal::Conflict)) => Err(self.overtaken(object, name)),
        }
    }

    fn overtaken<K: Watched>(&self, object: &K, attempted: &str) -> KubernetesError {
        self.writes.conflicted(object);
        let source = WriteConflict(ObjectName::of(object));
        KubernetesError { attempted: attempted.to_owned(), source: source.into() }
    }
}

/// Whether a status is stored as it is wanted; an absent one is the default.
fn is_stored<S: Default + PartialEq>(stored: Option<&S>, wanted: &S) -> bool {
    stored.map_or_else(|| *wanted == S::default(), |stored| stored == wanted)
}

fn failed(attempted: &str, failure: Failure) -> KubernetesError {
    KubernetesError {
        attempted: attempted.to_owned(),
        source: match failure {
            Failure::NoAnswer => "the API server did not answer in time".into(),
            Failure::Throttled => "429: too many requests".into(),
            Failure::Refused(code) => code.into(),
        },
    }
}

fn gone<K: Watched>(object: &K, attempted: &str) -> KubernetesError {
    let source = StatusError::Gone { object: ObjectName::of(object) };
    KubernetesError { attempted: attempted.to_owned(), source: source.into() }
}

fn without(finalizers: &mut Vec<String>, finalizer: &str) {
    finalizers.retain(|present| present != finalizer);
}

#[async_trait]
impl Kubernetes for Manager {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn uptime(&self) -> Duration {
        since_start(self.state().now)
    }

    fn cluster(&self, _: &str, name: &str) -> Option<Arc<Cluster>> {
        self.state().cache.clusters.get(name).cloned()
    }

    fn identity(&self, reference: &IdentityReference) -> Option<Identity> {
        let ours = reference.kind == IdentityKind::AWSClusterControllerIdentity
            && reference.name == IdentityReference::CONTROLLER_IDENTITY_NAME;
        ours.then(|| Identity::Controller(self.controller_identity.clone()))
    }

    fn namespace_labels(&self, _: &str) -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::new())
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Option<Secret>, KubernetesError> {
        let (of, asked) = (self.of, name.to_owned());
        let read = self.mailbox.ask(
            Action::kubernetes("GET Secret", false),
            asked.clone(),
            move |outside: &mut Outside, _| outside.server(of).stored.secrets.get(&asked).cloned(),
        );
        let secret = read.await.map_err(|failure| failed("read Secret", failure))?;
        Ok(secret.map(|secret| Secret::clone(&secret)))
    }
}

#[async_trait]
impl NetworkKubernetes for Manager {
    async fn source(&self, _: &NetworkReader, request: &SourceRequest) -> Result<SourceRead, ReadPending> {
        // The machines of the histories have no other sources than the AWSCluster.
        let outcome = match &request.objects {
            SourceObjects::Named(name) => self.aws_cluster(name, request).await,
            SourceObjects::Selected(_) => SourceOutcome::NotFound,
        };
        Ok(SourceRead::described_by(&Description::Status, request, outcome))
    }
}

impl Manager {
    async fn aws_cluster(&self, name: &str, request: &SourceRequest) -> SourceOutcome {
        let (of, name) = (self.of, name.to_owned());
        let read = self.mailbox.ask(
            Action::kubernetes("GET AWSCluster", false),
            name.clone(),
            move |outside: &mut Outside, _| outside.server(of).get::<AWSCluster>(&name),
        );
        let unreadable =
            |why: String| SourceOutcome::Unreadable { code: None, text: format!("failed to read AWSCluster: {why}") };
        let cluster = match read.await {
            Ok(Some(cluster)) => serde_json::to_value(cluster.as_ref()),
            Ok(None) => return SourceOutcome::NotFound,
            Err(failure) => return unreadable(failed("read AWSCluster", failure).source.to_string()),
        };
        match cluster {
            Ok(cluster) => {
                let (name, network) = Description::Status.network(&request.kind, &[cluster], request.role);
                let network = network.map(|network| network.map(Box::new));
                SourceOutcome::Described { name, network }
            }
            Err(error) => unreadable(error.to_string()),
        }
    }
}

#[async_trait]
impl MachineKubernetes for Manager {
    fn machine(&self, _: &str, name: &str) -> Option<Arc<Machine>> {
        self.state().cache.machines.get(name).cloned()
    }

    fn aws_machine(&self, _: &str, name: &str) -> Option<Arc<AWSMachine>> {
        self.state().cache.aws_machines.get(name).cloned()
    }

    fn machines_of_cluster(&self, _: &str, cluster: &str) -> Vec<Arc<AWSMachine>> {
        let state = self.state();
        let belongs = |machine: &&Arc<AWSMachine>| meta::cluster_name_label(&machine.metadata) == Some(cluster);
        state.cache.aws_machines.values().filter(belongs).cloned().collect()
    }

    fn machines_with_instance(&self, id: &str) -> Vec<Arc<AWSMachine>> {
        let state = self.state();
        let has_it = |machine: &&Arc<AWSMachine>| claimed_instances(machine).iter().any(|claimed| claimed == id);
        state.cache.aws_machines.values().filter(has_it).cloned().collect()
    }

    fn management_cluster(&self) -> Option<String> {
        Some(format!("{:?}", self.of))
    }

    fn aws_machines(&self) -> Vec<Arc<AWSMachine>> {
        self.state().cache.aws_machines.values().cloned().collect()
    }

    fn clusters_with_target_group(&self, arn: &str) -> Vec<Arc<Cluster>> {
        let state = self.state();
        let publishes = |cluster: &&Arc<AWSCluster>| {
            let network = cluster.status.as_ref().and_then(|status| status.network.as_ref());
            let mut targets = network.into_iter().flat_map(|network| &network.control_plane_targets);
            targets.any(|target| target.target_group_arn.as_deref() == Some(arn))
        };
        let publishing = state.cache.aws_clusters.values().filter(publishes);
        let owners = publishing.filter_map(|cluster| meta::owner_cluster_name(&cluster.metadata));
        owners.filter_map(|name| state.cache.clusters.get(name).cloned()).collect()
    }

    async fn add_finalizer(&self, machine: &AWSMachine) -> Result<AWSMachine, KubernetesError> {
        let add = |machine: &mut AWSMachine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.to_owned());
        self.write("PATCH finalizers (add)", machine, add).await
    }

    async fn remove_finalizer(&self, machine: &AWSMachine) -> Result<(), KubernetesError> {
        let remove = |machine: &mut AWSMachine| without(machine.finalizers_mut(), meta::MACHINE_FINALIZER);
        match self.write("PATCH finalizers (remove)", machine, remove).await {
            Err(error) if is_gone(&error) => Ok(()),
            result => result.map(drop),
        }
    }

    async fn write_status(
        &self,
        machine: &AWSMachine,
        status: &AWSMachineStatus,
    ) -> Result<AWSMachine, KubernetesError> {
        let wanted = machine_status_as_stored(status.clone());
        if is_stored(machine.status.as_ref(), &wanted) {
            return Ok(machine.clone());
        }
        self.write("PUT AWSMachine/status", machine, |machine: &mut AWSMachine| {
            machine.status = Some(wanted);
        })
        .await
    }

    async fn confirm(&self, machine: &AWSMachine) -> Result<(), KubernetesError> {
        let attempted = "GET AWSMachine (confirm)";
        let (of, name) = (self.of, machine.name_any());
        let read =
            self.mailbox.ask(Action::kubernetes(attempted, false), name.clone(), move |outside: &mut Outside, _| {
                outside.server(of).get::<AWSMachine>(&name)
            });
        let current = read.await.map_err(|failure| failed(attempted, failure))?;
        match current {
            Some(current) if current.resource_version() == machine.resource_version() => Ok(()),
            Some(_) => Err(self.overtaken(machine, attempted)),
            None => Err(failed(attempted, Failure::Refused("404: not found"))),
        }
    }

    async fn block_move(&self, machine: &AWSMachine, account_id: &str) -> Result<AWSMachine, KubernetesError> {
        let account_id = account_id.to_owned();
        self.write("PATCH block-move", machine, move |machine: &mut AWSMachine| {
            let annotations = machine.annotations_mut();
            annotations.insert(meta::BLOCK_MOVE_ANNOTATION.to_owned(), account_id);
        })
        .await
    }

    async fn allow_move(&self, machine: &AWSMachine, instance_id: Option<&str>) -> Result<AWSMachine, KubernetesError> {
        let adopted = instance_id.map(str::to_owned);
        self.write("PATCH block-move", machine, move |machine: &mut AWSMachine| {
            let annotations = machine.annotations_mut();
            annotations.remove(meta::BLOCK_MOVE_ANNOTATION);
            if let Some(id) = adopted {
                annotations.insert(meta::ADOPT_INSTANCE_ANNOTATION.to_owned(), id);
            }
        })
        .await
    }

    async fn publish_ids(
        &self,
        machine: &AWSMachine,
        provider_id: &str,
        instance_id: &str,
    ) -> Result<AWSMachine, KubernetesError> {
        let ids = (provider_id.to_owned(), instance_id.to_owned());
        self.write("PATCH ids", machine, move |machine: &mut AWSMachine| {
            machine.annotations_mut().remove(meta::ADOPT_INSTANCE_ANNOTATION);
            machine.spec.provider_id = Some(ids.0);
            machine.spec.instance_id = Some(ids.1);
            machine.metadata.generation = machine.metadata.generation.map(|generation| generation + 1);
        })
        .await
    }
}

fn is_gone(error: &KubernetesError) -> bool {
    matches!(error.source.downcast_ref::<StatusError>(), Some(StatusError::Gone { .. }))
}

#[async_trait]
impl ClusterKubernetes for Manager {
    fn machine_networks(&self, _: &str, cluster: &str) -> MachineNetworks {
        let state = self.state();
        let belongs = |machine: &&Arc<AWSMachine>| meta::cluster_name_label(&machine.metadata) == Some(cluster);
        let machines = state.cache.aws_machines.values().filter(belongs);
        MachineNetworks::of(machines.map(|machine| &machine.spec))
    }

    fn held_machines(&self, _: &str, cluster: &str) -> BTreeSet<String> {
        let state = self.state();
        let belongs = |machine: &&Arc<AWSMachine>| {
            let metadata = &machine.metadata;
            meta::has_finalizer(metadata, meta::MACHINE_FINALIZER)
                && meta::cluster_name_label(metadata) == Some(cluster)
        };
        let machines = state.cache.aws_machines.values().filter(belongs);
        machines.map(|machine| machine.name_any()).collect()
    }

    /// The clusters of the simulation are unmanaged.
    fn managed_clusters(&self) -> Vec<Arc<AWSCluster>> {
        vec![]
    }

    async fn write_status(
        &self,
        cluster: &AWSCluster,
        status: &AWSClusterStatus,
    ) -> Result<AWSCluster, KubernetesError> {
        let status = status.clone();
        let write = |cluster: &mut AWSCluster| cluster.status = Some(status);
        self.write("PUT AWSCluster/status", cluster, write).await
    }

    async fn publish_endpoint(
        &self,
        cluster: &AWSCluster,
        endpoint: &ControlPlaneEndpoint,
    ) -> Result<AWSCluster, KubernetesError> {
        let endpoint = endpoint.clone();
        let write = |cluster: &mut AWSCluster| cluster.spec.control_plane_endpoint = Some(endpoint);
        self.write("PATCH AWSCluster/endpoint", cluster, write).await
    }

    async fn add_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        let add = |cluster: &mut AWSCluster| cluster.finalizers_mut().push(meta::CLUSTER_FINALIZER.to_owned());
        self.write("PATCH finalizers (add)", cluster, add).await
    }

    async fn remove_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        let remove = |cluster: &mut AWSCluster| without(cluster.finalizers_mut(), meta::CLUSTER_FINALIZER);
        match self.write("PATCH finalizers (remove)", cluster, remove).await {
            Err(error) if is_gone(&error) => Ok(cluster.clone()),
            result => result,
        }
    }
}
