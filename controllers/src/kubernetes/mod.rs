//! The reconcilers' requests to a real API server: caches for watched kinds, direct requests for other kinds.

mod discovery;
mod identity_users;
mod kinds;
mod mappings;
mod shared_reads;
mod source_checks;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::cluster::{AWSCluster, ControlPlaneEndpoint};
use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::forms::is_dns_subdomain;
use capa_api::identity::{AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity};
use capa_api::machine::template::AWSMachineTemplate;
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_api::meta;
use capa_api::network_mapping::AWSNetworkMapping;
use capa_cloud::Timing;
use capa_runtime::Runtime;
use capa_runtime::cache::ObjectCache;
use capa_runtime::guarded::Guarded;
use capa_runtime::index::CacheIndex;
use capa_runtime::kinds::{CachedKind, ObjectName};
use capa_runtime::reconcile::WriteConflict;
use capa_runtime::status::StatusWriter;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::kubernetes_api::{
    ClusterKubernetes, Identity, IdentityKubernetes, Kubernetes, KubernetesError, MachineKubernetes, NetworkKubernetes,
    NetworkReader, ReadPending, SourceRead, SourceRequest,
};
use crate::machine_networks::MachineNetworks;
pub use source_checks::{DescribedNetwork, SourceChecks};
pub use sources::SourceReader;

/// The field manager of writes.
const FIELD_MANAGER: &str = "capa-rs";

/// The namespace whose UID identifies a management cluster. Every cluster has this namespace.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Caches of all watched kinds.
#[derive(Clone)]
pub struct Caches {
    /// Clusters.
    pub clusters: ObjectCache<Cluster>,
    /// Machines.
    pub machines: ObjectCache<Machine>,
    /// AWSClusters.
    pub aws_clusters: ObjectCache<AWSCluster>,
    /// AWSMachines.
    pub aws_machines: ObjectCache<AWSMachine>,
    /// AWSMachines by the instances that they name or record.
    pub machines_by_instance: CacheIndex<AWSMachine>,
    /// AWSMachineTemplates.
    pub aws_machine_templates: ObjectCache<AWSMachineTemplate>,
    /// Controller identities.
    pub controller_identities: ObjectCache<AWSClusterControllerIdentity>,
    /// Role identities.
    pub role_identities: ObjectCache<AWSClusterRoleIdentity>,
    /// Static identities.
    pub static_identities: ObjectCache<AWSClusterStaticIdentity>,
    /// AWSNetworkMappings.
    pub network_mappings: ObjectCache<AWSNetworkMapping>,
    /// Namespaces, for the selectors of `allowedNamespaces`.
    pub namespaces: ObjectCache<Namespace>,
}

/// The implementation of the reconcilers' requests to Kubernetes.
#[derive(Clone)]
pub struct KubernetesClient {
    client: Client,
    caches: Caches,
    statuses: StatusWriter,
    runtime: Runtime,
    sources: Arc<SourceReader>,
    started: Instant,
}

impl KubernetesClient {
    /// A client that reads from these caches.
    pub fn new(runtime: &Runtime, caches: &Caches, timing: Timing) -> Self {
        Self {
            client: runtime.client.clone(),
            caches: caches.clone(),
            statuses: StatusWriter::new(runtime.client.clone(), runtime.writes.clone()),
            runtime: runtime.clone(),
            sources: Arc::new(SourceReader::new(
                runtime.client.clone(),
                caches.network_mappings.store().clone(),
                timing,
            )),
            started: Instant::now(),
        }
    }

    /// The reader of network sources. Watches report changed objects to the reader.
    pub fn source_reader(&self) -> Arc<SourceReader> {
        Arc::clone(&self.sources)
    }

