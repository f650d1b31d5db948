//! A target group of the simulated Elastic Load Balancing.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::common::Tags;
use jiff::Timestamp;

use capa_cloud::targets::{GroupFacts, Target, TargetKind};

use super::time::after;

/// A target group or a Classic Load Balancer.
#[derive(Clone, Debug)]
pub struct TargetGroup {
    pub(super) kind: TargetKind,
    pub(super) delay: Duration,
    pub(super) targets: BTreeMap<Target, Registration>,
    pub(super) tags: Tags,
    pub(super) vpc_id: Option<String>,
}

/// A target of a group, from its registration until it has drained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    pub(super) since: Timestamp,
    pub(super) deregistered: Option<Timestamp>,
}

impl TargetGroup {
    pub(super) fn forget_drained(&mut self, now: Timestamp) {
        let delay = self.delay;
        let drains = |at: Timestamp| now < after(at, delay);
        self.targets.retain(|_, registration| registration.deregistered.is_none_or(drains));
    }

    pub(super) fn facts(&self) -> GroupFacts {
        GroupFacts { kind: self.kind.clone(), port: Some(6443) }
    }
}
