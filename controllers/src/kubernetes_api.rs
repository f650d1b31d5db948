//! The requests to Kubernetes that a reconciler may make, as narrow traits, so that tests can replace the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::cluster::AWSCluster;
use capa_api::common::IdentityReference;
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::identity::{
    AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity, AllowedNamespaces,
};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde_json::Value;
use thiserror::Error;

/// A request to the API server failed without an answer about the object.
#[derive(Debug, Error)]
#[error("failed to {attempted}")]
pub struct KubernetesError {
    /// What was attempted, on which object: `read Secret team-a/bootstrap`.
    pub attempted: String,
    /// What the client said.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// An infrastructure object of any kind, as far as the network contract reads it.
#[derive(Clone, Debug)]
pub enum Infrastructure {
    /// The object of a kind whose CRD carries the network contract's label; its `status.network`.
    Published(Option<Value>),
    /// An object of a kind without the network contract's label.
    Silent,
    /// The object, or its CRD, does not exist.
    NotFound,
    /// The API server serves no such kind.
    NoKindMatch,
    /// The manager may not read the kind.
    Forbidden,
    /// Reading it fails in any other way, for instance because the conversion webhook of its kind is gone.
    Unreadable {
        /// Status code of the API server's answer; none where it did not answer.
        code: Option<u16>,
        /// What was attempted, and what the API server or the client said.
        text: String,
    },
}

/// An identity object of one of the three kinds.
#[derive(Clone, Debug)]
pub enum Identity {
    /// The manager's own credentials.
    Controller(Arc<AWSClusterControllerIdentity>),
    /// A role.
    Role(Arc<AWSClusterRoleIdentity>),
    /// A key in a Secret.
    Static(Arc<AWSClusterStaticIdentity>),
}

impl Identity {
    /// Metadata of the object.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Controller(identity) => &identity.metadata,
            Self::Role(identity) => &identity.metadata,
            Self::Static(identity) => &identity.metadata,
        }
    }

    /// Namespaces that may use it.
    pub fn allowed_namespaces(&self) -> Option<&AllowedNamespaces> {
        match self {
            Self::Controller(identity) => identity.spec.allowed_namespaces.as_ref(),
            Self::Role(identity) => identity.spec.allowed_namespaces.as_ref(),
            Self::Static(identity) => identity.spec.allowed_namespaces.as_ref(),
        }
    }
}

/// Reads that all reconcilers share. Functions that are not async read from caches, which are filled before the first
/// reconcile.
#[async_trait]
pub trait Kubernetes: Send + Sync {
    /// The time that conditions and records carry.
    fn now(&self) -> Timestamp;
    /// The time since the process began, by a clock that nobody sets: for durations that the process measures itself.
    fn uptime(&self) -> Duration;
    /// A Cluster.
    fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>>;
    /// An identity object.
    fn identity(&self, reference: &IdentityReference) -> Option<Identity>;
    /// Labels of a namespace; none where it is unknown.
    fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String>;
    /// A Secret by name; `None` where it does not exist.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, KubernetesError>;
}

/// Reads of network sources.
#[async_trait]
pub trait NetworkKubernetes: Kubernetes {
    /// The object that a Cluster's `infrastructureRef` names. Reads of equal objects are shared for a few seconds, and
    /// one that fails is an answer as well.
    async fn infrastructure(&self, namespace: &str, reference: &ContractReference) -> Infrastructure;
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
    /// The Clusters whose infrastructure object, of a kind that is watched, publishes this target group as a target of
    /// the control plane.
    fn clusters_with_target_group(&self, arn: &str) -> Vec<Arc<Cluster>>;
    /// Adds our finalizer and returns the object as the server has it then.
    async fn add_finalizer(&self, machine: &AWSMachine) -> Result<AWSMachine, KubernetesError>;
    /// Removes our finalizer.
    async fn remove_finalizer(&self, machine: &AWSMachine) -> Result<(), KubernetesError>;
    /// Asks the API server, not a cache, whether the object is unchanged since it was read; fails like a refused write
    /// if it has changed.
    async fn confirm(&self, machine: &AWSMachine) -> Result<(), KubernetesError>;
    /// Adds or removes the annotation that blocks `clusterctl move`; refused if the object has changed since it was
    /// read.
    async fn block_move(&self, machine: &AWSMachine, blocked: bool) -> Result<AWSMachine, KubernetesError>;
    /// Writes the machine's status whole, refused if the object has changed since it was read.
    async fn write_status(
        &self,
        machine: &AWSMachine,
        status: &AWSMachineStatus,
    ) -> Result<AWSMachine, KubernetesError>;
    /// Sets `spec.providerID` and `spec.instanceID`, refused if the object has changed since it was read.
    async fn publish_ids(
        &self,
        machine: &AWSMachine,
        provider_id: &str,
        instance_id: &str,
    ) -> Result<AWSMachine, KubernetesError>;
}

/// Further writes of the cluster reconciler.
#[async_trait]
pub trait ClusterKubernetes: Kubernetes {
    /// Removes our finalizer from an AWSCluster that we do not manage.
    async fn remove_finalizer(&self, cluster: &AWSCluster) -> Result<AWSCluster, KubernetesError>;
}
