//! The dependencies of the controllers.

use std::sync::Arc;

use capa_aws::SessionPool;
use capa_controllers::kubernetes::Caches;
use capa_runtime::Runtime;
use capa_runtime::backoff::BackoffSettings;
use capa_runtime::kinds::CachedKind;
use kube::runtime::reflector::ObjectRef;

use super::Flags;
use super::orphans::OrphanCounts;

/// The dependencies of the controllers.
pub(super) struct Wiring {
    pub(super) runtime: Runtime,
    pub(super) caches: Caches,
    pub(super) clouds: SessionPool,
    pub(super) orphans: OrphanCounts,
    pub(super) flags: Flags,
}

impl Wiring {
    /// Objects that are not watched are read again after at most the cap, so that a user's correction takes effect
    /// soon.
    pub(super) fn source_backoff(&self) -> BackoffSettings {
        BackoffSettings { cap: self.flags.timing().source_retry_cap, ..BackoffSettings::default() }
    }
}

/// References to these objects.
pub(super) fn references<K: CachedKind>(objects: &[Arc<K>]) -> Vec<ObjectRef<K>> {
    objects.iter().map(|object| ObjectRef::from_obj(object.as_ref())).collect()
}
