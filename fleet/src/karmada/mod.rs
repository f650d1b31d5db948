//! Membership in a Karmada by one label, and a way out that loses nothing.
//!
//! A membership is recorded at the Cluster before anything is written into a Karmada, so that whoever takes over finds it.
//! A member is only changed or deleted while its labels name this Cluster, and its id is the recorded one.

mod bindings;
mod control_plane;
mod credentials;
mod membership;

use std::collections::BTreeMap;
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

use crate::conditions::{ConditionType, Finding, Reason};
use crate::connection::{client, in_words};
use crate::kubeconfig::{self, Access};
use crate::names::{
    ALLOWED_NAMESPACES_ANNOTATION, DRAIN_ANNOTATION, FORCE, KARMADA_LABEL, MEMBERSHIP_ANNOTATION, MEMBERSHIP_FINALIZER,
    UNJOIN_ANNOTATION,
};
use bindings::{Remaining, remaining};
use control_plane::{ControlPlane, Member, spec_field};
use membership::{Leaving, Record, Task, task};

/// Label of a member with the namespace of its Cluster.
const CLUSTER_NAMESPACE_LABEL: &str = "cluster.x-k8s.io/cluster-namespace";
/// Workloads that a message names.
const WORKLOADS_IN_MESSAGE: usize = 5;

/// What flags decide about memberships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KarmadaSettings {
    /// The namespace of the Secrets with kubeconfigs of Karmadas.
    pub namespace: String,
    /// How long the tokens that Karmada gets are to be valid. The API server of a member may grant less.
    pub token_lifetime: Duration,
}

/// Memberships of Clusters. One for all Clusters.
pub(crate) struct Memberships {
    runtime: Runtime,
    settings: KarmadaSettings,
}

/// What is known of a cluster that may be a member.
pub(crate) struct Facts {
    /// `None`: there is no kubeconfig that can be used.
    pub(crate) access: Option<Access>,
    /// `None`: the API server has never been reached.
    pub(crate) id: Option<String>,
    /// Whether the API server has answered in this pass.
    pub(crate) is_reachable: bool,
    pub(crate) provider: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

/// How a pass over a membership ended.
pub(crate) struct Progress {
    pub(crate) cluster: Cluster,
    /// Conditions of the membership; those that are not among them are not true of it any more.
    pub(crate) findings: Vec<Finding>,
    /// Whether the next pass shall come soon.
    pub(crate) is_under_way: bool,
}

/// The reasons for which a pass ends without knowing more.
#[derive(Debug, Error)]
pub(crate) enum MembershipError {
    /// The management cluster did not answer.
    #[error("failed to read Secret {0} with the kubeconfig of a Karmada")]
    Secret(String, #[source] kube::Error),
    /// The record was not written.
    #[error("failed to record the membership of {0}")]
    Record(ObjectName, #[source] kube::Error),
    /// The Cluster has changed meanwhile.
    #[error(transparent)]
    Conflict(#[from] WriteConflict),
}

/// Why a Karmada cannot be used, or what it answered.
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
        let message = format!("the Karmada cannot be used: {}", in_words(&error));
        Self::Found(joined(None, Reason::KarmadaUnreachable, message))
    }
}

impl Memberships {
    pub(crate) fn new(runtime: Runtime, settings: KarmadaSettings) -> Self {
        Self { runtime, settings }
    }

    /// Whether the membership of a Cluster has to be looked at although its control plane is not initialized, or the
    /// Cluster is being deleted.
    pub(crate) fn holds(cluster: &Cluster) -> bool {
        meta::has_finalizer(&cluster.metadata, MEMBERSHIP_FINALIZER)
    }

    /// One pass over the membership of a Cluster.
    pub(crate) async fn reconcile(&self, cluster: Cluster, facts: &Facts) -> Result<Progress, MembershipError> {
        let mut cluster = cluster;
        let ended = match task(&cluster) {
            Task::Nothing if Self::holds(&cluster) => self.forget(&mut cluster).await.map(|()| Vec::new()),
            Task::Nothing => Ok(Vec::new()),
            Task::Join { karmada, member } => self.join(&mut cluster, &karmada, &member, facts).await,
            Task::Keep { record, drain } => self.keep(&cluster, &record, drain, facts).await,
            Task::Leave { record, how } => self.leave(&mut cluster, &record, how, facts).await,
        };
        let findings = match ended {
            Ok(findings) => findings,
            Err(Obstacle::Found(finding)) => vec![finding],
            Err(Obstacle::Failed(error)) => return Err(error),
        };
        let is_settled = |finding: &Finding| {
            finding.is_true == Some(true) || matches!(finding.reason, Reason::NotAllowed | Reason::NameInUse)
        };
        Ok(Progress {
            is_under_way: !findings.iter().all(is_settled),
            cluster,
            findings,
        })
    }

