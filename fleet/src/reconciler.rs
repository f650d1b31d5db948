//! One pass over a Cluster: reads the cluster, and writes its ClusterProfile.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::contract::Cluster;
use capa_api::meta;
use capa_runtime::Runtime;
use capa_runtime::reconcile::{EventDraft, Next, Outcome, ReconcileError, Reconciler};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use thiserror::Error;

use crate::cluster_profile::{ClusterProfile, ClusterProfileStatus};
use crate::conditions::{Finding, Reason};
use crate::infrastructure::InfrastructureReader;
pub use crate::karmada::KarmadaSettings;
use crate::karmada::{MembershipError, Memberships, Progress};
use crate::kubeconfig::{self, Access, secret_name};
use crate::member::{self, Observation};
pub use crate::profile::Publishing;
use crate::profile::{self, Read};

/// Reason of the event about a ClusterProfile that another manager writes.
const PROFILE_TAKEN: &str = "ClusterProfileTaken";
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Maximum time between two passes while a membership is changing.
const SOON: Duration = Duration::from_secs(5);

/// Publishes Clusters as ClusterProfiles, and lets them join Karmadas.
pub struct ClusterReconciler {
    client: Client,
    infrastructure: InfrastructureReader,
    memberships: Memberships,
    publishing: Publishing,
    period: Duration,
}

