//! The controllers of the three kinds of identities.

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::common::IdentityReference;
use capa_api::identity::AWSClusterRoleIdentity;
use capa_api::machine::AWSMachine;
use capa_controllers::awsclusteridentity::{
    IdentityContext, IdentityObject, IdentityReconciler, cluster_report, identity_reference, machine_report,
};
use capa_controllers::identity::users::{leads_to, watched_identity};
use capa_controllers::kubernetes::KubernetesClient;
use capa_controllers::kubernetes_api::Kubernetes;
use capa_runtime::cache::ObjectCache;
use capa_runtime::controller::{Controller, ControllerSettings};
use capa_runtime::scope::Scope;
use capa_runtime::tasks::Tasks;
use kube::runtime::reflector::ObjectRef;

use super::wiring::{Wiring, references};

/// Starts the controllers as tasks.
pub(super) fn start(wiring: &Wiring, kubernetes: &KubernetesClient, tasks: &mut Tasks) {
    let caches = &wiring.caches;
    let own = controller(wiring, kubernetes, &caches.controller_identities);
    tasks.spawn("controller of AWSClusterControllerIdentity", own.run(tasks.stop()));
    let roles = controller(wiring, kubernetes, &caches.role_identities)
        .watches(&caches.controller_identities, watched_identity, roles_through(wiring, kubernetes))
        .watches(&caches.role_identities, watched_identity, roles_through(wiring, kubernetes))
        .watches(&caches.static_identities, watched_identity, roles_through(wiring, kubernetes));
    tasks.spawn("controller of AWSClusterRoleIdentity", roles.run(tasks.stop()));
    let keys = controller(wiring, kubernetes, &caches.static_identities);
    tasks.spawn("controller of AWSClusterStaticIdentity", keys.run(tasks.stop()));
}

/// The controller of a kind of identity. Reports from the users of an identity also trigger it.
fn controller<K: IdentityObject>(
    wiring: &Wiring,
    kubernetes: &KubernetesClient,
    cache: &ObjectCache<K>,
) -> Controller<IdentityReconciler<K>> {
    let flags = &wiring.flags;
    let scope = flags.process.scope();
    let context = IdentityContext {
        kubernetes: Arc::new(kubernetes.clone()),
        timing: flags.timing(),
        identity_namespace: flags.effective_identity_namespace(),
        reconciles_everything: scope == Scope::default(),
    };
    let settings = ControllerSettings {
        concurrency: flags.awscluster_concurrency,
        // Secrets are not watched.
        backoff: wiring.source_backoff(),
        ..ControllerSettings::default()
    };
    let reconciler = IdentityReconciler::new(context, flags.sync_period.into());
    let of_cluster = |cluster: &AWSCluster| of_kind::<K>(Some(&cluster.spec.effective_identity_ref()));
    let of_machine = |machine: &AWSMachine| of_kind::<K>(machine.identity_ref());
    Controller::new(&wiring.runtime, cache, reconciler, settings)
        .watches(&wiring.caches.aws_clusters, cluster_report, of_cluster)
        .watches(&wiring.caches.aws_machines, machine_report, of_machine)
}

fn of_kind<K: IdentityObject>(reference: Option<&IdentityReference>) -> Option<ObjectRef<K>> {
    let of_kind = reference.filter(|reference| reference.kind == K::KIND);
    of_kind.map(|reference| ObjectRef::new(&reference.name))
}

/// The role identities whose chain contains a changed identity.
fn roles_through<I: IdentityObject>(
    wiring: &Wiring,
    kubernetes: &KubernetesClient,
) -> impl Fn(&I) -> Vec<ObjectRef<AWSClusterRoleIdentity>> + Send + 'static {
    let roles = wiring.caches.role_identities.store().clone();
    let kubernetes = kubernetes.clone();
    move |changed| {
        let changed = identity_reference(changed);
        let find = |reference: &IdentityReference| kubernetes.identity(reference);
        // The list is copied first, because each lookup of a chain reads the same store.
        let mut concerned = roles.state();
        concerned.retain(|role| leads_to(&role.spec.effective_source(), &changed, &find));
        references(&concerned)
    }
}
