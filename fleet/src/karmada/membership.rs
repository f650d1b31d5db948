//! The membership of a Cluster in a Karmada: the task that follows from the user's labels and annotations and from the
//! record. Pure.

use capa_api::contract::Cluster;
use capa_api::meta;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::names::{
    DRAIN_ANNOTATION, FORCE, KARMADA_LABEL, MEMBER_NAME_ANNOTATION, MEMBERSHIP_ANNOTATION, UNJOIN_ANNOTATION,
};

/// Maximum length of a member's name. Source: Karmada's validation.
const MAX_NAME: usize = 48;
/// Number of digits of the hash at the end of a shortened name.
const HASH_DIGITS: usize = 6;

/// The record in the annotation [`MEMBERSHIP_ANNOTATION`] of the Cluster, which is written before anything in a
/// Karmada.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Record {
    /// Name of the Secret with the kubeconfig of the Karmada.
    pub(crate) karmada: String,
    /// Name of the member in the Karmada.
    pub(crate) member: String,
    /// The UID of the cluster's namespace `kube-system`. A member with the same name and another id belongs to somebody
    /// else.
    pub(crate) id: String,
}

/// The next task of the membership of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The Cluster is not a member, and need not become one.
    Nothing,
    /// The Cluster has to become a member with this name in the Karmada of this Secret.
    Join { karmada: String, member: String },
    /// The Cluster has to become a member, but the chosen name is not valid.
    Rename { chosen: String },
    /// The Cluster is a member, or is becoming one.
    Keep { record: Record, drain: bool },
    /// The Cluster has to leave its Karmada.
    Leave { record: Record, how: Leaving },
}

/// How a Cluster leaves its Karmada.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Its workloads move to other members first.
    Drained,
    /// Immediately, because the user demands it.
    Forced,
    /// Immediately, because the Cluster is being deleted.
    Deleted,
}

/// The next task of the membership of a Cluster.
pub(crate) fn task(cluster: &Cluster) -> Task {
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    let wanted = cluster.labels().get(KARMADA_LABEL).filter(|name| !is_deleted && !name.is_empty());
    match (record(cluster), wanted) {
        (None, None) => Task::Nothing,
        (None, Some(karmada)) => match member_name(cluster) {
            Ok(member) => Task::Join { karmada: karmada.clone(), member },
            Err(chosen) => Task::Rename { chosen },
        },
        (Some(record), Some(karmada)) if record.karmada == *karmada => {
            Task::Keep { record, drain: meta::has_annotation(&cluster.metadata, DRAIN_ANNOTATION) }
        }
        (Some(record), _) => Task::Leave { record, how: leaving(cluster, is_deleted) },
    }
}

fn leaving(cluster: &Cluster, is_deleted: bool) -> Leaving {
    if is_deleted {
        Leaving::Deleted
    } else if meta::annotation(&cluster.metadata, UNJOIN_ANNOTATION) == Some(FORCE) {
        Leaving::Forced
    } else {
        Leaving::Drained
    }
}

/// The record of a Cluster. A record that cannot be read counts as absent, so nothing is deleted in any Karmada.
/// Everybody who may edit the Cluster can write a record, so its names must not be able to change the path of a
/// request.
fn record(cluster: &Cluster) -> Option<Record> {
    let record: Record = serde_json::from_str(meta::annotation(&cluster.metadata, MEMBERSHIP_ANNOTATION)?).ok()?;
    let is_whole = is_member_name(&record.member) && record.karmada.split('.').all(is_dns_label);
    is_whole.then_some(record)
}

/// The name of a Cluster as a member: the name in its annotation, or else its namespace and name.
///
/// # Errors
/// The name in the annotation, if it is not valid for a member.
fn member_name(cluster: &Cluster) -> Result<String, String> {
    match meta::annotation(&cluster.metadata, MEMBER_NAME_ANNOTATION) {
        Some(chosen) if is_member_name(chosen) => Ok(chosen.to_owned()),
        Some(chosen) => Err(chosen.to_owned()),
        None => Ok(default_name(cluster)),
    }
}

fn default_name(cluster: &Cluster) -> String {
    // The name of a Cluster may contain a dot; the name of a member may not.
    let full = format!("{}-{}", cluster.namespace().unwrap_or_default(), cluster.name_any());
    let name = full.replace('.', "-");
    if name == full && is_member_name(&name) {
        return name;
    }
    let kept: String = name.chars().take(MAX_NAME - HASH_DIGITS - 1).collect();
    let [first, second, third, ..] = Sha256::digest(full).0;
    format!("{}-{first:02x}{second:02x}{third:02x}", kept.trim_end_matches('-'))
}

/// Whether a member may have this name. Karmada keeps the credentials of `a` in the Secrets `a` and `a-impersonator`,
/// and has a ServiceAccount `karmada-impersonator`.
fn is_member_name(name: &str) -> bool {
    is_dns_label(name) && name.len() <= MAX_NAME && name.rsplit('-').next() != Some("impersonator")
}

