//! The objects of the Kubernetes in memory, as users and other controllers write them.

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;

use super::{FakeKubernetes, key};
use crate::kubernetes_api::Identity;
use crate::testing::read;
use crate::testing::source::FakeSource;

impl FakeKubernetes {
    pub(crate) fn put_cluster(&self, cluster: Cluster) {
        self.state().clusters.insert(key(&cluster.metadata), Arc::new(cluster));
    }

    pub(crate) fn remove_cluster(&self, namespace: &str, name: &str) {
        self.state().clusters.remove(&(namespace.into(), name.into()));
    }

    pub(crate) fn put_machine(&self, machine: Machine) {
        self.state().machines.insert(key(&machine.metadata), Arc::new(machine));
    }

    /// Stores an AWSMachine, as a user would.
    pub(crate) fn put_aws_machine(&self, machine: AWSMachine) -> AWSMachine {
        self.stored(machine)
    }

    /// Adds an AWSCluster.
    pub(crate) fn put_aws_cluster(&self, cluster: AWSCluster) {
        self.state().aws_clusters.push(Arc::new(cluster));
    }

    /// The current AWSMachine; `None` after the last finalizer of a deleted AWSMachine was removed.
    pub(crate) fn aws_machine(&self, namespace: &str, name: &str) -> Option<AWSMachine> {
        let state = self.state();
        let machine = state.aws_machines.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(machine.as_ref().clone())
    }

    /// Creates or replaces an identity. Its UID is its name, and its generation and resource version increase.
    pub(crate) fn identity_object(&self, kind: &str, name: &str, spec: &str) {
        let version = self.next_version();
        let yaml = format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: {kind}, \
             metadata: {{name: {name}, uid: {name}, generation: {version}, resourceVersion: '{version}'}}, spec: \
             {{{spec}}}}}"
        );
        let kind: IdentityKind = kind.parse().unwrap();
        let identity = match kind {
            IdentityKind::AWSClusterControllerIdentity => Identity::Controller(Arc::new(read(&yaml))),
            IdentityKind::AWSClusterRoleIdentity => Identity::Role(Arc::new(read(&yaml))),
            IdentityKind::AWSClusterStaticIdentity => Identity::Static(Arc::new(read(&yaml))),
        };
        let name = name.to_owned();
        self.state().identities.insert(IdentityReference { kind, name }, identity);
    }

    /// Increases the resource version of a role, as a write of its status does.
    pub(crate) fn touch_role(&self, name: &str) {
        let version = self.next_version().to_string();
        let kind = IdentityKind::AWSClusterRoleIdentity;
        let name = name.to_owned();
        if let Some(Identity::Role(role)) = self.state().identities.get_mut(&IdentityReference { kind, name }) {
            Arc::make_mut(role).metadata.resource_version = Some(version);
        }
    }

    pub(crate) fn remove_identity(&self, reference: &IdentityReference) {
        self.state().identities.remove(reference);
    }

    pub(crate) fn label_namespace(&self, namespace: &str, key: &str, value: &str) {
        let mut state = self.state();
        let labels = state.namespaces.entry(namespace.to_owned()).or_default();
        labels.insert(key.to_owned(), value.to_owned());
    }

    /// Stores a Secret of the type that Cluster API's providers give theirs.
    pub(crate) fn put_secret(&self, namespace: &str, name: &str, data: &[(&str, &str)]) {
        let version = self.next_version();
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(name.to_owned()),
                resource_version: Some(version.to_string()),
                ..ObjectMeta::default()
            },
            data: Some(data.collect()),
            type_: Some("cluster.x-k8s.io/secret".to_owned()),
            ..Secret::default()
        };
        let key = (namespace.to_owned(), name.to_owned());
        let mut state = self.state();
        state.unread_secrets.remove(&key);
        state.secrets.insert(key, secret);
    }

    /// Makes reads of a Secret fail until it is stored again: with this code and reason, or without an answer.
    pub(crate) fn refuse_secret(&self, namespace: &str, name: &str, answer: Option<(u16, &'static str)>) {
        let key = (namespace.to_owned(), name.to_owned());
        self.state().unread_secrets.insert(key, answer);
    }

    /// Sets the network source with this name.
    pub(crate) fn put_source(&self, name: &str, source: impl Into<FakeSource>) {
        let mut state = self.state();
        state.being_read.remove(name);
        state.sources.insert(name.to_owned(), source.into());
    }

    /// Makes the read of the network source with this name slow.
    pub(crate) fn hold_source(&self, name: &str) {
        self.state().being_read.insert(name.to_owned());
    }

    /// A Cluster whose infrastructure object publishes a target group.
    pub(crate) fn put_cluster_with_target_group(&self, cluster: Cluster, arn: &str) {
        let cluster = Arc::new(cluster);
        let mut state = self.state();
        state.clusters.insert(key(&cluster.metadata), cluster.clone());
        state.target_groups.entry(arn.to_owned()).or_default().push(cluster);
    }

    /// Publishes a network, given as YAML, in the infrastructure object with this name.
    pub(crate) fn publish_network(&self, name: &str, network: &str) {
        self.put_source(name, FakeSource::published(&read(network)));
    }
}
