//! A Karmada control plane: its members, their credentials, and what runs where.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::karmada::credentials::{NAMESPACE, Tokens};
use crate::names::{DRAIN_TAINT, FIELD_MANAGER};

/// Annotation of the credentials in Karmada: when their tokens are to be renewed.
const RENEW_AT: &str = "fleet.infrastructure.cluster.x-k8s.io/renew-at";
/// Bindings read at once.
const BINDINGS_OF_A_PAGE: u32 = 500;

/// A member as it shall be, its taints aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// URL of its API server.
    pub(crate) endpoint: String,
    pub(crate) id: String,
    pub(crate) provider: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Member {
    /// The spec in the form in which it is applied. What is not known is left out.
    fn spec(&self) -> Map<String, Value> {
        let provider = self.provider.as_ref().map(|provider| json!(provider));
        let region = self.region.as_ref().map(|region| json!(region));
        let zones = (!self.zones.is_empty()).then(|| json!(self.zones));
        let known = [
            ("syncMode", Some(json!("Push"))),
            ("apiEndpoint", Some(json!(self.endpoint))),
            ("id", Some(json!(self.id))),
            ("secretRef", Some(json!({"namespace": NAMESPACE, "name": self.name}))),
            (
                "impersonatorSecretRef",
                Some(json!({"namespace": NAMESPACE, "name": impersonator_secret(&self.name)})),
            ),
            ("provider", provider),
            ("region", region),
            ("zones", zones),
        ];
        let known = known
            .into_iter()
            .filter_map(|(field, value)| Some((field.to_owned(), value?)));
        known.collect()
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": self.spec(),
        })
    }

    /// Whether the object in Karmada has all of it.
    fn is_shown_by(&self, existing: &DynamicObject) -> bool {
        let mut labels = self.labels.iter();
        labels.all(|(key, value)| existing.labels().get(key) == Some(value))
            && self
                .spec()
                .iter()
                .all(|(field, value)| spec_field(existing, field) == Some(value))
    }
}

/// A field of the spec of a member.
pub(crate) fn spec_field<'a>(member: &'a DynamicObject, field: &str) -> Option<&'a Value> {
    member.data.get("spec")?.get(field)
}

fn impersonator_secret(member: &str) -> String {
    format!("{member}-impersonator")
}

/// A client of a Karmada control plane.
pub(crate) struct ControlPlane {
    client: Client,
}

impl ControlPlane {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    fn clusters(&self) -> Api<DynamicObject> {
        Api::all_with(
            self.client.clone(),
            &resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"),
        )
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// All members.
    pub(crate) async fn members(&self) -> kube::Result<Vec<DynamicObject>> {
        Ok(self.clusters().list(&ListParams::default()).await?.items)
    }

    pub(crate) async fn member(&self, name: &str) -> kube::Result<Option<DynamicObject>> {
        self.clusters().get_opt(name).await
    }

    /// Writes a member, unless the object in Karmada is so already.
    pub(crate) async fn write_member(
        &self,
        member: &Member,
        existing: Option<DynamicObject>,
    ) -> kube::Result<DynamicObject> {
        if let Some(existing) = existing.filter(|existing| member.is_shown_by(existing)) {
            return Ok(existing);
        }
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        self.clusters()
            .patch(&member.name, &parameters, &Patch::Apply(member.object()))
            .await
    }

    /// When the credentials of a member are to be renewed; `None` where there are none.
    pub(crate) async fn renew_at(&self, member: &str) -> kube::Result<Option<Timestamp>> {
        let secret = self.secrets().get_metadata_opt(member).await?;
        Ok(secret.and_then(|secret| secret.annotations().get(RENEW_AT)?.parse().ok()))
    }

    /// Writes the credentials of a member.
    pub(crate) async fn write_credentials(&self, member: &str, authority: &str, tokens: &Tokens) -> kube::Result<()> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        namespaces
            .patch(NAMESPACE, &parameters, &Patch::Apply(namespace))
            .await?;
        let renew_at = tokens.renew_at.to_string();
        let impersonator = secret(&impersonator_secret(member), &renew_at, None, &tokens.impersonator);
        let controller = secret(member, &renew_at, Some(authority), &tokens.controller);
        // That of the controllers is the last one: its annotation says that both are there.
        for (name, secret) in [
            (impersonator_secret(member), impersonator),
            (member.to_owned(), controller),
        ] {
            self.secrets().patch(&name, &parameters, &Patch::Apply(secret)).await?;
        }
        Ok(())
    }