fn is_dns_label(name: &str) -> bool {
    let is_inside = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    !name.is_empty() && !name.starts_with('-') && !name.ends_with('-') && name.chars().all(is_inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(labels: &serde_json::Value, annotations: &serde_json::Value) -> Cluster {
        serde_json::from_value(json!({
            "metadata": {"name": "prod", "namespace": "team-a", "labels": labels, "annotations": annotations},
            "spec": {},
        }))
        .unwrap()
    }

    fn recorded() -> Record {
        Record { karmada: "one".into(), member: "team-a-prod".into(), id: "u1".into() }
    }

    fn with_record(label: Option<&str>, more: &serde_json::Value) -> Cluster {
        let mut cluster = cluster(&json!({}), more);
        let annotations = cluster.annotations_mut();
        annotations.insert(MEMBERSHIP_ANNOTATION.into(), serde_json::to_string(&recorded()).unwrap());
        if let Some(label) = label {
            cluster.labels_mut().insert(KARMADA_LABEL.into(), label.into());
        }
        cluster
    }

    #[test]
    fn the_label_joins_keeps_and_leaves() {
        assert_eq!(task(&cluster(&json!({}), &json!({}))), Task::Nothing);
        assert_eq!(task(&cluster(&json!({KARMADA_LABEL: ""}), &json!({}))), Task::Nothing, "an empty label is none");
        let join = Task::Join { karmada: "one".into(), member: "team-a-prod".into() };
        assert_eq!(task(&cluster(&json!({KARMADA_LABEL: "one"}), &json!({}))), join);
        let keep = |drain| Task::Keep { record: recorded(), drain };
        assert_eq!(task(&with_record(Some("one"), &json!({}))), keep(false));
        assert_eq!(task(&with_record(Some("one"), &json!({DRAIN_ANNOTATION: ""}))), keep(true));
        let leave = |how| Task::Leave { record: recorded(), how };
        assert_eq!(task(&with_record(None, &json!({}))), leave(Leaving::Drained));
        let force = json!({UNJOIN_ANNOTATION: "force"});
        assert_eq!(task(&with_record(None, &force)), leave(Leaving::Forced));
        assert_eq!(task(&with_record(Some("two"), &json!({}))), leave(Leaving::Drained));
        assert_eq!(task(&with_record(Some("one"), &force)), keep(false), "force alone asks for nothing");
    }

    #[test]
    fn a_deleted_cluster_leaves_at_once_and_never_joins() {
        let deleted = json!("2026-01-01T00:00:00Z");
        let mut member = with_record(Some("one"), &json!({}));
        member.metadata.deletion_timestamp = serde_json::from_value(deleted.clone()).unwrap();
        assert!(matches!(task(&member), Task::Leave { how: Leaving::Deleted, .. }));
        let mut newcomer = cluster(&json!({KARMADA_LABEL: "one"}), &json!({}));
        newcomer.metadata.deletion_timestamp = serde_json::from_value(deleted).unwrap();
        assert_eq!(task(&newcomer), Task::Nothing);
    }

    #[test]
    fn members_of_different_clusters_have_different_names() {
        let of = |namespace: &str, name: &str| {
            let mut cluster = cluster(&json!({}), &json!({}));
            cluster.metadata.namespace = Some(namespace.into());
            cluster.metadata.name = Some(name.into());
            member_name(&cluster).unwrap()
        };
        assert_eq!(of("team-a", "prod"), "team-a-prod");
        let long = "a".repeat(47);
        let names =
            [of("t", &long), of("t", &format!("{long}b")), of("t", "a.b"), of("t", "a-b"), of("t", "a-impersonator")];
        for name in &names {
            assert!(is_member_name(name), "{name}");
        }
        let mut distinct = names.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_chosen_name_is_one_that_karmada_takes() {
        let chosen = |name: &str| member_name(&cluster(&json!({}), &json!({MEMBER_NAME_ANNOTATION: name})));
        assert_eq!(chosen("frankfurt"), Ok("frankfurt".into()));
        for name in ["Frankfurt", "", "a/b", "impersonator", "prod-impersonator", &"f".repeat(49)] {
            assert_eq!(chosen(name), Err(name.into()));
        }
        let labelled = cluster(&json!({KARMADA_LABEL: "one"}), &json!({MEMBER_NAME_ANNOTATION: "Prod"}));
        let rename = Task::Rename { chosen: "Prod".into() };
        assert_eq!(task(&labelled), rename);
    }

    #[test]
    fn a_record_that_leads_elsewhere_is_none() {
        for (karmada, member) in [
            ("one", "team-b-b/proxy/x"),
            ("one", "team-a-prod-impersonator"),
            ("../other/secrets/one", "team-a-prod"),
            ("", "team-a-prod"),
        ] {
            let forged = json!({"karmada": karmada, "member": member, "id": "u1"}).to_string();
            let forged = cluster(&json!({}), &json!({MEMBERSHIP_ANNOTATION: forged}));
            assert_eq!(task(&forged), Task::Nothing, "{karmada} {member}");
        }
    }
}
