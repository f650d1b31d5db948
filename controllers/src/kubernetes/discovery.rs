//! Discovers kinds that are known only at run time.

use capa_api::meta::CONTRACT_LABEL;
use capa_network::SourceKind;
use capa_runtime::discovery::resource_of;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, GroupVersion, Version};
use kube::discovery::{self, Scope};
use kube::{Api, Client};

use super::failed;
use super::kinds::Kind;
use crate::kubernetes_api::KubernetesError;
use crate::launching::network_sources::publishes_network;

/// Version of the core group.
const CORE_VERSION: &str = "v1";

/// Discovers a kind; `None` if the API server does not serve it. The plural comes from discovery, because a guess would
/// be wrong for some kinds, and the labels come from the CRD. The version comes from the contract label, as in Cluster
/// API, or else from the preference of discovery.
pub(super) async fn discover(client: &Client, kind: &SourceKind) -> Result<Option<Kind>, KubernetesError> {
    if kind.group.is_empty() {
        return core_kind(client, &kind.kind).await;
    }
    let Some((resource, is_namespaced)) = served(client, kind).await? else {
        return Ok(None);
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("{}.{}", resource.plural, kind.group);
    let labels = match definitions.get_metadata(&name).await {
        Ok(definition) => definition.metadata.labels,
        // Another API server serves the kind.
        Err(kube::Error::Api(status)) if status.is_not_found() => None,
        Err(error) => return Err(failed(attempted(kind), error)),
    };
    let version = labels.as_ref().and_then(|labels| newest(labels.get(CONTRACT_LABEL)?));
    let resource = match version {
        Some(version) => {
            ApiResource { api_version: GroupVersion::gv(&kind.group, &version).api_version(), version, ..resource }
        }
        None => resource,
    };
    Ok(Some(Kind { resource, is_namespaced, publishes_network: publishes_network(labels.as_ref()) }))
}

/// The resource of a kind of a named group, and whether it is namespaced.
async fn served(client: &Client, kind: &SourceKind) -> Result<Option<(ApiResource, bool)>, KubernetesError> {
    let group = match discovery::group(client, &kind.group).await {
        Ok(group) => group,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
        Err(error) => return Err(failed(attempted(kind), error)),
    };
    let found = resource_of(&group, &kind.kind);
    Ok(found.map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced)))
}

/// A kind of the core group, which has no CRDs.
async fn core_kind(client: &Client, kind: &str) -> Result<Option<Kind>, KubernetesError> {
    let listed = client.list_core_api_resources(CORE_VERSION).await;
    let listed = listed.map_err(|error| failed(format!("discover kind {kind} of the core group"), error))?;
    let mut resources = listed.resources.into_iter();
    // A subresource may have the kind of another resource.
    let found = resources.find(|resource| resource.kind == kind && !resource.name.contains('/'));
    Ok(found.map(|found| Kind {
        resource: ApiResource {
            group: String::new(),
            version: CORE_VERSION.to_owned(),
            api_version: CORE_VERSION.to_owned(),
            kind: found.kind,
            plural: found.name,
        },
        is_namespaced: found.namespaced,
        publishes_network: false,
    }))
}

fn attempted(kind: &SourceKind) -> String {
    format!("discover kind {} of group {}", kind.kind, kind.group)
}

/// The highest version of a list joined by `_`, in the order of Kubernetes: v2 > v1 > v1beta2 > v1beta1 > v1alpha1.
fn newest(versions: &str) -> Option<String> {
    let highest = versions.split('_').filter(|version| !version.is_empty());
    highest.max_by_key(|version| Version::parse(version).priority()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_goes_by_stability_first() {
        assert_eq!(newest("v1alpha1_v1beta1").as_deref(), Some("v1beta1"));
        assert_eq!(newest("v1_v1beta2").as_deref(), Some("v1"));
        assert_eq!(newest("v1_v2alpha1").as_deref(), Some("v1"));
        assert_eq!(newest(""), None);
    }
}
