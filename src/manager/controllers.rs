//! The caches, the controllers, and the watches that trigger each controller.

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::conditions::{ConditionType, Reason, find, is_false};
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::identity::AWSClusterStaticIdentity;
use capa_api::machine::AWSMachine;
use capa_api::machine::template::AWSMachineTemplate;
use capa_api::meta;
use capa_controllers::awscluster::{
    self, ClusterContext, ClusterReconciler, FactsSources, KnownDetails, ManagedContext,
};
use capa_controllers::awsclusteridentity::{IdentityObject, identity_reference};
use capa_controllers::awsmachine::{self, MachineContext, MachineReconciler};
use capa_controllers::awsmachinetemplate::{TemplateContext, TemplateReconciler};
use capa_controllers::awsnetworkmapping::NetworkMappingReconciler;
use capa_controllers::identity::users::watched_identity;
use capa_controllers::kubernetes::{
    Caches, KubernetesClient, machines_of_cluster, owner_that_names, templates_of_cluster,
};
use capa_controllers::kubernetes_api::{NetworkReaderKind, SourceRequest};
use capa_controllers::refusals::Refusals;
use capa_controllers::{LaunchMemory, machine_networks};
use capa_runtime::Runtime;
use capa_runtime::admission::look_for_policies;
use capa_runtime::cache::ObjectCache;
use capa_runtime::controller::{Controller, ControllerSettings};
use capa_runtime::kinds::CachedKind;
use capa_runtime::lease::LeaseMemory;
use capa_runtime::scope::Scope;
use capa_runtime::tasks::Tasks;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::future::ready;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{predicates, watcher};
use kube::{Api, ResourceExt};

use super::controller_identity;
use super::identity_controllers;
use super::identity_deletions;
use super::identity_secrets::IdentitySecrets;
use super::orphans;
use super::wiring::{Wiring, references};
use crate::process::own_namespace;

/// Starts a watch for every kind that is read from a cache.
pub(super) fn start_caches(runtime: &Runtime, tasks: &mut Tasks, scope: &Scope) -> Caches {
    let client = &runtime.client;
    let every = watcher::Config::default;
    let aws_machines = ObjectCache::start(runtime, tasks, scope.api(client), scope.reconciled());
    Caches {
        clusters: ObjectCache::start(runtime, tasks, scope.api(client), every()),
        machines: ObjectCache::start(runtime, tasks, scope.api(client), every()),
        aws_clusters: ObjectCache::start(runtime, tasks, scope.api(client), scope.reconciled()),
        machines_by_instance: aws_machines.index(awsmachine::claimed_instances),
        aws_machines,
        aws_machine_templates: ObjectCache::start(runtime, tasks, scope.api(client), scope.reconciled()),
        controller_identities: ObjectCache::start(runtime, tasks, Api::all(client.clone()), every()),
        role_identities: ObjectCache::start(runtime, tasks, Api::all(client.clone()), every()),
        static_identities: ObjectCache::start(runtime, tasks, Api::all(client.clone()), every()),
        network_mappings: ObjectCache::start(runtime, tasks, Api::all(client.clone()), every()),
        namespaces: ObjectCache::start(runtime, tasks, Api::all(client.clone()), every()),
    }
}

impl Wiring {
    /// Starts the controllers as tasks.
    pub(super) fn start(self, tasks: &mut Tasks) {
        if self.flags.creates_controller_identity() {
            let created = controller_identity::create(self.runtime.clone(), self.lease_memory(), tasks.stop());
            tasks.spawn("creator of AWSClusterControllerIdentity/default", created);
        }
        let malformed = self.runtime.malformed.clone();
        let published =
            malformed.publish_events(self.runtime.events.clone(), Reason::InvalidSpec.as_str(), tasks.stop());
        tasks.spawn("events about malformed objects", published);
        let client = self.runtime.client.clone();
        let policies =
            look_for_policies(client, &meta::ADMISSION_POLICIES, self.flags.sync_period.into(), tasks.stop());
        tasks.spawn("search for the admission policies", policies);
        let kubernetes = KubernetesClient::new(&self.runtime, &self.caches, self.flags.timing());
        let changed_secrets = self.follow_identities(&kubernetes, tasks);
        let clusters = self.cluster_controller(&kubernetes, changed_secrets);
        let machines = self.machine_controller(&kubernetes);
        let templates = self.template_controller(&kubernetes);
        let mappings = self.mapping_controller(&kubernetes);
        identity_controllers::start(&self, &kubernetes, tasks);
        let scan = orphans::scan_periodically(
            self.clouds.clone(),
            kubernetes,
            self.runtime.clone(),
            self.orphans.clone(),
            self.flags.timing().listing_interval,
            tasks.stop(),
        );
        tasks.spawn("scanner for orphaned instances", scan);
        tasks.spawn("controller of AWSCluster", clusters.run(tasks.stop()));
        tasks.spawn("controller of AWSMachine", machines.run(tasks.stop()));
        tasks.spawn("controller of AWSMachineTemplate", templates.run(tasks.stop()));
        tasks.spawn("controller of AWSNetworkMapping", mappings.run(tasks.stop()));
    }

