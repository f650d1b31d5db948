//! The ledger of a managed cluster, `status.resources`: the resources that the provider has created in AWS, or may have
//! created. Pure.
//!
//! An entry is *open* from before the call that creates the resource until the answer. AWS may have created the
//! resource of an open entry, and may not show it for `Timing::unseen_age`. So an open entry prevents a second call,
//! even after crashes and lost answers, unless the entry has a client token: then the provider repeats the same call,
//! and AWS answers with the resource of the first one. After a loss of the status, every resource counts as if it had
//! just been requested.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capa_api::cluster::status::{ClusterResource, Lifecycle};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest, Sha256};

use super::reference::{Id, Kind, Ref};
use crate::launching::digest::hex;

/// What the provider knows of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: Option<String>,
    lifecycle: Lifecycle,
    /// The time at which the provider was about to create the resource, or AWS no longer showed it. `None` once the
    /// state is certain: an observation has shown the resource after `unseen_age`, or AWS has refused to create it.
    requested_at: Option<Timestamp>,
    /// The client token of a call without an answer.
    client_token: Option<String>,
    /// The keys of the tags that the provider has written, or is about to write.
    tag_keys: BTreeSet<String>,
    /// Whether the last observation shows the resource, and with the tag of the cluster.
    shown: Option<IsOwned>,
}

impl Entry {
    /// An entry of a resource without an id.
    fn requested_at(requested_at: Option<Timestamp>) -> Self {
        Self {
            id: None,
            lifecycle: Lifecycle::Owned,
            requested_at,
            client_token: None,
            tag_keys: BTreeSet::new(),
            shown: None,
        }
    }
}

/// Whether a shown resource has the tag of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsOwned {
    /// It has the tag.
    Yes,
    /// It does not.
    No,
}

