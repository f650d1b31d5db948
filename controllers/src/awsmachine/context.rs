//! The context of the AWSMachine reconciler.

use std::sync::Arc;

use capa_cloud::targets::TargetPolicy;
use capa_cloud::{MachineClouds, Timing};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::memory::LaunchMemory;
use crate::kubernetes_api::MachineKubernetes;
use crate::time::{Moment, age};

/// The context of the AWSMachine reconciler: its clients, memory and settings.
#[derive(Clone)]
pub struct MachineContext {
    /// Kubernetes.
    pub kubernetes: Arc<dyn MachineKubernetes>,
    /// AWS.
    pub clouds: Arc<dyn MachineClouds>,
    /// Launches of this process.
    pub memory: LaunchMemory,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
    /// Which target groups and classic load balancers machines may name.
    pub target_policy: TargetPolicy,
}

impl MachineContext {
    /// The current moment.
    pub(super) fn now(&self) -> Moment {
        Moment { time: self.kubernetes.now(), uptime: self.kubernetes.uptime() }
    }

    /// Whether AWS may not show yet what a request at this time created.
    pub(super) fn may_be_hidden(&self, requested_at: Option<&Time>) -> bool {
        requested_at.is_some_and(|at| age(at.0, self.kubernetes.now()) < self.timing.visibility_age)
    }
}