    /// The memory that outlives this process, in the Lease; `None` without leader election, because then there is no
    /// Lease.
    fn lease_memory(&self) -> Option<LeaseMemory> {
        let client = self.runtime.client.clone();
        let name = &self.flags.leader_elect_resource_name;
        let memory = || LeaseMemory::new(client, &own_namespace(), name);
        self.flags.process.leader_elect.then(memory)
    }

    /// Starts the tasks that warn about deleted identities and Secrets. Returns the static identities whose Secrets
    /// change.
    fn follow_identities(
        &self,
        kubernetes: &KubernetesClient,
        tasks: &mut Tasks,
    ) -> UnboundedReceiver<AWSClusterStaticIdentity> {
        let (changed, changed_secrets) = unbounded();
        let secrets = IdentitySecrets {
            runtime: self.runtime.clone(),
            kubernetes: kubernetes.clone(),
            identities: self.caches.static_identities.clone(),
            namespace: self.flags.effective_identity_namespace(),
            period: self.flags.timing().source_retry_cap,
            changed,
        };
        tasks.spawn("Secrets of static identities", secrets.follow(tasks.stop()));
        let caches = &self.caches;
        self.warn_of_deletions(&caches.controller_identities, kubernetes, tasks);
        self.warn_of_deletions(&caches.role_identities, kubernetes, tasks);
        self.warn_of_deletions(&caches.static_identities, kubernetes, tasks);
        changed_secrets
    }

    fn warn_of_deletions<K: IdentityObject>(
        &self,
        identities: &ObjectCache<K>,
        kubernetes: &KubernetesClient,
        tasks: &mut Tasks,
    ) {
        let (runtime, identities) = (self.runtime.clone(), identities.clone());
        let warned = identity_deletions::warn(runtime, kubernetes.clone(), identities, tasks.stop());
        tasks.spawn(format!("warnings about deleted {}", K::plural(&())), warned);
    }

    /// Gathers facts with the sessions of this process.
    fn facts_sources(&self) -> FactsSources {
        let clouds = self.clouds.clone();
        Arc::new(move |identity, region| clouds.facts(identity, region))
    }

    fn cluster_controller(
        &self,
        kubernetes: &KubernetesClient,
        changed_secrets: UnboundedReceiver<AWSClusterStaticIdentity>,
    ) -> Controller<ClusterReconciler> {
        let reconciler = ClusterReconciler {
            context: ClusterContext {
                kubernetes: Arc::new(kubernetes.clone()),
                clouds: Arc::new(self.clouds.clone()),
                facts: self.facts_sources(),
                lookups: awscluster::LookupCache::default(),
                checks: awscluster::CheckTimes::default(),
                warnings: awscluster::WarningDedup::default(),
                timing: self.flags.timing(),
                identity_namespace: self.flags.effective_identity_namespace(),
            },
            managed: ManagedContext {
                kubernetes: Arc::new(kubernetes.clone()),
                clouds: Arc::new(self.clouds.clone()),
                timing: self.flags.timing(),
                identity_namespace: self.flags.effective_identity_namespace(),
                known_details: KnownDetails::default(),
            },
            sync_period: self.flags.sync_period.into(),
        };
        let settings =
            ControllerSettings { concurrency: self.flags.awscluster_concurrency, ..ControllerSettings::default() };
        let caches = &self.caches;
        Controller::new(&self.runtime, &caches.aws_clusters, reconciler, settings)
            .watches(&caches.clusters, awscluster::watched_cluster, aws_cluster_of)
            .watches(&caches.controller_identities, watched_identity, clusters_with(kubernetes))
            .watches(&caches.role_identities, watched_identity, clusters_with(kubernetes))
            .watches(&caches.static_identities, watched_identity, clusters_with(kubernetes))
            .watches(&caches.namespaces, predicates::labels, self.clusters_of_namespace())
            .watches(&caches.aws_machines, machine_networks::watched_machine, self.cluster_of_machine())
            .watches(&caches.aws_machine_templates, machine_networks::watched_template, self.cluster_of_template())
            .reconcile_on(changed_secrets.flat_map({
                let of_identity = clusters_with(kubernetes);
                move |identity| futures::stream::iter(of_identity(&identity))
            }))
    }