    /// Lets Karmada delete the credentials together with the member.
    pub(crate) async fn own_credentials(&self, member: &DynamicObject) -> kube::Result<()> {
        let owner = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "name": member.name_any(), "uid": member.uid(),
        });
        let patch = json!({"metadata": {"ownerReferences": [owner]}});
        for name in [impersonator_secret(&member.name_any()), member.name_any()] {
            let secret = self.secrets().get_metadata_opt(&name).await?;
            let is_owned = secret.is_none_or(|secret| {
                let mut owners = secret.owner_references().iter();
                owners.any(|owner| Some(&owner.uid) == member.metadata.uid.as_ref())
            });
            if !is_owned {
                self.secrets()
                    .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await?;
            }
        }
        Ok(())
    }

    /// Puts the taint of a drain on a member, or takes it away. Taints of others stay.
    pub(crate) async fn set_draining(&self, member: &DynamicObject, is_draining: bool) -> kube::Result<()> {
        let Some(taints) = taints(member, is_draining) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": member.resource_version()},
            "spec": {"taints": taints},
        });
        self.clusters()
            .patch(&member.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(drop)
    }

    /// All ResourceBindings and ClusterResourceBindings.
    pub(crate) async fn bindings(&self) -> kube::Result<Vec<DynamicObject>> {
        let mut all = Vec::new();
        for (kind, plural) in [
            ("ResourceBinding", "resourcebindings"),
            ("ClusterResourceBinding", "clusterresourcebindings"),
        ] {
            let resource = resource("work.karmada.io", "v1alpha2", kind, plural);
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let mut page = ListParams::default().limit(BINDINGS_OF_A_PAGE);
            loop {
                let answer = api.list(&page).await?;
                all.extend(answer.items);
                match answer.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(all)
    }

    /// Deletes this very member.
    pub(crate) async fn delete(&self, member: &DynamicObject) -> kube::Result<()> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: member.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.clusters().delete(&member.name_any(), &parameters).await.map(drop)
    }
}

/// The taints that a member shall have; `None` if it has them.
fn taints(member: &DynamicObject, is_draining: bool) -> Option<Vec<Value>> {
    let present = spec_field(member, "taints").and_then(Value::as_array);
    let present = present.cloned().unwrap_or_default();
    let is_ours = |taint: &Value| taint["key"] == DRAIN_TAINT;
    if present.iter().any(is_ours) == is_draining {
        return None;
    }
    let mut wanted: Vec<Value> = present.into_iter().filter(|taint| !is_ours(taint)).collect();
    if is_draining {
        wanted.push(json!({"key": DRAIN_TAINT, "effect": "NoExecute"}));
    }
    Some(wanted)
}

fn secret(name: &str, renew_at: &str, authority: Option<&str>, token: &SecretString) -> Value {
    let token = BASE64_STANDARD.encode(token.expose_secret());
    let data = match authority {
        Some(authority) => json!({"caBundle": authority, "token": token}),
        None => json!({"token": token}),
    };
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {RENEW_AT: renew_at}},
        "data": data,
    })
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member {
            name: "team-a-prod".into(),
            endpoint: "https://api:6443".into(),
            id: "u1".into(),
            provider: Some("aws".into()),
            region: Some("eu-west-1".into()),
            zones: vec!["eu-west-1a".into()],
            labels: [("cluster.x-k8s.io/cluster-name".to_owned(), "prod".to_owned())].into(),
        }
    }

    #[test]
    fn what_karmada_adds_to_a_member_is_no_reason_to_write_it() {
        let mut existing: DynamicObject = serde_json::from_value(member().object()).unwrap();
        existing.data["spec"]["resourceModels"] = json!([{"grade": 0}]);
        existing.labels_mut().insert("example.org/theirs".into(), String::new());
        assert!(member().is_shown_by(&existing));
        existing.data["spec"]["region"] = json!("us-east-1");
        assert!(!member().is_shown_by(&existing));
    }

    #[test]
    fn the_taint_of_a_drain_comes_and_goes_beside_those_of_others() {
        let mut existing: DynamicObject = serde_json::from_value(member().object()).unwrap();
        let theirs = json!({"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"});
        existing.data["spec"]["taints"] = json!([theirs]);
        assert_eq!(taints(&existing, false), None);
        let draining = taints(&existing, true).unwrap();
        assert_eq!(draining.len(), 2);
        existing.data["spec"]["taints"] = json!(draining);
        assert_eq!(taints(&existing, true), None);
        assert_eq!(taints(&existing, false), Some(vec![theirs]));
    }
}