/// The reasons why a pass ends without an outcome.
#[derive(Debug, Error)]
enum FleetError {
    #[error("failed to read Secret {0}")]
    Secret(String, #[source] kube::Error),
    #[error("failed to read ClusterProfile {0}")]
    Read(String, #[source] kube::Error),
    #[error("failed to write ClusterProfile {0}")]
    Write(String, #[source] kube::Error),
    #[error(transparent)]
    Membership(#[from] MembershipError),
}

/// The ClusterProfile of a Cluster in one pass.
enum Page {
    Stored(Box<ClusterProfile>),
    /// Another client has changed the ClusterProfile in the meantime.
    Changed,
    /// No ClusterProfile can be stored. The findings of the pass become events of the Cluster.
    NotStored {
        why: &'static str,
        event: Option<EventDraft>,
    },
}

impl ClusterReconciler {
    /// A reconciler that checks each Cluster once per `period`, and after each change.
    pub fn new(runtime: Runtime, publishing: Publishing, karmada: KarmadaSettings, period: Duration) -> Self {
        let client = runtime.client.clone();
        Self {
            infrastructure: InfrastructureReader::new(client.clone()),
            memberships: Memberships::new(runtime, karmada),
            client,
            publishing,
            period,
        }
    }

    fn profiles(&self, cluster: &Cluster) -> Api<ClusterProfile> {
        Api::namespaced(self.client.clone(), cluster.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// The kubeconfig of a Cluster, or the reason why there is no usable one.
    async fn kubeconfig(&self, cluster: &Cluster) -> Result<Result<Access, Finding>, FleetError> {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let name = secret_name(&cluster.name_any());
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = secrets.get_opt(&name).await;
        let secret = secret.map_err(|error| FleetError::Secret(format!("{namespace}/{name}"), error))?;
        let Some(secret) = secret else {
            let message =
                format!("Secret {name} does not exist: Cluster API or whoever runs the control plane writes it");
            return Ok(Err(member::health(None, Reason::KubeconfigMissing, message)));
        };
        Ok(kubeconfig::read(&secret).map_err(|error| {
            let message = format!("Secret {name} cannot be used: {error}");
            member::health(None, Reason::KubeconfigInvalid, message)
        }))
    }

    async fn read(&self, cluster: &Cluster, kubeconfig: Result<Access, Finding>) -> Read {
        let infrastructure = self.infrastructure.read(cluster).await;
        let (access, observation) = match kubeconfig {
            Ok(access) => {
                let observation = member::observe(&access).await;
                (Some(access), observation)
            }
            Err(finding) => (None, Observation::only(finding)),
        };
        Read { access, observation, infrastructure }
    }

    /// Brings metadata and spec of the ClusterProfile to their desired state. A Cluster that is being deleted gets no
    /// new ClusterProfile.
    async fn write_profile(&self, cluster: &Cluster, existing: Option<ClusterProfile>) -> Result<Page, FleetError> {
        let (profiles, parameters) = (self.profiles(cluster), PostParams::default());
        let is_deleted = cluster.metadata.deletion_timestamp.is_some();
        let answer = match existing {
            Some(existing) if !self.is_ours(&existing) => {
                let why = "the ClusterProfile belongs to another cluster manager";
                let event = Some(taken(&existing));
                return Ok(Page::NotStored { why, event });
            }
            Some(existing) if is_deleted => return Ok(Page::Stored(Box::new(existing))),
            Some(existing) => match self.publishing.updated(&existing, cluster) {
                None => return Ok(Page::Stored(Box::new(existing))),
                Some(updated) => profiles.replace(&updated.name_any(), &parameters, &updated).await,
            },
            None if is_deleted => {
                let why = "the ClusterProfile is deleted already";
                return Ok(Page::NotStored { why, event: None });
            }
            None => profiles.create(&parameters, &self.publishing.profile(cluster)).await,
        };
        page(cluster, answer)
    }

    async fn write_status(
        &self,
        cluster: &Cluster,
        profile: ClusterProfile,
        status: ClusterProfileStatus,
    ) -> Result<Page, FleetError> {
        if profile.status.as_ref() == Some(&status) {
            return Ok(Page::Stored(Box::new(profile)));
        }
        let updated = ClusterProfile { status: Some(status), ..profile };
        let profiles = self.profiles(cluster);
        let (name, parameters) = (updated.name_any(), PostParams::default());
        page(cluster, profiles.replace_status(&name, &parameters, &updated).await)
    }

    /// One pass over the Cluster and its membership.
    async fn publish(&self, cluster: Cluster) -> Result<Outcome<Cluster>, FleetError> {
        let later = |cluster| Outcome::done(cluster).with_next(Next::Requeue(self.period));
        let kubeconfig = self.kubeconfig(&cluster).await?;
        let existing = self.profile(&cluster).await?;
        let is_missing = matches!(&kubeconfig, Err(finding) if finding.reason == Reason::KubeconfigMissing);
        if is_missing && existing.is_none() && !Memberships::holds(&cluster) {
            return Ok(later(cluster).because("there is no kubeconfig yet"));
        }
        match self.write_profile(&cluster, existing).await? {
            Page::Changed => Ok(Outcome::done(cluster).with_next(Next::Retry)),
            Page::NotStored { why, event } if !Memberships::concern(&cluster) => {
                Ok(later(cluster).with_events(event).because(why))
            }
            Page::NotStored { event, .. } => {
                let profile = self.publishing.profile(&cluster);
                let read = self.read(&cluster, kubeconfig).await;
                let (progress, _) = self.advance(cluster, &profile, read).await?;
                let findings: Vec<_> = progress.findings.iter().filter_map(Finding::event).collect();
                Ok(self.outcome(progress).with_events(event).with_events(findings))
            }
            Page::Stored(profile) => {
                let read = self.read(&cluster, kubeconfig).await;
                let (progress, status) = self.advance(cluster, &profile, read).await?;
                match self.write_status(&progress.cluster, *profile, status).await? {
                    Page::Stored(_) => Ok(self.outcome(progress)),
                    _ => Ok(Outcome::done(progress.cluster).with_next(Next::Retry)),
                }
            }
        }
    }

    /// Runs the pass over the membership of the Cluster, and computes the status of the ClusterProfile.
    async fn advance(
        &self,
        cluster: Cluster,
        profile: &ClusterProfile,
        read: Read,
    ) -> Result<(Progress, ClusterProfileStatus), FleetError> {
        let now = Timestamp::now();
        let mut status = profile::status(profile, &cluster, &read, now);
        let facts = profile::facts(read, &status, self.publishing.copied_labels(&cluster));
        let progress = self.memberships.reconcile(cluster, &facts).await?;
        profile::set_membership(&mut status, &progress.findings, profile.metadata.generation, now);
        Ok((progress, status))
    }

    fn outcome(&self, progress: Progress) -> Outcome<Cluster> {
        let next = if progress.is_under_way { self.period.min(SOON) } else { self.period };
        Outcome::done(progress.cluster).with_next(Next::Requeue(next))
    }

    async fn profile(&self, cluster: &Cluster) -> Result<Option<ClusterProfile>, FleetError> {
        let existing = self.profiles(cluster).get_opt(&cluster.name_any()).await;
        existing.map_err(|error| FleetError::Read(full_name(cluster), error))
    }

    fn is_ours(&self, profile: &ClusterProfile) -> bool {
        profile.spec.cluster_manager.name == self.publishing.cluster_manager
    }
}

#[async_trait]
impl Reconciler for ClusterReconciler {
    type Kind = Cluster;

    fn name() -> &'static str {
        "clusterprofile"
    }

    /// Labels of Clusters are the tenants', so that only the namespace limits a tenant.
    fn groups(&self, cluster: &Cluster) -> Vec<String> {
        vec![group(cluster)]
    }

    async fn reconcile(&self, cluster: Cluster) -> Result<Outcome<Cluster>, ReconcileError> {
        if cluster.is_paused() || meta::is_paused(&cluster.metadata) {
            return Ok(Outcome::done(cluster).because("the Cluster is paused"));
        }
        let is_held = Memberships::holds(&cluster);
        if cluster.metadata.deletion_timestamp.is_some() {
            if !is_held {
                return Ok(Outcome::done(cluster).because("the garbage collector deletes the ClusterProfile"));
            }
        } else if !cluster.control_plane_initialized() && !is_held {
            return Ok(Outcome::done(cluster).because("the control plane is not initialized"));
        }
        Ok(self.publish(cluster).await?)
    }
}

/// The group of the Clusters that share workers.
fn group(cluster: &Cluster) -> String {
    format!("namespace {}", cluster.namespace().unwrap_or_default())
}

/// The predicate for the parts of a Cluster's status that are published.
pub fn published_status(cluster: &Cluster) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    cluster.control_plane_initialized().hash(&mut hasher);
    cluster.failure_domain_names().hash(&mut hasher);
    Some(hasher.finish())
}

fn page(cluster: &Cluster, answer: kube::Result<ClusterProfile>) -> Result<Page, FleetError> {
    match answer {
        Ok(profile) => Ok(Page::Stored(Box::new(profile))),
        Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(Page::Changed),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {
            Ok(Page::NotStored { why: "the kind ClusterProfile is not installed", event: None })
        }
        Err(error) => Err(FleetError::Write(full_name(cluster), error)),
    }
}

fn taken(profile: &ClusterProfile) -> EventDraft {
    let message = format!(
        "ClusterProfile {} belongs to the cluster manager {:?}: it is left as it is. Delete it, or give this process \
         the same --cluster-manager-name",
        profile.name_any(),
        profile.spec.cluster_manager.name
    );
    EventDraft::warning(PROFILE_TAKEN, message)
}

fn full_name(cluster: &Cluster) -> String {
    format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any())
}

#[cfg(test)]
mod tests {
    use capa_api::contract::ClusterSpec;

    use super::*;

    #[test]
    fn clusters_of_a_namespace_are_one_group_whatever_their_labels() {
        let cluster = |namespace: &str, label: &str| {
            let mut cluster = Cluster::new("c", ClusterSpec::default());
            cluster.metadata.namespace = Some(namespace.to_owned());
            cluster.labels_mut().insert(meta::CLUSTER_NAME_LABEL.to_owned(), label.to_owned());
            group(&cluster)
        };
        assert_eq!(cluster("team-a", "one"), cluster("team-a", "two"));
        assert_ne!(cluster("team-a", "one"), cluster("team-b", "one"));
    }
}
