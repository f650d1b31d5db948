//! Reads facts from the infrastructure object of a Cluster, for any infrastructure provider.

use std::collections::HashMap;

use capa_api::contract::{Cluster, ContractReference};
use capa_runtime::discovery::resource_of;
use capa_runtime::errors::described;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::debug;

/// The fields in which the infrastructure providers of Cluster API keep the region: CAPA's and CAPG's, and CAPZ's.
const REGION_FIELDS: [&str; 2] = ["/spec/region", "/spec/location"];

/// The status code if an object does not exist.
const NOT_FOUND: u16 = 404;

/// Facts about the infrastructure of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Infrastructure {
    /// The provider, for example `aws`, from the kind of the infrastructure object.
    pub(crate) provider: Option<String>,
    /// The region; `None` if no field of the object contains one, or if the object cannot be read.
    pub(crate) region: Option<String>,
}

/// Reads infrastructure objects. One value serves all Clusters.
pub(crate) struct InfrastructureReader {
    client: Client,
    /// The resources of the kinds that were looked up. Their number is small, because only kinds that are served are
    /// kept.
    resources: Mutex<HashMap<(String, String), ApiResource>>,
}

impl InfrastructureReader {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, resources: Mutex::default() }
    }

    /// Facts about the infrastructure of a Cluster. If the object cannot be read, its facts are missing, because a
    /// profile without a region is better than no profile.
    pub(crate) async fn read(&self, cluster: &Cluster) -> Infrastructure {
        let Some(reference) = &cluster.spec.infrastructure_ref else {
            return Infrastructure::default();
        };
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let object = match self.object(reference, namespace).await {
            Ok(object) => object,
            Err(error) => {
                let error = described(&error);
                debug!(kind = reference.kind, name = reference.name, error, "infrastructure object not read");
                None
            }
        };
        Infrastructure { provider: provider(&reference.kind), region: object.and_then(|object| region(&object.data)) }
    }

    async fn object(&self, reference: &ContractReference, namespace: &str) -> kube::Result<Option<DynamicObject>> {
        let kind = (reference.api_group.clone(), reference.kind.clone());
        let known = self.resources.lock().get(&kind).cloned();
        let resource = match known {
            Some(resource) => resource,
            None => match self.resource(reference).await? {
                Some(resource) => resource,
                None => return Ok(None),
            },
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        match api.get(&reference.name).await {
            Ok(object) => {
                self.resources.lock().insert(kind, resource);
                Ok(Some(object))
            }
            Err(error) => {
                // An upgrade of the provider may have removed the version.
                if matches!(&error, kube::Error::Api(status) if status.code == NOT_FOUND) {
                    self.resources.lock().remove(&kind);
                }
                Err(error)
            }
        }
    }

    async fn resource(&self, reference: &ContractReference) -> kube::Result<Option<ApiResource>> {
        let group = kube::discovery::group(&self.client, &reference.api_group).await?;
        Ok(resource_of(&group, &reference.kind).map(|(resource, _)| resource))
    }
}

/// The provider, from the kind of its infrastructure object: `aws` for AWSCluster and for AWSManagedCluster.
fn provider(kind: &str) -> Option<String> {
    let name = kind.strip_suffix("Cluster")?;
    let name = name.strip_suffix("Managed").unwrap_or(name).to_lowercase();
    (!name.is_empty()).then_some(name)
}

fn region(object: &Value) -> Option<String> {
    let values = REGION_FIELDS.iter().filter_map(|field| object.pointer(field)?.as_str());
    values.map(str::to_owned).find(|value| is_label_value(value))
}

/// Whether engines can select by the value. Engines require regions and zones to be valid label values.
pub(crate) fn is_label_value(value: &str) -> bool {
    let at_ends = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphanumeric());
    let inside = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    value.len() <= 63 && at_ends(value.chars().next()) && at_ends(value.chars().last()) && value.chars().all(inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_provider_follows_from_the_kind() {
        let table = [
            ("AWSCluster", Some("aws")),
            ("AWSManagedCluster", Some("aws")),
            ("VSphereCluster", Some("vsphere")),
            ("Cluster", None),
            ("Hosted", None),
        ];
        for (kind, expected) in table {
            assert_eq!(provider(kind).as_deref(), expected, "{kind}");
        }
    }

    #[test]
    fn the_region_is_one_that_engines_can_select_by() {
        let table = [
            (json!({"spec": {"region": "eu-west-1"}}), Some("eu-west-1")),
            (json!({"spec": {"location": "westeurope"}}), Some("westeurope")),
            (json!({"spec": {"region": ["eu-west-1"]}}), None),
            (json!({"spec": {"region": "eu west"}}), None),
            (json!({"spec": {"region": "-"}}), None),
            (json!({"spec": {"region": "e".repeat(64)}}), None),
            (json!({}), None),
        ];
        for (object, expected) in table {
            assert_eq!(region(&object).as_deref(), expected, "{object}");
        }
    }
}