/// The state of a resource after an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence<'a> {
    /// The resource was never requested, or AWS has refused to create it.
    Absent,
    /// A call may have created the resource, and AWS does not show it yet.
    Open,
    /// The resource was created, and AWS does not show it yet, or has temporarily stopped showing it.
    Hidden(&'a str),
    /// AWS shows the resource.
    Shown(&'a str),
    /// AWS shows the resource without the tag of the cluster, so nothing proves that it belongs to the cluster.
    Foreign(&'a str),
    /// AWS has not shown the resource for `unseen_age`.
    Vanished(&'a str),
}

impl Presence<'_> {
    /// Whether the resource exists, or may exist.
    pub(crate) fn may_exist(self) -> bool {
        !matches!(self, Self::Absent | Self::Vanished(_))
    }
}

/// The ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    entries: BTreeMap<Ref, Entry>,
    /// Entries of kinds that this release does not know.
    unknown: Vec<ClusterResource>,
    /// The time of the observation.
    now: Timestamp,
    unseen_age: Duration,
}

impl Ledger {
    /// The ledger in a status.
    pub(crate) fn read(resources: &[ClusterResource], unseen_age: Duration, now: Timestamp) -> Self {
        let mut ledger = Self { entries: BTreeMap::new(), unknown: vec![], now, unseen_age };
        for resource in resources {
            let Ok(kind) = resource.resource_type.parse::<Kind>() else {
                ledger.unknown.push(resource.clone());
                continue;
            };
            let entry = Entry {
                id: resource.id.clone(),
                lifecycle: resource.lifecycle,
                requested_at: resource.requested_at.as_ref().map(|time| time.0),
                client_token: resource.client_token.clone(),
                tag_keys: resource.tag_keys.iter().cloned().collect(),
                shown: None,
            };
            ledger.entries.insert(Ref::new(kind, &resource.name), entry);
        }
        ledger
    }

    /// The ledger in the form of the status.
    pub(crate) fn written(&self) -> Vec<ClusterResource> {
        let known = self.entries.iter().map(|(target, entry)| ClusterResource {
            resource_type: target.kind.to_string(),
            name: target.name.clone(),
            id: entry.id.clone(),
            lifecycle: entry.lifecycle,
            requested_at: entry.requested_at.map(Time),
            client_token: entry.client_token.clone(),
            tag_keys: entry.tag_keys.iter().cloned().collect(),
        });
        let mut resources: Vec<ClusterResource> = known.chain(self.unknown.iter().cloned()).collect();
        resources.sort_by(|one, other| (&one.resource_type, &one.name).cmp(&(&other.resource_type, &other.name)));
        resources
    }

    /// Whether nothing is recorded: no resource was ever requested, or the status is lost.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unknown.is_empty()
    }

    /// The names of the recorded resources of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Ref> {
        self.entries.keys().filter(move |target| target.kind == kind)
    }

    /// Whether the resource was ever requested or found.
    pub(crate) fn is_recorded(&self, target: &Ref) -> bool {
        self.entries.contains_key(target)
    }

    /// The id of a resource.
    pub(crate) fn id(&self, target: &Ref) -> Option<&str> {
        self.entries.get(target)?.id.as_deref()
    }

    /// The id that a planned call names, where it is known.
    pub(crate) fn resolve<'a>(&'a self, id: &'a Id) -> Option<&'a str> {
        match id {
            Id::Known(id) => Some(id),
            Id::Of(target) => self.id(target),
        }
    }

    /// Whether the resource exists, or a call may have created it.
    pub(crate) fn may_exist(&self, target: &Ref) -> bool {
        let entry = self.entries.get(target);
        entry.is_some_and(|entry| entry.id.is_some() || entry.requested_at.is_some())
    }

    /// The time of the observation.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The resource that has this id.
    pub(crate) fn with_id(&self, id: &str) -> Option<&Ref> {
        let mut entries = self.entries.iter();
        let found = entries.find(|(_, entry)| entry.id.as_deref() == Some(id));
        found.map(|(target, _)| target)
    }

    /// Whether AWS may not show the resource although it exists.
    pub(crate) fn may_hide(&self, target: &Ref) -> bool {
        self.entries.get(target).is_some_and(|entry| self.may_be_hidden(entry))
    }

    /// Whether any resource may exist that AWS does not show yet.
    pub(crate) fn may_hide_anything(&self) -> bool {
        self.entries.values().any(|entry| self.may_be_hidden(entry))
    }

    fn may_be_hidden(&self, entry: &Entry) -> bool {
        let is_young = |since: Timestamp| self.now < since + self.unseen_age;
        entry.requested_at.is_some_and(is_young)
    }

    /// Compares the entries of a kind with an observation. `shown` returns whether the observation shows an id, and
    /// whether the resource has the tag of the cluster.
    pub(crate) fn update(&mut self, kind: Kind, shown: impl Fn(&str) -> Option<IsOwned>) {
        let (now, unseen_age) = (self.now, self.unseen_age);
        let is_young = |since: Timestamp| now < since + unseen_age;
        let entries = self.entries.iter_mut().filter(|(target, _)| target.kind == kind);
        for (_, entry) in entries {
            entry.shown = entry.id.as_deref().and_then(&shown);
            entry.requested_at = match (entry.shown, &entry.id) {
                // A young resource may be hidden again after it was shown.
                (Some(_), _) => entry.requested_at.filter(|since| is_young(*since)),
                // A single observation without the resource proves nothing.
                (None, Some(_)) => entry.requested_at.or(Some(now)),
                (None, None) => entry.requested_at,
            };
        }
        // A surplus resource that is gone leaves no trace.
        self.entries.retain(|target, entry| {
            let is_surplus = target.kind == kind && entry.id.as_ref() == Some(&target.name);
            !is_surplus || entry.shown.is_some() || entry.requested_at.is_some_and(is_young)
        });
    }

    /// The state of a resource after the observation with which the ledger was compared.
    pub(crate) fn presence(&self, target: &Ref) -> Presence<'_> {
        let Some(entry) = self.entries.get(target) else {
            return Presence::Absent;
        };
        let may_be_hidden = self.may_be_hidden(entry);
        match &entry.id {
            Some(id) => match entry.shown {
                // AWS may show the tags of a new resource later than the resource.
                Some(IsOwned::No) if !may_be_hidden => Presence::Foreign(id),
                Some(_) => Presence::Shown(id),
                None if may_be_hidden => Presence::Hidden(id),
                None => Presence::Vanished(id),
            },
            None if may_be_hidden => Presence::Open,
            None => Presence::Absent,
        }
    }

    /// The client token of a call that may have created the resource, and that can be made again.
    pub(crate) fn client_token(&self, target: &Ref) -> Option<&str> {
        self.entries.get(target)?.client_token.as_deref()
    }

    /// A client token that no other call has: `scope` distinguishes it from those of other clusters with the same
    /// names.
    pub(crate) fn new_client_token(&self, target: &Ref, scope: &str) -> String {
        let name = format!("{scope}/{}/{}/{}", target.kind, target.name, self.now);
        hex(&Sha256::digest(name))
    }

    /// Records that a call is about to create the resource. `client_token` is the token of a call that can be repeated.
    pub(crate) fn open(&mut self, target: &Ref, client_token: Option<&str>, now: Timestamp) {
        let entry = Entry { client_token: client_token.map(str::to_owned), ..Entry::requested_at(Some(now)) };
        self.entries.insert(target.clone(), entry);
    }

    /// Records the id of the resource. It may not be shown yet.
    pub(crate) fn made(&mut self, target: &Ref, id: &str) {
        let entry = self.entries.entry(target.clone()).or_insert_with(|| Entry::requested_at(None));
        entry.id = Some(id.to_owned());
        entry.client_token = None;
    }

    /// Records that an observation shows the resource under this id, unless the resource has another one. A recorded
    /// resource with a name that no wanted resource has is renamed.
    pub(crate) fn found(&mut self, target: &Ref, id: &str, wanted: &[Ref]) {
        if self.id(target).is_some() {
            return;
        }
        match self.with_id(id).cloned() {
            None => self.made(target, id),
            Some(recorded) if !wanted.contains(&recorded) => self.rename(&recorded, target),
            Some(_) => {}
        }
    }

    /// Records a resource of the user, unless the provider has recorded one of its own under the name.
    pub(crate) fn shared(&mut self, target: &Ref, id: &str) {
        let entry = Entry { id: Some(id.to_owned()), lifecycle: Lifecycle::Shared, ..Entry::requested_at(None) };
        let known = self.entries.get(target);
        if known
            .is_none_or(|known| known.id.is_none() || (known.lifecycle == Lifecycle::Shared && known.id != entry.id))
        {
            self.entries.insert(target.clone(), entry);
        }
        if self.is_shared(target) {
            // Another entry of the resource comes from a time at which it belonged to the provider.
            self.entries
                .retain(|other, entry| other == target || other.kind != target.kind || entry.id.as_deref() != Some(id));
        }
    }

    /// Whether the resource is the user's.
    pub(crate) fn is_shared(&self, target: &Ref) -> bool {
        let entry = self.entries.get(target);
        entry.is_some_and(|entry| entry.lifecycle == Lifecycle::Shared)
    }

    /// The keys of the tags that the provider has written on a resource.
    pub(crate) fn tag_keys(&self, target: &Ref) -> impl Iterator<Item = &String> {
        self.entries.get(target).into_iter().flat_map(|entry| &entry.tag_keys)
    }

    /// Records that the provider writes tags with these keys on a resource of its own. Returns whether any is new.
    pub(crate) fn record_tag_keys(&mut self, target: &Ref, keys: BTreeSet<String>) -> bool {
        let entry = self.entries.get_mut(target);
        let Some(entry) = entry.filter(|entry| entry.lifecycle == Lifecycle::Owned) else {
            return false;
        };
        let before = entry.tag_keys.len();
        entry.tag_keys.extend(keys);
        entry.tag_keys.len() > before
    }

    /// Forgets the other keys.
    pub(crate) fn retain_tag_keys(&mut self, target: &Ref, is_kept: impl Fn(&str) -> bool) {
        if let Some(entry) = self.entries.get_mut(target) {
            entry.tag_keys.retain(|key| is_kept(key));
        }
    }

    /// Whether no wanted resource has this id.
    pub(crate) fn is_free(&self, id: &str, wanted: &[Ref]) -> bool {
        self.with_id(id).is_none_or(|recorded| !wanted.contains(recorded))
    }

    /// Records an unwanted resource under its id, unless it has a name.
    pub(crate) fn surplus(&mut self, kind: Kind, id: &str) {
        if self.with_id(id).is_none() {
            self.made(&Ref::new(kind, id), id);
        }
    }

    /// Whether the resource is recorded under its id, because no wanted resource is or was it.
    pub(crate) fn is_surplus(&self, target: &Ref) -> bool {
        self.id(target) == Some(target.name.as_str())
    }

    /// Records that the resource has this id, whatever was recorded before. Another one that was recorded under the
    /// name becomes surplus, under its id.
    pub(crate) fn assign(&mut self, target: &Ref, id: &str) {
        let before = self.id(target).map(|before| Ref::new(target.kind, before));
        match before {
            Some(before) if before.name == id => return,
            Some(before) => self.rename(target, &before),
            None => {}
        }
        match self.with_id(id).cloned() {
            Some(recorded) => self.rename(&recorded, target),
            None => self.made(target, id),
        }
    }

    /// Records that the resource certainly does not exist: AWS has refused to create it, or has deleted it. The entry
    /// stays, because an empty ledger means a lost status. The entry of a surplus resource, whose name is its id, is
    /// removed.
    pub(crate) fn record_gone(&mut self, target: &Ref) {
        if self.is_surplus(target) {
            self.entries.remove(target);
        } else if let Some(entry) = self.entries.get_mut(target) {
            *entry = Entry::requested_at(None);
        }
    }

    /// Records that a call with the client token of the entry can create nothing more: AWS knows the token with other
    /// parameters.
    pub(crate) fn record_used_client_token(&mut self, target: &Ref) {
        if let Some(entry) = self.entries.get_mut(target) {
            entry.client_token = None;
        }
    }

    /// Records that the outcome of the call to create the resource is unknown.
    pub(crate) fn record_unanswered(&mut self, target: &Ref, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(target) {
            entry.requested_at = Some(now);
        }
    }

    /// Forgets resources that a call may have created, because they would be in a VPC that does not belong to the
    /// cluster.
    pub(crate) fn drop_open_entries(&mut self) {
        self.entries.retain(|_, entry| entry.id.is_some());
    }

    /// Gives an entry the present name of the resource.
    fn rename(&mut self, from: &Ref, to: &Ref) {
        if let Some(mut entry) = self.entries.remove(from) {
            // A call without an answer may have written these tags.
            entry.tag_keys.extend(self.tag_keys(to).cloned().collect::<Vec<_>>());
            self.entries.insert(to.clone(), entry);
        }
    }

    /// Whether any entry but that of `target` may be hidden.
    pub(crate) fn may_hide_others(&self, target: &Ref) -> bool {
        let mut others = self.entries.iter().filter(|(other, _)| *other != target);
        others.any(|(_, entry)| self.may_be_hidden(entry))
    }
}
