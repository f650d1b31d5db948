//! The requests to Kubernetes that a reconciler may make, as narrow traits, so that tests can replace the API
//! server. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::cluster::{AWSCluster, ControlPlaneEndpoint};
use capa_api::common::{IdentityReference, MachineRole};
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::identity::{
    AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity, AllowedNamespaces,
};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_api::network::MachineNetwork;
use capa_api::network_mapping::AWSNetworkMapping;
use capa_network::{Description, Field, Problem, SourceKind, Trust, trust_of};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use thiserror::Error;

use crate::machine_networks::MachineNetworks;

/// A request to the API server failed without an answer about the object.
#[derive(Debug, Error)]
#[error("failed to {attempted}")]
pub struct KubernetesError {
    /// The attempted request and its object: `read Secret team-a/bootstrap`.
    pub attempted: String,
    /// The error of the client.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl KubernetesError {
    /// Status code and reason of the API server's answer, for conditions. The message of the answer is left out,
    /// because it names the user of the manager.
    pub fn answer(&self) -> String {
        match self.source.downcast_ref() {
            Some(kube::Error::Api(status)) => format!("{} {}", status.code, status.reason),
            _ => "the API server gave no usable answer".to_owned(),
        }
    }
}

/// The objects of a request for a network source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceObjects {
    /// One object by its name.
    Named(String),
    /// All objects that match a label selector, in the API server's text form.
    Selected(String),
}

/// A request for objects of one kind, in the namespace of the reader, that describe a network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceRequest {
    /// The kind of the objects.
    pub kind: SourceKind,
    /// The objects.
    pub objects: SourceObjects,
    /// Name of the AWSNetworkMapping that reads the objects. `None`: the description of the kind.
    pub mapping: Option<String>,
    /// The role of the machines that use the source; `None` for both roles.
    pub role: Option<MachineRole>,
}

impl SourceRequest {
    /// The request for the infrastructure object of a Cluster.
    pub fn infrastructure(reference: &ContractReference) -> Self {
        Self {
            kind: SourceKind { group: reference.api_group.clone(), kind: reference.kind.clone() },
            objects: SourceObjects::Named(reference.name.clone()),
            mapping: None,
            role: None,
        }
    }
}

impl Display for SourceRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.kind.kind;
        match &self.objects {
            SourceObjects::Named(name) => write!(formatter, "{kind}/{name}"),
            SourceObjects::Selected(selector) => write!(formatter, "{kind} with {selector}"),
        }
    }
}

/// The result of reading a network source.
#[derive(Clone, Debug)]
pub struct SourceRead {
    /// The trust in the source.
    pub trust: Trust,
    /// The fields that the source can supply.
    pub fields: Vec<Field>,
    /// The outcome of the read.
    pub outcome: SourceOutcome,
}

impl SourceRead {
    /// A read of a kind that has this description.
    pub fn described_by(description: &Description, request: &SourceRequest, outcome: SourceOutcome) -> Self {
        Self {
            trust: description.trust(&request.kind),
            fields: description.fields(&request.kind, request.role),
            outcome,
        }
    }

    /// A read of a kind without a known description and without a mapping: the source could supply all fields that
    /// objects of the kind may supply.
    pub(crate) fn of_unknown_shape(request: &SourceRequest, outcome: SourceOutcome) -> Self {
        let trust = trust_of(&request.kind.group, &request.kind.kind);
        Self { trust, fields: Field::allowed(trust), outcome }
    }

    /// A read with a mapping that is not known, and might allow authority: the source could supply all fields.
    pub(crate) fn of_unknown_mapping(outcome: SourceOutcome) -> Self {
        Self { trust: Trust::Placement, fields: Field::allowed(Trust::Authority), outcome }
    }
}

/// Whether the mapping reads the kind of the request.
pub(crate) fn check_kind(mapping: &AWSNetworkMapping, request: &SourceRequest) -> Result<(), SourceOutcome> {
    let source = &mapping.spec.source;
    let reads = SourceKind { group: source.api_group.clone(), kind: source.kind.clone() };
    if reads == request.kind {
        return Ok(());
    }
    Err(SourceOutcome::UnusableMapping { name: mapping.metadata.name.clone().unwrap_or_default(), reads: Some(reads) })
}