    /// Records the membership and registers the cluster.
    async fn join(
        &self,
        cluster: &mut Cluster,
        karmada: &str,
        member: &str,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        let control_plane = self.open(karmada, Some(cluster)).await?;
        let Some(id) = facts.id.clone() else {
            return Err(Obstacle::Found(waiting()));
        };
        let record = Record {
            karmada: karmada.to_owned(),
            member: member.to_owned(),
            id,
        };
        if let Some(taken) = taken(&control_plane.members().await?, cluster, &record) {
            return Err(Obstacle::Found(taken));
        }
        self.record(cluster, Some(&record)).await?;
        self.keep(cluster, &record, false, facts).await
    }

    /// Brings the member in Karmada to what it shall be.
    async fn keep(
        &self,
        cluster: &Cluster,
        record: &Record,
        is_draining: bool,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        let control_plane = self.open(&record.karmada, Some(cluster)).await?;
        let existing = control_plane.member(&record.member).await?;
        if let Some(taken) = taken(existing.as_slice(), cluster, record) {
            return Err(Obstacle::Found(taken));
        }
        let access = facts.access.as_ref().ok_or_else(|| Obstacle::Found(waiting()))?;
        if facts.is_reachable && facts.id.as_ref() != Some(&record.id) {
            let message = format!(
                "the kubeconfig leads to another cluster than the one that joined: take the label {KARMADA_LABEL} away, \
                 and put it on again"
            );
            return Err(Obstacle::Found(joined(Some(false), Reason::NameInUse, message)));
        }
        // Credentials without a member are those of an earlier membership, which has taken their ServiceAccounts away.
        let renew_at = match &existing {
            Some(_) => control_plane.renew_at(&record.member).await?,
            None => None,
        };
        if renew_at.is_none_or(|renew_at| renew_at <= Timestamp::now()) {
            self.renew_credentials(&control_plane, record, access, facts).await?;
        }
        let member = wanted(cluster, record, access, facts);
        let member = control_plane.write_member(&member, existing).await?;
        control_plane.own_credentials(&member).await?;
        control_plane.set_draining(&member, is_draining).await?;
        let mut findings = vec![readiness(&member)];
        if is_draining {
            let left = remaining(&control_plane.bindings().await?, &record.member);
            findings.push(drained(&left));
        }
        Ok(findings)
    }

    /// Requests tokens, and hands them to Karmada.
    async fn renew_credentials(
        &self,
        control_plane: &ControlPlane,
        record: &Record,
        access: &Access,
        facts: &Facts,
    ) -> Result<(), Obstacle> {
        // With an unreachable API server tokens that have not ended are of no use either.
        if !facts.is_reachable {
            return Err(Obstacle::Found(waiting()));
        }
        let tokens = async {
            let client = client(access).await?;
            credentials::prepare(&client, &record.member).await?;
            credentials::request_tokens(&client, &record.member, self.settings.token_lifetime).await
        };
        let tokens = tokens.await.map_err(|error| {
            let message = format!(
                "the API server of the cluster does not let Karmada in: {}. The user of the kubeconfig needs the role \
                 cluster-admin",
                in_words(&error)
            );
            Obstacle::Found(joined(Some(false), Reason::CredentialsRefused, message))
        })?;
        control_plane
            .write_credentials(&record.member, &access.certificate_authority, &tokens)
            .await?;
        Ok(())
    }