    async fn patch<K>(&self, object: &K, patch: Value, attempted: &str) -> Result<Option<K>, KubernetesError>
    where
        K: CachedKind<Scope = NamespaceResourceScope>,
    {
        let name = object.name_any();
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &namespace);
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch(&name, &parameters, &Patch::Merge(patch)).await {
            Ok(patched) => {
                self.runtime.writes.written(&patched);
                let unreadable = |malformed| failed(format!("{attempted} {}", ObjectName::of(object)), malformed);
                patched.object().map(Some).map_err(unreadable)
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                self.runtime.writes.conflicted(object);
                let object = ObjectName::of(object);
                Err(failed(format!("{attempted} {object}"), WriteConflict(object)))
            }
            Err(error) => Err(failed(format!("{attempted} {}", ObjectName::of(object)), error)),
        }
    }

    /// Merges annotations of an AWSMachine. The write is refused if the object has changed since it was read.
    async fn annotate(&self, machine: &AWSMachine, annotations: Value) -> Result<AWSMachine, KubernetesError> {
        let patch = json!({"metadata": {
            "resourceVersion": machine.resource_version(),
            "annotations": annotations,
        }});
        let attempted = "mark whether clusterctl may move";
        let patched = self.patch(machine, patch, attempted).await?;
        patched.ok_or_else(|| failed(format!("{attempted} {}", machine.name_any()), "the object is gone"))
    }

    /// Replaces the finalizers. The write is refused if the object has changed since it was read.
    async fn put_finalizers<K>(
        &self,
        object: &K,
        finalizers: Vec<String>,
        attempted: &str,
    ) -> Result<Option<K>, KubernetesError>
    where
        K: CachedKind<Scope = NamespaceResourceScope>,
    {
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
        self.patch(object, patch, attempted).await
    }
}

async fn secret(client: &Client, namespace: &str, name: &str) -> Result<Option<Secret>, KubernetesError> {
    // No Secret has such a name, and the path of a request with it could lead to another object.
    if !is_dns_subdomain(name) {
        return Ok(None);
    }
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(|error| failed(format!("read Secret {namespace}/{name}"), error))
}