/// The outcome of reading a network source.
#[derive(Clone, Debug)]
pub enum SourceOutcome {
    /// The objects exist and a description of their kind applies.
    Described {
        /// `Kind/name` of the objects, as recorded on the machine.
        name: String,
        /// The network of the objects; `None` while they have published none.
        network: Result<Option<Box<MachineNetwork>>, Problem>,
    },
    /// No mapping reads the kind, and the CRD of the kind does not have the label of the network contract.
    Undescribed,
    /// The object, or its CRD, does not exist, or no object matches the selector.
    NotFound,
    /// The API server does not serve the kind.
    NoKindMatch,
    /// The kind is cluster-scoped.
    ClusterScoped,
    /// The manager does not have the permission to read the kind.
    Forbidden,
    /// The AWSNetworkMapping that the request names does not exist.
    NoMapping,
    /// The AWSNetworkMapping of this name cannot be used for the kind.
    UnusableMapping {
        /// Name of the AWSNetworkMapping.
        name: String,
        /// The kind that the mapping reads, if this is another one than that of the request. Otherwise an expression
        /// of the mapping is invalid.
        reads: Option<SourceKind>,
    },
    /// The read failed with another error, for example because the conversion webhook of the kind does not exist.
    Unreadable {
        /// Status code of the API server's answer; `None` without an answer.
        code: Option<u16>,
        /// The attempted request, and the error of the API server or the client.
        text: String,
    },
}

/// An identity object of one of the three kinds.
#[derive(Clone, Debug)]
pub enum Identity {
    /// The manager's own credentials.
    Controller(Arc<AWSClusterControllerIdentity>),
    /// An IAM role.
    Role(Arc<AWSClusterRoleIdentity>),
    /// An access key in a Secret.
    Static(Arc<AWSClusterStaticIdentity>),
}

impl Identity {
    /// Metadata of the identity object.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Controller(identity) => &identity.metadata,
            Self::Role(identity) => &identity.metadata,
            Self::Static(identity) => &identity.metadata,
        }
    }

    /// Namespaces that may use the identity.
    pub fn allowed_namespaces(&self) -> Option<&AllowedNamespaces> {
        match self {
            Self::Controller(identity) => identity.spec.allowed_namespaces.as_ref(),
            Self::Role(identity) => identity.spec.allowed_namespaces.as_ref(),
            Self::Static(identity) => identity.spec.allowed_namespaces.as_ref(),
        }
    }
}

/// Reads that all reconcilers need. Functions that are not async read from caches, which are filled before the first
/// reconcile.
#[async_trait]
pub trait Kubernetes: Send + Sync {
    /// The current time for conditions and records.
    fn now(&self) -> Timestamp;
    /// The time since the start of the process on a monotonic clock, for durations that the process measures itself.
    fn uptime(&self) -> Duration;
    /// A Cluster.
    fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>>;
    /// An identity object.
    fn identity(&self, reference: &IdentityReference) -> Option<Identity>;
    /// Labels of a namespace; `None` if the namespace is not known.
    fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>>;
    /// A Secret by name; `None` if the Secret does not exist.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, KubernetesError>;
}

/// The kinds of objects that read network sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkReaderKind {
    /// AWSMachine.
    Machine,
    /// AWSMachineTemplate.
    Template,
}

/// An object that reads network sources. It is displayed as `Kind/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkReader {
    /// Its kind.
    pub kind: NetworkReaderKind,
    /// Its namespace, which is that of its sources.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Display for NetworkReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            NetworkReaderKind::Machine => "AWSMachine",
            NetworkReaderKind::Template => "AWSMachineTemplate",
        };
        write!(formatter, "{kind}/{}", self.name)
    }
}

/// The read of a source takes long. The pass ends without a result, and the reader is reconciled again when the read
/// has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPending;

/// Reads of network sources.
#[async_trait]
pub trait NetworkKubernetes: Kubernetes {
    /// Objects in the namespace of the reader. Equal requests share one answer for a few seconds. A failed read is an
    /// answer too.
    ///
    /// # Errors
    /// The read takes long. The reader is reconciled again when the read has ended.
    async fn source(&self, reader: &NetworkReader, request: &SourceRequest) -> Result<SourceRead, ReadPending>;
}

