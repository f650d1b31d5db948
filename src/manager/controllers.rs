//! The caches, the controllers, and the watches that trigger each controller.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::machine::AWSMachine;
use capa_aws::SessionPool;
use capa_controllers::awscluster::{self, ClusterContext, ClusterReconciler};
use capa_controllers::awsmachine::{self, LaunchMemory, MachineContext, MachineReconciler};
use capa_controllers::awsmachinetemplate::{TemplateContext, TemplateReconciler};
use capa_controllers::kubernetes::{
    Caches, KubernetesClient, machines_of_cluster, owner_that_names, reference_to, templates_of_cluster,
};
use capa_controllers::kubernetes_api::NetworkReaderKind;
use capa_controllers::refusals::Refusals;
use capa_runtime::Runtime;
use capa_runtime::backoff::BackoffSettings;
use capa_runtime::cache::ObjectCache;
use capa_runtime::controller::{Controller, ControllerSettings};
use capa_runtime::kinds::CachedKind;
use capa_runtime::lease::LeaseMemory;
use capa_runtime::scope::Scope;
use capa_runtime::tasks::Tasks;
use futures::future::ready;
use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{predicates, watcher};
use kube::{Api, Resource, ResourceExt};

use super::Flags;
use super::controller_identity;
use super::flags;
use super::identity_controllers;
use super::identity_secrets;
use super::orphans::{self, OrphanCounts};

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
        namespaces: ObjectCache::start(runtime, tasks, Api::all(client.clone()), every()),
    }
}

/// The dependencies of the controllers.
pub(super) struct Wiring {
    pub(super) runtime: Runtime,
    pub(super) caches: Caches,
    pub(super) clouds: SessionPool,
    pub(super) orphans: OrphanCounts,
    pub(super) flags: Flags,
}

impl Wiring {
    /// Starts the controllers as tasks.
    pub(super) fn start(self, tasks: &mut Tasks) {
        if self.flags.creates_controller_identity() {
            let created = controller_identity::create(self.runtime.clone(), self.lease_memory(), tasks.stop());
            tasks.spawn("creator of AWSClusterControllerIdentity/default", created);
        }
        let owned = identity_secrets::own(
            self.runtime.clone(),
            self.caches.static_identities.clone(),
            self.flags.effective_identity_namespace(),
            self.flags.sync_period.into(),
            tasks.stop(),
        );
        tasks.spawn("owners of the Secrets of static identities", owned);
        let malformed = self.runtime.malformed.clone();
        let published =
            malformed.publish_events(self.runtime.events.clone(), Reason::InvalidSpec.as_str(), tasks.stop());
        tasks.spawn("events about malformed objects", published);
        let kubernetes = KubernetesClient::new(&self.runtime, &self.caches, self.flags.timing());
        let clusters = self.cluster_controller(&kubernetes);
        let machines = self.machine_controller(&kubernetes);
        let templates = self.template_controller(&kubernetes);
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
    }

    /// The memory that outlives this process; `None` without leader election, because then there is no Lease.
    fn lease_memory(&self) -> Option<LeaseMemory> {
        let client = self.runtime.client.clone();
        let name = &self.flags.leader_elect_resource_name;
        let memory = || LeaseMemory::new(client, &flags::own_namespace(), name);
        self.flags.leader_elect.then(memory)
    }