    fn machine_controller(&self, kubernetes: &KubernetesClient) -> Controller<MachineReconciler> {
        let reconciler = MachineReconciler {
            context: MachineContext {
                kubernetes: Arc::new(kubernetes.clone()),
                clouds: Arc::new(self.clouds.clone()),
                memory: LaunchMemory::new(format!("{:032x}", fastrand::u128(..))),
                timing: self.flags.timing(),
                identity_namespace: self.flags.effective_identity_namespace(),
                target_policy: self.flags.control_plane_targets,
            },
            sync_period: self.flags.sync_period.into(),
        };
        let settings = ControllerSettings {
            concurrency: self.flags.awsmachine_concurrency,
            // Secrets and kinds of other providers are not watched.
            backoff: self.source_backoff(),
            ..ControllerSettings::default()
        };
        let caches = &self.caches;
        let machines = caches.aws_machines.store().clone();
        let of_cluster = move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            references(&machines_of_cluster(&machines, &namespace, &cluster.name_any()))
        };
        let machines = caches.aws_machines.store().clone();
        let clusters = caches.clusters.store().clone();
        let sources = kubernetes.source_reader();
        let under_infrastructure = move |cluster: &AWSCluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            sources.changed(&namespace, &SourceRequest::infrastructure(&ContractReference::to(cluster)));
            let owner = owner_that_names(cluster, &clusters);
            owner.map_or_else(Vec::new, |owner| {
                references(&machines_of_cluster(&machines, &namespace, &owner.name_any()))
            })
        };
        let seen = self.clouds.changes().map(|key| ObjectRef::new(&key.name).within(&key.namespace));
        let read = readers(kubernetes, NetworkReaderKind::Machine);
        Controller::new(&self.runtime, &caches.aws_machines, reconciler, settings)
            .watches(&caches.machines, awsmachine::watched_machine, aws_machine_of)
            .watches(&caches.clusters, awsmachine::watched_cluster, of_cluster)
            .watches(&caches.aws_clusters, awscluster::wakes_machines, under_infrastructure)
            .watches(&caches.controller_identities, watched_identity, self.machines_without_identity())
            .watches(&caches.role_identities, watched_identity, self.machines_without_identity())
            .watches(&caches.static_identities, watched_identity, self.machines_without_identity())
            .watches(&caches.namespaces, predicates::labels, self.machines_without_identity())
            .reconcile_on(seen)
            .reconcile_on(read)
    }

    fn template_controller(&self, kubernetes: &KubernetesClient) -> Controller<TemplateReconciler> {
        let reconciler = TemplateReconciler {
            context: TemplateContext {
                kubernetes: Arc::new(kubernetes.clone()),
                clouds: Arc::new(self.clouds.clone()),
                refusals: Refusals::default(),
                timing: self.flags.timing(),
                identity_namespace: self.flags.effective_identity_namespace(),
            },
            sync_period: self.flags.sync_period.into(),
        };
        let settings = ControllerSettings {
            concurrency: self.flags.awscluster_concurrency,
            // Identities and kinds of other providers are not watched for templates.
            backoff: self.source_backoff(),
            ..ControllerSettings::default()
        };
        let caches = &self.caches;
        let templates = caches.aws_machine_templates.store().clone();
        let of_cluster = move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            references(&templates_of_cluster(&templates, &namespace, &cluster.name_any()))
        };
        let templates = caches.aws_machine_templates.store().clone();
        let clusters = caches.clusters.store().clone();
        let sources = kubernetes.source_reader();
        let under_infrastructure = move |cluster: &AWSCluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            sources.changed(&namespace, &SourceRequest::infrastructure(&ContractReference::to(cluster)));
            let owner = owner_that_names(cluster, &clusters);
            owner.map_or_else(Vec::new, |owner| {
                references(&templates_of_cluster(&templates, &namespace, &owner.name_any()))
            })
        };
        Controller::new(&self.runtime, &caches.aws_machine_templates, reconciler, settings)
            .watches(&caches.clusters, awsmachine::watched_cluster, of_cluster)
            .watches(&caches.aws_clusters, awscluster::wakes_machines, under_infrastructure)
            .reconcile_on(readers(kubernetes, NetworkReaderKind::Template))
    }

    fn mapping_controller(&self, kubernetes: &KubernetesClient) -> Controller<NetworkMappingReconciler> {
        let kubernetes = Arc::new(kubernetes.clone());
        let settings = ControllerSettings { concurrency: 1, ..ControllerSettings::default() };
        let mappings = &self.caches.network_mappings;
        Controller::new(&self.runtime, mappings, NetworkMappingReconciler { kubernetes }, settings)
    }

    /// The AWSClusters of a namespace. The labels of the namespace decide which identities they may use.
    fn clusters_of_namespace(&self) -> impl Fn(&Namespace) -> Vec<ObjectRef<AWSCluster>> + Send + 'static {
        let clusters = self.caches.aws_clusters.store().clone();
        move |namespace| {
            let name = namespace.name_any();
            references(&clusters.state_filter(|cluster| cluster.namespace().as_ref() == Some(&name)))
        }
    }

    /// The AWSCluster of an AWSMachine, if the AWSCluster may be waiting for its machines.
    fn cluster_of_machine(&self) -> impl Fn(&AWSMachine) -> Option<ObjectRef<AWSCluster>> + Send + 'static {
        let of_cluster = self.waiting_cluster();
        move |machine| of_cluster(&machine.metadata, meta::cluster_name_label(&machine.metadata)?)
    }

    /// The AWSCluster of an AWSMachineTemplate, if the AWSCluster may be waiting for its machines.
    fn cluster_of_template(&self) -> impl Fn(&AWSMachineTemplate) -> Option<ObjectRef<AWSCluster>> + Send + 'static {
        let of_cluster = self.waiting_cluster();
        move |template| of_cluster(&template.metadata, meta::owner_cluster_name(&template.metadata)?)
    }

    /// The AWSCluster of the Cluster with this name in the namespace of an object, if the AWSCluster may be waiting for
    /// its machines. An AWSCluster that outlives its Cluster waits for the last machine.
    fn waiting_cluster(&self) -> impl Fn(&ObjectMeta, &str) -> Option<ObjectRef<AWSCluster>> + Send + 'static {
        let clusters = self.caches.clusters.store().clone();
        let aws_clusters = self.caches.aws_clusters.store().clone();
        move |metadata, name| {
            let namespace = metadata.namespace.as_deref()?;
            let owner = clusters.get(&ObjectRef::new(name).within(namespace));
            let named = owner.and_then(|owner| aws_cluster_of(&owner));
            let reference = named.or_else(|| orphan_of(&aws_clusters, namespace, name))?;
            let waits = machine_networks::may_wait_for_machines(aws_clusters.get(&reference)?.as_ref());
            waits.then_some(reference)
        }
    }

    /// A changed identity or namespace triggers the machines that wait for an identity; other machines use the change
    /// at their next reconcile.
    fn machines_without_identity<I>(&self) -> impl Fn(&I) -> Vec<ObjectRef<AWSMachine>> + Send + 'static {
        let machines = self.caches.aws_machines.store().clone();
        move |_| {
            let waiting = |machine: &AWSMachine| {
                lacks_identity(machine.status.as_ref().map(|status| status.conditions.as_slice()))
            };
            references(&machines.state_filter(waiting))
        }
    }
}

