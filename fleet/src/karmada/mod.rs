//! Joins Clusters to a Karmada by one label, and lets them leave without losing workloads.
//!
//! A membership is recorded in the Cluster before anything is written into a Karmada, so that another process can
//! continue. A member is changed or deleted only while its labels name this Cluster and its id is the recorded one.

mod bindings;
mod control_plane;
mod credentials;
mod findings;
mod identity;
mod membership;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use capa_api::contract::Cluster;
use capa_api::meta;
use capa_runtime::Runtime;
use capa_runtime::kinds::ObjectName;
use capa_runtime::reconcile::WriteConflict;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use thiserror::Error;
use tokio::sync::Mutex;

use crate::conditions::{Finding, Reason};
use crate::connection::{client, is_conflict, public_text};
use crate::kubeconfig::{self, Access};
use crate::names::{
    ALLOWED_NAMESPACES_ANNOTATION, FORCE, MEMBERSHIP_ANNOTATION, MEMBERSHIP_FINALIZER, UNJOIN_ANNOTATION,
};
use control_plane::{ControlPlane, Member, spec_field};
use findings::{
    another_cluster, drained, joined, leaving, misnamed, name_in_use, permissions_left, readiness, waiting,
};
use identity::{identity, is_ours, taken};
use membership::{Leaving, Record, Task, task};

/// The settings for memberships that come from flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KarmadaSettings {
    /// The namespace of the Secrets with kubeconfigs of Karmadas.
    pub namespace: String,
    /// Requested lifetime of the tokens for Karmada. The API server of a member may grant a shorter one.
    pub token_lifetime: Duration,
}