fn failed(attempted: String, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> KubernetesError {
    KubernetesError { attempted, source: source.into() }
}

fn without(object: &impl Resource, finalizer: &str) -> Vec<String> {
    object.finalizers().iter().filter(|present| *present != finalizer).cloned().collect()
}

fn named<K>(store: &Store<K>, name: &str) -> Option<Arc<K>>
where
    K: CachedKind,
{
    store.get(&ObjectRef::new(name))
}

#[async_trait]
impl Kubernetes for KubernetesClient {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>> {
        self.caches.clusters.store().get(&ObjectRef::new(name).within(namespace))
    }

    fn identity(&self, reference: &IdentityReference) -> Option<Identity> {
        let name = reference.name.as_str();
        match reference.kind {
            IdentityKind::AWSClusterControllerIdentity => {
                named(self.caches.controller_identities.store(), name).map(Identity::Controller)
            }
            IdentityKind::AWSClusterRoleIdentity => {
                named(self.caches.role_identities.store(), name).map(Identity::Role)
            }
            IdentityKind::AWSClusterStaticIdentity => {
                named(self.caches.static_identities.store(), name).map(Identity::Static)
            }
        }
    }

    fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        let namespace = named(self.caches.namespaces.store(), namespace)?;
        Some(namespace.metadata.labels.clone().unwrap_or_default())
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, KubernetesError> {
        secret(&self.client, namespace, name).await
    }
}

#[async_trait]
impl NetworkKubernetes for KubernetesClient {
    async fn source(&self, reader: &NetworkReader, request: &SourceRequest) -> Result<SourceRead, ReadPending> {
        self.sources.read(reader, request).await
    }
}

#[async_trait]
impl MachineKubernetes for KubernetesClient {
    fn machine(&self, namespace: &str, name: &str) -> Option<Arc<Machine>> {
        self.caches.machines.store().get(&ObjectRef::new(name).within(namespace))
    }

    fn aws_machine(&self, namespace: &str, name: &str) -> Option<Arc<AWSMachine>> {
        self.caches.aws_machines.store().get(&ObjectRef::new(name).within(namespace))
    }

    fn machines_of_cluster(&self, namespace: &str, cluster: &str) -> Vec<Arc<AWSMachine>> {
        machines_of_cluster(self.caches.aws_machines.store(), namespace, cluster)
    }

    fn machines_with_instance(&self, id: &str) -> Vec<Arc<AWSMachine>> {
        self.caches.machines_by_instance.get(id)
    }

    fn management_cluster(&self) -> Option<String> {
        let namespace = named(self.caches.namespaces.store(), SYSTEM_NAMESPACE)?;
        namespace.metadata.uid.clone()
    }

    fn aws_machines(&self) -> Vec<Arc<AWSMachine>> {
        self.caches.aws_machines.store().state()
    }

    fn clusters_with_target_group(&self, arn: &str) -> Vec<Arc<Cluster>> {
        let publishes = |cluster: &AWSCluster| publishes_target_group(cluster, arn);
        let publishing = self.caches.aws_clusters.store().state_filter(publishes);
        let clusters = self.caches.clusters.store();
        let owners = publishing.iter().filter_map(|cluster| owner_that_names(cluster, clusters));
        owners.collect()
    }

    async fn add_finalizer(&self, machine: &AWSMachine) -> Result<AWSMachine, KubernetesError> {
        let mut finalizers = machine.finalizers().to_vec();
        finalizers.push(meta::MACHINE_FINALIZER.to_owned());
        let patched = self.put_finalizers(machine, finalizers, "add the finalizer of").await?;
        patched.ok_or_else(|| failed(format!("add the finalizer of {}", machine.name_any()), "the object is gone"))
    }

    async fn remove_finalizer(&self, machine: &AWSMachine) -> Result<(), KubernetesError> {
        let finalizers = without(machine, meta::MACHINE_FINALIZER);
        self.put_finalizers(machine, finalizers, "remove the finalizer of").await.map(drop)
    }

    async fn confirm(&self, machine: &AWSMachine) -> Result<(), KubernetesError> {
        let name = ObjectName::of(machine);
        let namespace = machine.namespace().unwrap_or_default();
        let api: Api<AWSMachine> = Api::namespaced(self.client.clone(), &namespace);
        let attempted = || format!("confirm that {name} is as it was read");
        match api.get_metadata(&machine.name_any()).await {
            Ok(current) if current.resource_version() == machine.resource_version() => Ok(()),
            Ok(_) => {
                self.runtime.writes.conflicted(machine);
                Err(failed(attempted(), WriteConflict(ObjectName::of(machine))))
            }
            Err(error) => Err(failed(attempted(), error)),
        }
    }

    async fn block_move(&self, machine: &AWSMachine, account_id: &str) -> Result<AWSMachine, KubernetesError> {
        self.annotate(machine, json!({meta::BLOCK_MOVE_ANNOTATION: account_id})).await
    }

    async fn allow_move(&self, machine: &AWSMachine, instance_id: Option<&str>) -> Result<AWSMachine, KubernetesError> {
        let mut annotations = json!({meta::BLOCK_MOVE_ANNOTATION: null});
        if let (Some(id), Some(annotations)) = (instance_id, annotations.as_object_mut()) {
            annotations.insert(meta::ADOPT_INSTANCE_ANNOTATION.to_owned(), json!(id));
        }
        self.annotate(machine, annotations).await
    }

    async fn write_status(
        &self,
        machine: &AWSMachine,
        status: &AWSMachineStatus,
    ) -> Result<AWSMachine, KubernetesError> {
        let written = self.statuses.write(machine, status).await;
        written.map_err(|error| failed(format!("record the status of AWSMachine {}", machine.name_any()), error))
    }

    async fn publish_ids(
        &self,
        machine: &AWSMachine,
        provider_id: &str,
        instance_id: &str,
    ) -> Result<AWSMachine, KubernetesError> {
        let mut metadata = json!({"resourceVersion": machine.resource_version()});
        if meta::has_annotation(&machine.metadata, meta::ADOPT_INSTANCE_ANNOTATION)
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.insert("annotations".to_owned(), json!({meta::ADOPT_INSTANCE_ANNOTATION: null}));
        }
        let patch = json!({
            "metadata": metadata,
            "spec": {"providerID": provider_id, "instanceID": instance_id},
        });
        let patched = self.patch(machine, patch, "publish the ids of").await?;
        patched.ok_or_else(|| failed(format!("publish the ids of {}", machine.name_any()), "the object is gone"))
    }
}

impl IdentityKubernetes for KubernetesClient {
    fn clusters_naming(&self, reference: &IdentityReference) -> Vec<Arc<AWSCluster>> {
        let uses = |cluster: &AWSCluster| cluster.spec.effective_identity_ref() == *reference;
        self.caches.aws_clusters.store().state_filter(uses)
    }

    fn machines_naming(&self, reference: &IdentityReference) -> Vec<Arc<AWSMachine>> {
        let uses = |machine: &AWSMachine| machine.identity_ref() == Some(reference);
        self.caches.aws_machines.store().state_filter(uses)
    }
}