/// The objects of a kind that waited for their source, which has now been read.
fn readers<K: CachedKind>(
    kubernetes: &KubernetesClient,
    kind: NetworkReaderKind,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static + use<K> {
    let mut ended = kubernetes.source_reader().ended();
    let ended = futures::stream::poll_fn(move |context| ended.poll_recv(context));
    let of_kind = ended.filter(move |reader| ready(reader.kind == kind));
    of_kind.map(|reader| ObjectRef::new(&reader.name).within(&reader.namespace))
}

/// The AWSClusters that use a changed or deleted identity. Their conditions must report it before a machine is launched
/// or deleted.
fn clusters_with<K: IdentityObject>(
    kubernetes: &KubernetesClient,
) -> impl Fn(&K) -> Vec<ObjectRef<AWSCluster>> + Send + use<K> {
    let kubernetes = kubernetes.clone();
    move |identity| kubernetes.clusters_with_identity(&identity_reference(identity))
}

fn lacks_identity(conditions: Option<&[Condition]>) -> bool {
    let condition = conditions.and_then(|conditions| find(conditions, ConditionType::IdentityReady));
    condition.is_some_and(is_false)
}

/// The AWSCluster whose owner is this Cluster. The Cluster itself is deleted or names no AWSCluster.
fn orphan_of(aws_clusters: &Store<AWSCluster>, namespace: &str, owner: &str) -> Option<ObjectRef<AWSCluster>> {
    let orphan = aws_clusters.find(|cluster| {
        cluster.metadata.namespace.as_deref() == Some(namespace)
            && meta::owner_cluster_name(&cluster.metadata) == Some(owner)
    })?;
    Some(ObjectRef::from_obj(orphan.as_ref()))
}

fn aws_cluster_of(cluster: &Cluster) -> Option<ObjectRef<AWSCluster>> {
    referenced(cluster.spec.infrastructure_ref.as_ref()?, cluster.metadata.namespace.as_deref()?)
}

fn aws_machine_of(machine: &Machine) -> Option<ObjectRef<AWSMachine>> {
    referenced(machine.spec.infrastructure_ref.as_ref()?, machine.metadata.namespace.as_deref()?)
}

fn referenced<K: CachedKind>(reference: &ContractReference, namespace: &str) -> Option<ObjectRef<K>> {
    let ours = reference.api_group == K::group(&()) && reference.kind == K::kind(&());
    ours.then(|| ObjectRef::new(&reference.name).within(namespace))
}