/// The memberships of Clusters. One value serves all Clusters.
pub(crate) struct Memberships {
    runtime: Runtime,
    settings: KarmadaSettings,
    /// The locks that are held while a Cluster is being registered, by the URL of the Karmada.
    registering: parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// Facts about a cluster that may be a member.
pub(crate) struct Facts {
    /// `None` if there is no usable kubeconfig.
    pub(crate) access: Option<Access>,
    /// `None` if the API server has never been reached.
    pub(crate) id: Option<String>,
    /// Whether the API server has answered in this pass.
    pub(crate) is_reachable: bool,
    pub(crate) provider: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Facts {
    /// The kubeconfig, if the API server has answered in this pass.
    fn reachable(&self) -> Option<&Access> {
        self.access.as_ref().filter(|_| self.is_reachable)
    }
}

/// The result of a pass over a membership.
pub(crate) struct Progress {
    pub(crate) cluster: Cluster,
    /// Conditions of the membership. Conditions that are not in this list no longer apply.
    pub(crate) findings: Vec<Finding>,
    /// Whether the next pass has to run soon.
    pub(crate) is_under_way: bool,
}

/// The reasons why a pass ends without a result.
#[derive(Debug, Error)]
pub(crate) enum MembershipError {
    /// The management cluster did not answer.
    #[error("failed to read Secret {0} with the kubeconfig of a Karmada")]
    Secret(String, #[source] kube::Error),
    /// The record was not written.
    #[error("failed to record the membership of {0}")]
    Record(ObjectName, #[source] kube::Error),
    /// The member in Karmada has changed in the meantime.
    #[error("the member in the Karmada has changed since it was read")]
    MemberChanged,
    /// The Cluster has changed in the meantime.
    #[error(transparent)]
    Conflict(#[from] WriteConflict),
}

/// A finding that stops the pass, or the error of a request.
enum Obstacle {
    Found(Finding),
    Failed(MembershipError),
}

impl From<MembershipError> for Obstacle {
    fn from(error: MembershipError) -> Self {
        Self::Failed(error)
    }
}

/// An error of a Karmada.
impl From<kube::Error> for Obstacle {
    fn from(error: kube::Error) -> Self {
        if is_conflict(&error) {
            return Self::Failed(MembershipError::MemberChanged);
        }
        let message = format!("the Karmada cannot be used: {}", public_text(&error));
        Self::Found(joined(None, Reason::KarmadaUnreachable, message))
    }
}

impl Memberships {
    pub(crate) fn new(runtime: Runtime, settings: KarmadaSettings) -> Self {
        Self { runtime, settings, registering: parking_lot::Mutex::default() }
    }

    /// Whether the Cluster has the finalizer of a membership. The membership of such a Cluster is reconciled even if
    /// its control plane is not initialized or the Cluster is being deleted.
    pub(crate) fn holds(cluster: &Cluster) -> bool {
        meta::has_finalizer(&cluster.metadata, MEMBERSHIP_FINALIZER)
    }

    /// Whether there is something to do about the membership of a Cluster.
    pub(crate) fn concern(cluster: &Cluster) -> bool {
        Self::holds(cluster) || task(cluster) != Task::Nothing
    }

    /// One pass over the membership of a Cluster.
    pub(crate) async fn reconcile(&self, cluster: Cluster, facts: &Facts) -> Result<Progress, MembershipError> {
        let mut cluster = cluster;
        let findings = match self.advance(&mut cluster, facts).await {
            Ok(findings) => findings,
            Err(Obstacle::Found(finding)) => vec![finding],
            Err(Obstacle::Failed(error)) => return Err(error),
        };
        // A blocked drain waits for a person.
        let is_blocked = findings.iter().any(|finding| finding.reason == Reason::DrainBlocked);
        let mut reasons = findings.iter().map(|finding| finding.reason);
        Ok(Progress {
            is_under_way: !is_blocked && reasons.any(|reason| reason.is_under_way(facts.is_reachable)),
            cluster,
            findings,
        })
    }

    async fn advance(&self, cluster: &mut Cluster, facts: &Facts) -> Result<Vec<Finding>, Obstacle> {
        match task(cluster) {
            Task::Nothing => {
                if Self::holds(cluster) {
                    self.record(cluster, None).await?;
                }
                Ok(Vec::new())
            }
            Task::Rename { chosen } => Err(Obstacle::Found(misnamed(&chosen))),
            Task::Join { karmada, member } => self.join(cluster, karmada, member, facts).await,
            Task::Keep { record, drain } => {
                // Somebody may have removed the finalizer. Without it, a deletion of the Cluster would leave the member
                // in Karmada.
                if !Self::holds(cluster) {
                    self.record(cluster, Some(&record)).await?;
                }
                let karmada = self.open(&record.karmada).await?;
                self.keep(&karmada, cluster, &record, drain, facts).await
            }
            Task::Leave { record, how } => self.leave(cluster, &record, how, facts).await,
        }
    }

    /// Registers the cluster for the first time.
    async fn join(
        &self,
        cluster: &mut Cluster,
        secret: String,
        member: String,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        let karmada = self.open(&secret).await?;
        let (Some(id), true) = (facts.id.clone(), facts.is_reachable) else {
            // A Cluster that may not join gets this answer without waiting for its API server.
            self.admit(&karmada, &secret, cluster)?;
            return Err(Obstacle::Found(waiting()));
        };
        let record = Record { karmada: secret, member, id };
        self.register(&karmada, cluster, &record, facts).await?;
        self.keep(&karmada, cluster, &record, false, facts).await
    }

    /// Records the membership and writes the member. Only one Cluster does so at a time, so that two Clusters cannot
    /// take the same name, and no Cluster becomes a member twice.
    async fn register(
        &self,
        karmada: &Karmada,
        cluster: &mut Cluster,
        record: &Record,
        facts: &Facts,
    ) -> Result<DynamicObject, Obstacle> {
        self.admit(karmada, &record.karmada, cluster)?;
        if !facts.is_reachable {
            return Err(Obstacle::Found(waiting()));
        }
        if facts.id.as_ref() != Some(&record.id) {
            return Err(Obstacle::Found(another_cluster()));
        }
        let lock = self.lock_of(&karmada.server);
        let _turn = lock.lock().await;
        if let Some(taken) = taken(&karmada.control_plane.members().await?, cluster, record) {
            return Err(Obstacle::Found(taken));
        }
        self.record(cluster, Some(record)).await?;
        let member = wanted(cluster, record, None, facts);
        Ok(karmada.control_plane.write_member(&member).await?)
    }

    /// The lock of a Karmada. While one Karmada does not answer, Clusters join others.
    fn lock_of(&self, server: &str) -> Arc<Mutex<()>> {
        let mut locks = self.registering.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(server.to_owned()).or_default().clone()
    }

    /// Brings the member in Karmada to its desired state.
    async fn keep(
        &self,
        karmada: &Karmada,
        cluster: &mut Cluster,
        record: &Record,
        is_draining: bool,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        let control_plane = &karmada.control_plane;
        let member = match control_plane.member(&record.member).await? {
            None => self.register(karmada, cluster, record, facts).await?,
            Some(member) if is_ours(&member, cluster, record) => member,
            Some(member) => return Err(Obstacle::Found(name_in_use(&member))),
        };
        control_plane.set_draining(&member, is_draining).await?;
        let mut findings = match self.refresh(control_plane, cluster, record, &member, facts).await {
            Ok(member) => vec![readiness(&member)],
            Err(Obstacle::Found(finding)) => vec![finding],
            Err(failed) => return Err(failed),
        };
        if is_draining {
            findings.push(drained(&control_plane.remaining(&record.member).await?));
        }
        Ok(findings)
    }

    /// Writes changes of the member, and new tokens if they are due.
    async fn refresh(
        &self,
        control_plane: &ControlPlane,
        cluster: &Cluster,
        record: &Record,
        member: &DynamicObject,
        facts: &Facts,
    ) -> Result<DynamicObject, Obstacle> {
        let access = facts.reachable();
        if access.is_some() && facts.id.as_ref() != Some(&record.id) {
            return Err(Obstacle::Found(another_cluster()));
        }
        let member = wanted(cluster, record, Some(member), facts);
        let member = control_plane.write_member(&member).await?;
        if let Some(access) = access {
            let renew_at = control_plane.renew_at(&member, &access.certificate_authority).await?;
            if renew_at.is_none_or(|renew_at| renew_at <= Timestamp::now()) {
                self.renew_credentials(control_plane, &member, access).await?;
            }
        }
        Ok(member)
    }

    /// Requests tokens, and stores them in Karmada.
    async fn renew_credentials(
        &self,
        control_plane: &ControlPlane,
        member: &DynamicObject,
        access: &Access,
    ) -> Result<(), Obstacle> {
        let tokens = async {
            let client = client(access).await?;
            credentials::prepare(&client, &member.name_any()).await?;
            credentials::request_tokens(&client, &member.name_any(), self.settings.token_lifetime).await
        };
        let tokens = tokens.await.map_err(|error| {
            let message = format!(
                "the API server of the cluster does not let Karmada in: {}. The user of the kubeconfig needs the role \
                 cluster-admin",
                public_text(&error)
            );
            Obstacle::Found(joined(Some(false), Reason::CredentialsRefused, message))
        })?;
        control_plane.write_credentials(member, &access.certificate_authority, &tokens).await?;
        Ok(())
    }

    /// Drains the member unless it leaves immediately, and deletes it from Karmada.
    async fn leave(
        &self,
        cluster: &mut Cluster,
        record: &Record,
        how: Leaving,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        let control_plane = match self.open(&record.karmada).await {
            Ok(karmada) => karmada.control_plane,
            // The member stays in a Karmada that cannot be used.
            Err(Obstacle::Found(_)) if is_forced(cluster) => return self.end(cluster, record, how, facts).await,
            Err(obstacle) => return Err(obstacle),
        };
        let member = match control_plane.member(&record.member).await? {
            None => return self.end(cluster, record, how, facts).await,
            Some(member) if is_ours(&member, cluster, record) => member,
            // The member belongs to somebody else, who may use the permissions in the cluster.
            Some(_) => {
                self.record(cluster, None).await?;
                return Ok(Vec::new());
            }
        };
        if how == Leaving::Drained {
            control_plane.set_draining(&member, true).await?;
            let left = control_plane.remaining(&record.member).await?;
            if !left.is_empty() {
                return Ok(vec![leaving(&record.member), drained(&left)]);
            }
        }
        if member.metadata.deletion_timestamp.is_none() {
            control_plane.delete(&member).await?;
        }
        Ok(vec![leaving(&record.member)])
    }

    /// Removes Karmada's permissions in the cluster, and the record. The permissions are left in a cluster that cannot
    /// be reached, because it is usually gone. A kubeconfig that leads to another cluster by now does not reach it.
    async fn end(
        &self,
        cluster: &mut Cluster,
        record: &Record,
        how: Leaving,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        if let Some(access) = facts.reachable().filter(|_| facts.id.as_ref() == Some(&record.id)) {
            let removed = async { credentials::remove(&client(access).await?, &record.member).await };
            match removed.await {
                Err(error) if how == Leaving::Drained => {
                    return Err(Obstacle::Found(permissions_left(&public_text(&error))));
                }
                Err(error) => {
                    let (member, error) = (record.member.as_str(), public_text(&error));
                    tracing::warn!(member, error, "permissions of Karmada were left in the cluster");
                }
                Ok(()) => {}
            }
        } else if facts.reachable().is_some() {
            let member = record.member.as_str();
            tracing::warn!(member, "permissions of Karmada were left: the kubeconfig leads to another cluster");
        }
        self.record(cluster, None).await?;
        Ok(Vec::new())
    }

    /// The Karmada of the kubeconfig in this Secret.
    async fn open(&self, secret: &str) -> Result<Karmada, Obstacle> {
        let secrets: Api<Secret> = Api::namespaced(self.runtime.client.clone(), &self.settings.namespace);
        let full_name = self.full_name(secret);
        let found = secrets.get_opt(secret).await;
        let found = found.map_err(|error| MembershipError::Secret(full_name.clone(), error))?;
        let invalid = |why: String| {
            let message = format!("Secret {full_name} with the kubeconfig of the Karmada {why}");
            Obstacle::Found(joined(None, Reason::KarmadaSecretInvalid, message))
        };
        let found = found.ok_or_else(|| invalid("does not exist".to_owned()))?;
        let access = kubeconfig::read(&found).map_err(|error| invalid(format!("cannot be used: {error}")))?;
        let client = client(&access).await;
        let client = client.map_err(|error| invalid(format!("cannot be used: {}", public_text(&error))))?;
        let listed = meta::annotation(&found.metadata, ALLOWED_NAMESPACES_ANNOTATION);
        Ok(Karmada {
            server: access.server,
            control_plane: ControlPlane::new(client),
            allowed_namespaces: listed.unwrap_or_default().to_owned(),
        })
    }

    /// Whether the Secret of the Karmada lets the Clusters of the namespace join.
    fn admit(&self, karmada: &Karmada, secret: &str, cluster: &Cluster) -> Result<(), Obstacle> {
        if karmada.allows(cluster) {
            return Ok(());
        }
        let message = format!(
            "Clusters of namespace {} may not join: an administrator lists it in the annotation \
             {ALLOWED_NAMESPACES_ANNOTATION} of Secret {}",
            cluster.namespace().unwrap_or_default(),
            self.full_name(secret)
        );
        Err(Obstacle::Found(joined(Some(false), Reason::NotAllowed, message)))
    }

    fn full_name(&self, secret: &str) -> String {
        format!("{}/{secret}", self.settings.namespace)
    }

    /// Writes the record and the finalizer of a membership, or removes both.
    async fn record(&self, cluster: &mut Cluster, record: Option<&Record>) -> Result<(), MembershipError> {
        let mut finalizers = cluster.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != MEMBERSHIP_FINALIZER);
        if record.is_some() {
            finalizers.push(MEMBERSHIP_FINALIZER.to_owned());
        }
        let text = record.map(|record| json!(record).to_string());
        let patch = json!({"metadata": {
            "resourceVersion": cluster.resource_version(),
            "finalizers": finalizers,
            "annotations": {MEMBERSHIP_ANNOTATION: text},
        }});
        let clusters: Api<Cluster> =
            Api::namespaced(self.runtime.client.clone(), cluster.metadata.namespace.as_deref().unwrap_or_default());
        let patched = clusters.patch(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await;
        match patched {
            Ok(written) => {
                self.runtime.writes.written(&written);
                *cluster = written;
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                self.runtime.writes.conflicted(cluster);
                Err(WriteConflict(ObjectName::of(cluster)).into())
            }
            Err(error) => Err(MembershipError::Record(ObjectName::of(cluster), error)),
        }
    }
}

/// A Karmada, and the namespaces whose Clusters may join it.
struct Karmada {
    /// URL of its API server.
    server: String,
    control_plane: ControlPlane,
    /// The annotation of the Karmada's Secret.
    allowed_namespaces: String,
}

impl Karmada {
    /// Whether Clusters of the namespace may join. A label on the Cluster must not suffice, because Karmada sends
    /// workloads and their Secrets to its members.
    fn allows(&self, cluster: &Cluster) -> bool {
        let namespace = cluster.namespace().unwrap_or_default();
        let mut listed = self.allowed_namespaces.split(',').map(str::trim);
        listed.any(|entry| entry == "*" || (entry == namespace && !namespace.is_empty()))
    }
}

fn is_forced(cluster: &Cluster) -> bool {
    meta::annotation(&cluster.metadata, UNJOIN_ANNOTATION) == Some(FORCE)
}

/// The desired state of the member. Values that could not be read are taken from `existing`. The address of an API
/// server that does not answer is not used.
fn wanted(cluster: &Cluster, record: &Record, existing: Option<&DynamicObject>, facts: &Facts) -> Member {
    let uid = existing.and_then(|member| member.metadata.uid.clone());
    let existing = |field: &str| Some(spec_field(existing?, field)?.as_str()?.to_owned());
    let access = facts.reachable();
    let endpoint = access.map(|access| access.server.clone());
    let mut labels = facts.labels.clone();
    labels.extend(identity(cluster).map(|(key, value)| (key.to_owned(), value)));
    Member {
        name: record.member.clone(),
        endpoint: endpoint.or_else(|| existing("apiEndpoint")).unwrap_or_default(),
        id: record.id.clone(),
        provider: facts.provider.clone().or_else(|| existing("provider")),
        region: facts.region.clone().or_else(|| existing("region")),
        zones: facts.zones.clone(),
        labels,
        uid,
    }
}