    /// Drains the member unless it leaves at once, and takes it out of Karmada.
    async fn leave(
        &self,
        cluster: &mut Cluster,
        record: &Record,
        how: Leaving,
        facts: &Facts,
    ) -> Result<Vec<Finding>, Obstacle> {
        let control_plane = match self.open(&record.karmada, None).await {
            Ok(control_plane) => control_plane,
            // Karmada keeps a member that nobody can take out of it.
            Err(Obstacle::Found(_)) if is_forced(cluster) => {
                self.record(cluster, None).await?;
                return Ok(Vec::new());
            }
            Err(obstacle) => return Err(obstacle),
        };
        let existing = control_plane.member(&record.member).await?;
        let ours = existing.filter(|member| is_ours(member, cluster, record));
        let Some(member) = ours else {
            self.clean_up(record, facts).await;
            self.record(cluster, None).await?;
            return Ok(Vec::new());
        };
        if how == Leaving::Drained {
            control_plane.set_draining(&member, true).await?;
            let left = remaining(&control_plane.bindings().await?, &record.member);
            if !left.is_empty() {
                return Ok(vec![leaving(&record.member), drained(&left)]);
            }
        }
        if member.metadata.deletion_timestamp.is_none() {
            control_plane.delete(&member).await?;
        }
        Ok(vec![leaving(&record.member)])
    }

    /// Takes Karmada's permissions away in the cluster, if it can be reached: one that cannot is usually gone.
    async fn clean_up(&self, record: &Record, facts: &Facts) {
        let Some(access) = facts.access.as_ref().filter(|_| facts.is_reachable) else {
            return;
        };
        let removed = async { credentials::remove(&client(access).await?, &record.member).await };
        if let Err(error) = removed.await {
            let error = in_words(&error);
            tracing::warn!(
                member = record.member,
                error,
                "permissions of Karmada were left in the cluster"
            );
        }
    }

    /// A client of the Karmada of this Secret, if the Secret lets Clusters of the namespace join.
    async fn open(&self, secret: &str, newcomer: Option<&Cluster>) -> Result<ControlPlane, Obstacle> {
        let secrets: Api<Secret> = Api::namespaced(self.runtime.client.clone(), &self.settings.namespace);
        let full_name = format!("{}/{secret}", self.settings.namespace);
        let found = secrets.get_opt(secret).await;
        let found = found.map_err(|error| MembershipError::Secret(full_name.clone(), error))?;
        let invalid = |why: String| {
            let message = format!("Secret {full_name} with the kubeconfig of the Karmada {why}");
            Obstacle::Found(joined(None, Reason::KarmadaSecretInvalid, message))
        };
        let found = found.ok_or_else(|| invalid("does not exist".to_owned()))?;
        if let Some(cluster) = newcomer
            && !allows(&found, cluster)
        {
            let message = format!(
                "Clusters of namespace {} may not join: an administrator lists it in the annotation \
                 {ALLOWED_NAMESPACES_ANNOTATION} of Secret {full_name}",
                cluster.namespace().unwrap_or_default()
            );
            return Err(Obstacle::Found(joined(Some(false), Reason::NotAllowed, message)));
        }
        let access = kubeconfig::read(&found).map_err(|error| invalid(format!("cannot be used: {error}")))?;
        let client = client(&access).await;
        let client = client.map_err(|error| invalid(format!("cannot be used: {}", in_words(&error))))?;
        Ok(ControlPlane::new(client))
    }

    async fn forget(&self, cluster: &mut Cluster) -> Result<(), Obstacle> {
        Ok(self.record(cluster, None).await?)
    }