#[async_trait]
impl ClusterKubernetes for KubernetesClient {
    fn machine_networks(&self, namespace: &str, cluster: &str) -> MachineNetworks {
        let machines = machines_of_cluster(self.caches.aws_machines.store(), namespace, cluster);
        let templates = templates_of_cluster(self.caches.aws_machine_templates.store(), namespace, cluster);
        let machines = machines.iter().map(|machine| &machine.spec);
        let templates = templates.iter().map(|template| &template.spec.template.spec);
        MachineNetworks::of(machines.chain(templates))
    }

    fn held_machines(&self, namespace: &str, cluster: &str) -> BTreeSet<String> {
        let machines = machines_of_cluster(self.caches.aws_machines.store(), namespace, cluster);
        let held = machines.iter().filter(|machine| meta::has_finalizer(&machine.metadata, meta::MACHINE_FINALIZER));
        held.map(|machine| machine.name_any()).collect()
    }

    fn managed_clusters(&self) -> Vec<Arc<AWSCluster>> {
        let is_managed =
            |cluster: &AWSCluster| !cluster.spec.unmanaged && !meta::is_externally_managed(&cluster.metadata);
        self.caches.aws_clusters.store().state_filter(is_managed)
    }

    async fn write_status(
        &self,
        cluster: &AWSCluster,
        status: &AWSClusterStatus,
    ) -> Result<AWSCluster, KubernetesError> {
        let written = self.statuses.write(cluster, status).await;
        written.map_err(|error| failed(format!("record the status of AWSCluster {}", cluster.name_any()), error))
    }

    async fn publish_endpoint(
        &self,
        cluster: &AWSCluster,
        endpoint: &ControlPlaneEndpoint,
    ) -> Result<AWSCluster, KubernetesError> {
        let patch = json!({
            "metadata": {"resourceVersion": cluster.resource_version()},
            "spec": {"controlPlaneEndpoint": endpoint},
        });
        let patched = self.patch(cluster, patch, "set the endpoint of").await?;
        Ok(patched.unwrap_or_else(|| cluster.clone()))
    }

    async fn add_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        let mut finalizers = cluster.finalizers().to_vec();
        finalizers.push(meta::CLUSTER_FINALIZER.to_owned());
        let patched = self.put_finalizers(cluster, finalizers, "add the finalizer of").await?;
        Ok(patched.unwrap_or_else(|| cluster.clone()))
    }

    async fn remove_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError> {
        let finalizers = without(cluster, meta::CLUSTER_FINALIZER);
        let patched = self.put_finalizers(cluster, finalizers, "remove the finalizer of").await?;
        Ok(patched.unwrap_or_else(|| cluster.clone()))
    }
}

/// Whether an AWSCluster publishes the target group as a target of the control plane.
fn publishes_target_group(cluster: &AWSCluster, arn: &str) -> bool {
    let network = cluster.status.as_ref().and_then(|status| status.network.as_ref());
    let mut targets = network.into_iter().flat_map(|network| &network.control_plane_targets);
    targets.any(|target| target.target_group_arn.as_deref() == Some(arn))
}

/// The Cluster that owns an AWSCluster and names it. Users can write owner references, so a reference alone does not
/// count.
pub fn owner_that_names(cluster: &AWSCluster, clusters: &Store<Cluster>) -> Option<Arc<Cluster>> {
    let owner = meta::owner_cluster_name(&cluster.metadata)?;
    let named_by = clusters.get(&ObjectRef::new(owner).within(&cluster.namespace().unwrap_or_default()))?;
    (named_by.spec.infrastructure_ref.as_ref() == Some(&ContractReference::to(cluster))).then_some(named_by)
}

/// The AWSMachines of a cluster by label.
pub fn machines_of_cluster(store: &Store<AWSMachine>, namespace: &str, cluster: &str) -> Vec<Arc<AWSMachine>> {
    store.state_filter(|machine| {
        machine.metadata.namespace.as_deref() == Some(namespace)
            && meta::cluster_name_label(&machine.metadata) == Some(cluster)
    })
}

/// The AWSMachineTemplates that a cluster owns.
pub fn templates_of_cluster(
    store: &Store<AWSMachineTemplate>,
    namespace: &str,
    cluster: &str,
) -> Vec<Arc<AWSMachineTemplate>> {
    store.state_filter(|template| {
        template.metadata.namespace.as_deref() == Some(namespace)
            && meta::owner_cluster_name(&template.metadata) == Some(cluster)
    })
}