/// Further reads and writes of the machine reconciler.
#[async_trait]
pub trait MachineKubernetes: NetworkKubernetes {
    /// A Machine.
    fn machine(&self, namespace: &str, name: &str) -> Option<Arc<Machine>>;
    /// An AWSMachine.
    fn aws_machine(&self, namespace: &str, name: &str) -> Option<Arc<AWSMachine>>;
    /// All AWSMachines of a cluster.
    fn machines_of_cluster(&self, namespace: &str, cluster: &str) -> Vec<Arc<AWSMachine>>;
    /// All AWSMachines.
    fn aws_machines(&self) -> Vec<Arc<AWSMachine>>;
    /// The Clusters whose infrastructure object, of a watched kind, publishes this target group as a target of the
    /// control plane.
    fn clusters_with_target_group(&self, arn: &str) -> Vec<Arc<Cluster>>;
    /// The AWSMachines, of any namespace, that name this instance or record it
    /// ([`crate::awsmachine::claimed_instances`]).
    fn machines_with_instance(&self, id: &str) -> Vec<Arc<AWSMachine>>;
    /// The identity of this management cluster: the UID of its namespace `kube-system`. `None` while it is not known.
    fn management_cluster(&self) -> Option<String>;
    /// Adds the provider's finalizer and returns the updated object.
    async fn add_finalizer(&self, machine: &AWSMachine) -> Result<AWSMachine, KubernetesError>;
    /// Removes the provider's finalizer.
    async fn remove_finalizer(&self, machine: &AWSMachine) -> Result<(), KubernetesError>;
    /// Confirms with the API server, not with a cache, that the object has not changed since it was read. If the object
    /// has changed, the function fails like a refused write.
    async fn confirm(&self, machine: &AWSMachine) -> Result<(), KubernetesError>;
    /// Adds the annotation that blocks `clusterctl move`, with the account of the coming launch as its value. The write
    /// is refused if the object has changed since it was read.
    async fn block_move(&self, machine: &AWSMachine, account_id: &str) -> Result<AWSMachine, KubernetesError>;
    /// Removes the annotation that blocks `clusterctl move`, and sets the annotation `adopt-instance` to this instance.
    /// The write is refused if the object has changed since it was read.
    async fn allow_move(&self, machine: &AWSMachine, instance_id: Option<&str>) -> Result<AWSMachine, KubernetesError>;
    /// Replaces the machine's status. The write is refused if the object has changed since it was read.
    async fn write_status(
        &self,
        machine: &AWSMachine,
        status: &AWSMachineStatus,
    ) -> Result<AWSMachine, KubernetesError>;
    /// Sets `spec.providerID` and `spec.instanceID`, and removes the annotation `adopt-instance`, which they replace.
    /// The write is refused if the object has changed since it was read.
    async fn publish_ids(
        &self,
        machine: &AWSMachine,
        provider_id: &str,
        instance_id: &str,
    ) -> Result<AWSMachine, KubernetesError>;
}

/// Further reads of the reconcilers of identities.
pub trait IdentityKubernetes: Kubernetes {
    /// The AWSClusters that name the identity itself, not only a role whose credentials come from it.
    fn clusters_naming(&self, reference: &IdentityReference) -> Vec<Arc<AWSCluster>>;
    /// The AWSMachines that name the identity in their own spec or in the record of their launch.
    fn machines_naming(&self, reference: &IdentityReference) -> Vec<Arc<AWSMachine>>;
}

/// Further reads and writes of the cluster reconciler.
#[async_trait]
pub trait ClusterKubernetes: Kubernetes {
    /// The parts of a network that the AWSMachines and AWSMachineTemplates of a Cluster name in their own specs.
    fn machine_networks(&self, namespace: &str, cluster: &str) -> MachineNetworks;
    /// The names of the AWSMachines of a Cluster that have this provider's finalizer, and so may have an instance.
    fn held_machines(&self, namespace: &str, cluster: &str) -> BTreeSet<String>;
    /// All AWSClusters whose infrastructure this provider manages.
    fn managed_clusters(&self) -> Vec<Arc<AWSCluster>>;
    /// Replaces the status of the AWSCluster. The write is refused if the object has changed since it was read.
    async fn write_status(
        &self,
        cluster: &AWSCluster,
        status: &AWSClusterStatus,
    ) -> Result<AWSCluster, KubernetesError>;
    /// Sets the endpoint in the spec of an AWSCluster that has none, and returns the updated object.
    async fn publish_endpoint(
        &self,
        cluster: &AWSCluster,
        endpoint: &ControlPlaneEndpoint,
    ) -> Result<AWSCluster, KubernetesError>;
    /// Adds the provider's finalizer and returns the updated object.
    async fn add_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError>;
    /// Removes the provider's finalizer and returns the updated object.
    async fn remove_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError>;
}