    fn cluster_controller(&self, kubernetes: &KubernetesClient) -> Controller<ClusterReconciler> {
        let reconciler = ClusterReconciler {
            context: ClusterContext {
                kubernetes: Arc::new(kubernetes.clone()),
                clouds: Arc::new(self.clouds.clone()),
                lookups: awscluster::LookupCache::default(),
                warnings: awscluster::WarningDedup::default(),
                timing: self.flags.timing(),
                identity_namespace: self.flags.effective_identity_namespace(),
            },
            sync_period: self.flags.sync_period.into(),
        };
        let settings = ControllerSettings {
            concurrency: self.flags.awscluster_concurrency,
            ..ControllerSettings::default()
        };
        let caches = &self.caches;
        Controller::new(&self.runtime, &caches.aws_clusters, reconciler, settings)
            .watches(&caches.clusters, awscluster::watched_cluster, aws_cluster_of)
            .watches(&caches.controller_identities, version, self.clusters_without_identity())
            .watches(&caches.role_identities, version, self.clusters_without_identity())
            .watches(&caches.static_identities, version, self.clusters_without_identity())
            .watches(&caches.namespaces, predicates::labels, self.clusters_without_identity())
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
            // Secrets and foreign kinds are not watched.
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
        let infrastructure = kubernetes.infrastructure_reader();
        let under_infrastructure = move |cluster: &AWSCluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            infrastructure.changed(&namespace, &reference_to(cluster));
            let owner = owner_that_names(cluster, &clusters);
            owner.map_or_else(Vec::new, |owner| {
                references(&machines_of_cluster(&machines, &namespace, &owner.name_any()))
            })
        };
        let seen = self
            .clouds
            .changes()
            .map(|key| ObjectRef::new(&key.name).within(&key.namespace));
        let read = readers(kubernetes, NetworkReaderKind::Machine);
        Controller::new(&self.runtime, &caches.aws_machines, reconciler, settings)
            .watches(&caches.machines, awsmachine::watched_machine, aws_machine_of)
            .watches(&caches.clusters, awsmachine::watched_cluster, of_cluster)
            .watches(&caches.aws_clusters, awscluster::wakes_machines, under_infrastructure)
            .watches(&caches.controller_identities, version, self.machines_without_identity())
            .watches(&caches.role_identities, version, self.machines_without_identity())
            .watches(&caches.static_identities, version, self.machines_without_identity())
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
            // Identities and foreign kinds are not watched for templates.
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
        let infrastructure = kubernetes.infrastructure_reader();
        let under_infrastructure = move |cluster: &AWSCluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            infrastructure.changed(&namespace, &reference_to(cluster));
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

    /// Objects that are not watched are read again after this delay, so that a correction by the user takes effect
    /// soon.
    pub(super) fn source_backoff(&self) -> BackoffSettings {
        BackoffSettings {
            cap: self.flags.timing().source_retry_cap,
            ..BackoffSettings::default()
        }
    }

    /// A changed identity or namespace triggers the objects that wait for an identity; other objects use the change at
    /// their next reconcile.
    fn clusters_without_identity<I>(&self) -> impl Fn(&I) -> Vec<ObjectRef<AWSCluster>> + Send + 'static {
        let clusters = self.caches.aws_clusters.store().clone();
        move |_| {
            let waiting = |cluster: &AWSCluster| {
                lacks_identity(cluster.status.as_ref().map(|status| status.conditions.as_slice()))
            };
            references(&clusters.state_filter(waiting))
        }
    }

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

/// The objects of a kind whose source has been read, for which they waited.
fn readers<K: CachedKind>(
    kubernetes: &KubernetesClient,
    kind: NetworkReaderKind,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static + use<K> {
    let mut ended = kubernetes.infrastructure_reader().ended();
    let ended = futures::stream::poll_fn(move |context| ended.poll_recv(context));
    let of_kind = ended.filter(move |reader| ready(reader.kind == kind));
    of_kind.map(|reader| ObjectRef::new(&reader.name).within(&reader.namespace))
}

fn lacks_identity(conditions: Option<&[Condition]>) -> bool {
    let condition = conditions.and_then(|conditions| find(conditions, ConditionType::IdentityReady));
    condition.is_some_and(|condition| condition.status == "False")
}

pub(super) fn references<K: CachedKind>(objects: &[Arc<K>]) -> Vec<ObjectRef<K>> {
    objects
        .iter()
        .map(|object| ObjectRef::from_obj(object.as_ref()))
        .collect()
}

/// Hash of the version of an identity's spec. A change of its status triggers nothing.
pub(super) fn version<K: Resource>(object: &K) -> Option<u64> {
    let generation = object.meta().generation?;
    let mut hasher = DefaultHasher::new();
    (&object.meta().uid, generation).hash(&mut hasher);
    Some(hasher.finish())
}

fn aws_cluster_of(cluster: &Cluster) -> Option<ObjectRef<AWSCluster>> {
    referenced(
        cluster.spec.infrastructure_ref.as_ref()?,
        cluster.metadata.namespace.as_deref()?,
    )
}

fn aws_machine_of(machine: &Machine) -> Option<ObjectRef<AWSMachine>> {
    referenced(
        machine.spec.infrastructure_ref.as_ref()?,
        machine.metadata.namespace.as_deref()?,
    )
}

fn referenced<K: CachedKind>(reference: &ContractReference, namespace: &str) -> Option<ObjectRef<K>> {
    let ours = reference.api_group == K::group(&()) && reference.kind == K::kind(&());
    ours.then(|| ObjectRef::new(&reference.name).within(namespace))
}
