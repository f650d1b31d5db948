//! One machine's instance in one group.

use std::time::Duration;

use super::model::{GroupFacts, Standing, Target, TargetInstance, TargetKind, Wish};
use crate::CloudError;

/// An instance that a machine has, or had, in a group.
pub(super) struct Member {
    pub(super) instance: TargetInstance,
    /// The port that `controlPlaneTargets` names.
    pub(super) port: Option<i32>,
    pub(super) wish: Wish,
    /// When it was wished first.
    pub(super) since: Duration,
    /// When AWS took the deregistration, or showed it first.
    pub(super) leaving_since: Option<Duration>,
    /// When AWS took the registration.
    pub(super) registered_at: Option<Duration>,
    /// What AWS said to the last write.
    pub(super) failure: Option<CloudError>,
    pub(super) failures: u32,
    /// No write before.
    pub(super) not_before: Duration,
    /// What the machine was told last; it is woken when this changes.
    pub(super) told: Standing,
}

impl Member {
    pub(super) fn new(instance: TargetInstance, port: Option<i32>, wish: Wish, now: Duration) -> Self {
        Self {
            instance,
            port,
            wish,
            since: now,
            leaving_since: None,
            registered_at: None,
            failure: None,
            failures: 0,
            not_before: now,
            told: Standing::Unknown,
        }
    }

    /// Takes over what is known of the instance and wanted of it. Whether that is news.
    pub(super) fn renew(&mut self, instance: &TargetInstance, wish: Wish, now: Duration) -> bool {
        if instance.address.is_some() {
            self.instance.address.clone_from(&instance.address);
        }
        let renewed = self.wish != wish;
        if renewed {
            let leaves = self.is_leaving();
            self.wish = wish;
            if leaves != self.is_leaving() {
                self.since = now;
                self.leaving_since = None;
                self.failure = None;
                self.failures = 0;
                self.not_before = now;
            }
        }
        renewed
    }

    /// Whether it is to be out.
    pub(super) fn is_leaving(&self) -> bool {
        self.wish != Wish::Registered
    }

    /// The target that it is in its group; none where it cannot be one.
    pub(super) fn target(&self, facts: &GroupFacts) -> Option<Target> {
        let id = match facts.kind {
            // AWS takes an instance that is gone out by itself.
            TargetKind::Instance => (self.wish != Wish::Forgotten).then(|| self.instance.id.clone()),
            TargetKind::Address => self.instance.address.clone(),
            TargetKind::Other(_) => None,
        };
        Some(Target {
            id: id?,
            port: self.port.or(facts.port),
        })
    }

    pub(super) fn written(&mut self, now: Duration) {
        self.failure = None;
        self.failures = 0;
        if self.is_leaving() {
            self.leaving_since.get_or_insert(now);
        } else {
            self.registered_at = Some(now);
        }
    }

    pub(super) fn failed(&mut self, error: &CloudError, not_before: Duration) {
        self.failure = Some(error.clone());
        self.failures = self.failures.saturating_add(1);
        self.not_before = not_before;
    }
}
