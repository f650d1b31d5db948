//! What the infrastructure object of a Cluster says about it, whichever provider it belongs to.

use std::collections::HashMap;

use capa_api::contract::{Cluster, ContractReference};
use capa_runtime::errors::described;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::debug;

/// The fields in which the infrastructure providers of Cluster API keep the region: CAPA's and CAPG's, and CAPZ's.
const REGION_FIELDS: [&str; 2] = ["/spec/region", "/spec/location"];

/// The code of an answer about something that does not exist.
const NOT_FOUND: u16 = 404;

/// What is known about the infrastructure of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Infrastructure {
    /// The provider, for example `aws`. From the kind of the infrastructure object.
    pub(crate) provider: Option<String>,
    /// The region. `None` where no field of the object gives one, or where the object cannot be read.
    pub(crate) region: Option<String>,
}

/// Reads infrastructure objects. One for all Clusters.
pub(crate) struct InfrastructureReader {
    client: Client,
    /// The resources of the kinds that were looked up. Few, because only kinds that are served are kept.
    resources: Mutex<HashMap<(String, String), ApiResource>>,
}

impl InfrastructureReader {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            resources: Mutex::default(),
        }
    }

    /// What is known about the infrastructure of a Cluster. An object that cannot be read only lacks in it: a profile
    /// without a region is better than none.
    pub(crate) async fn read(&self, cluster: &Cluster) -> Infrastructure {
        let Some(reference) = &cluster.spec.infrastructure_ref else {
            return Infrastructure::default();
        };
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let object = match self.object(reference, namespace).await {
            Ok(object) => object,
            Err(error) => {
                let error = described(&error);
                debug!(
                    kind = reference.kind,
                    name = reference.name,
                    error,
                    "infrastructure object not read"
                );
                None
            }
        };
        Infrastructure {
            provider: provider(&reference.kind),
            region: object.and_then(|object| region(&object.data)),
        }
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
                // The version may have gone with an upgrade of the provider.
                if matches!(&error, kube::Error::Api(status) if status.code == NOT_FOUND) {
                    self.resources.lock().remove(&kind);
                }
                Err(error)
            }
        }
    }

    async fn resource(&self, reference: &ContractReference) -> kube::Result<Option<ApiResource>> {
        let group = kube::discovery::group(&self.client, &reference.api_group).await?;
        // The kinds of one group come from many providers, each with versions of its own.
        let kinds = group.resources_by_stability().into_iter();
        let mut kinds = kinds.map(|(resource, _)| resource);
        Ok(kinds.find(|resource| resource.kind == reference.kind))
    }
}

/// The provider by the kind of its infrastructure object: `aws` for AWSCluster and for AWSManagedCluster.
fn provider(kind: &str) -> Option<String> {
    let name = kind.strip_suffix("Cluster")?;
    let name = name.strip_suffix("Managed").unwrap_or(name).to_lowercase();
    (!name.is_empty()).then_some(name)
}

fn region(object: &Value) -> Option<String> {
    let values = REGION_FIELDS.iter().filter_map(|field| object.pointer(field)?.as_str());
    values.map(str::to_owned).find(|value| is_label_value(value))
}

/// Whether engines can select by the value: they want regions and zones to be values of labels.
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