    /// Writes the record and the finalizer of a membership, or takes both away.
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
        let clusters: Api<Cluster> = Api::namespaced(
            self.runtime.client.clone(),
            cluster.metadata.namespace.as_deref().unwrap_or_default(),
        );
        let patched = clusters
            .patch(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
            .await;
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

/// Whether the Secret of a Karmada lets the Clusters of a namespace join. A label alone must not: Karmada hands its
/// members workloads, with their Secrets.
fn allows(secret: &Secret, cluster: &Cluster) -> bool {
    let listed = meta::annotation(&secret.metadata, ALLOWED_NAMESPACES_ANNOTATION).unwrap_or_default();
    let namespace = cluster.namespace().unwrap_or_default();
    let mut listed = listed.split(',').map(str::trim);
    listed.any(|entry| entry == "*" || (entry == namespace && !namespace.is_empty()))
}

fn is_forced(cluster: &Cluster) -> bool {
    meta::annotation(&cluster.metadata, UNJOIN_ANNOTATION) == Some(FORCE)
}

/// The labels by which a member is recognised.
fn identity(cluster: &Cluster) -> [(&'static str, String); 2] {
    [
        (meta::CLUSTER_NAME_LABEL, cluster.name_any()),
        (CLUSTER_NAMESPACE_LABEL, cluster.namespace().unwrap_or_default()),
    ]
}

fn is_ours(member: &DynamicObject, cluster: &Cluster, record: &Record) -> bool {
    let labels = member.labels();
    let identity = identity(cluster);
    let mut identity = identity.iter();
    identity.all(|(key, value)| labels.get(*key) == Some(value)) && has_id(member, record)
}

fn has_id(member: &DynamicObject, record: &Record) -> bool {
    spec_field(member, "id").is_some_and(|id| *id == record.id)
}

/// Why the cluster cannot have this name among these members.
fn taken(members: &[DynamicObject], cluster: &Cluster, record: &Record) -> Option<Finding> {
    let others = members.iter().filter(|member| !is_ours(member, cluster, record));
    for member in others {
        let message = if member.name_any() == record.member {
            format!(
                "the Karmada has a member {} that is not this cluster: choose another name by the annotation {}",
                record.member,
                crate::names::MEMBER_NAME_ANNOTATION
            )
        } else if has_id(member, record) {
            format!(
                "this cluster is a member of the Karmada already, as {}",
                member.name_any()
            )
        } else {
            continue;
        };
        return Some(joined(Some(false), Reason::NameInUse, message));
    }
    None
}

fn wanted(cluster: &Cluster, record: &Record, access: &Access, facts: &Facts) -> Member {
    let mut labels = facts.labels.clone();
    labels.extend(identity(cluster).map(|(key, value)| (key.to_owned(), value)));
    Member {
        name: record.member.clone(),
        endpoint: access.server.clone(),
        id: record.id.clone(),
        provider: facts.provider.clone(),
        region: facts.region.clone(),
        zones: facts.zones.clone(),
        labels,
    }
}

fn joined(is_true: Option<bool>, reason: Reason, message: String) -> Finding {
    Finding {
        condition: ConditionType::Joined,
        is_true,
        reason,
        message,
    }
}

fn waiting() -> Finding {
    let message = "the API server of the cluster has to be reached first: see ControlPlaneHealthy".to_owned();
    joined(Some(false), Reason::WaitingForControlPlane, message)
}

fn leaving(member: &str) -> Finding {
    let message = format!("member {member} leaves the Karmada");
    joined(Some(false), Reason::Leaving, message)
}

/// `Joined`, by what Karmada says of the member.
fn readiness(member: &DynamicObject) -> Finding {
    let conditions = member
        .data
        .pointer("/status/conditions")
        .and_then(serde_json::Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let name = member.name_any();
    match ready {
        Some(ready) if ready["status"] == "True" => joined(Some(true), Reason::Joined, format!("as member {name}")),
        Some(ready) => {
            let reason = ready["reason"].as_str().unwrap_or("no reason");
            let message = format!("Karmada says that member {name} is not ready: {reason}");
            joined(Some(false), Reason::Joining, message)
        }
        None => {
            let message = format!("Karmada has not looked at member {name} yet");
            joined(Some(false), Reason::Joining, message)
        }
    }
}

fn drained(left: &Remaining) -> Finding {
    let (is_true, reason, message) = if left.is_empty() {
        (true, Reason::Drained, String::new())
    } else if left.blocked.is_empty() {
        let message = format!(
            "{} move to other members. If nothing moves, Karmada's controller manager lacks \
             --feature-gates=Failover=true and --enable-no-execute-taint-eviction=true",
            listed(&left.moving)
        );
        (false, Reason::Draining, message)
    } else {
        let message = format!(
            "no other member takes {}. Add one that fits, change the policy, or take the annotation {DRAIN_ANNOTATION} \
             away",
            listed(&left.blocked)
        );
        (false, Reason::DrainBlocked, message)
    };
    Finding {
        condition: ConditionType::Drained,
        is_true: Some(is_true),
        reason,
        message,
    }
}

fn listed(workloads: &[String]) -> String {
    let named: Vec<&str> = workloads
        .iter()
        .take(WORKLOADS_IN_MESSAGE)
        .map(String::as_str)
        .collect();
    match workloads.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
