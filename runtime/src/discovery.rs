//! The resource of a kind in a discovered API group.

use kube::core::ApiResource;
use kube::discovery::{ApiCapabilities, ApiGroup};

/// The resource of a kind: in the version of the group that the API server prefers, or else in the most stable version
/// that has the kind. Many providers share a group, so the preferred version may not have the kind.
pub fn resource_of(group: &ApiGroup, kind: &str) -> Option<(ApiResource, ApiCapabilities)> {
    let anywhere = || group.resources_by_stability().into_iter().find(|(resource, _)| resource.kind == kind);
    group.recommended_kind(kind).or_else(anywhere)
}
