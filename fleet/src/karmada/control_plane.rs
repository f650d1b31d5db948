//! A Karmada control plane: its members, their credentials, and the workloads that run in them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::connection::each;
use crate::karmada::bindings::Remaining;
use crate::karmada::credentials::{NAMESPACE, Tokens};
use crate::names::{DRAIN_TAINT, FIELD_MANAGER};

/// Annotation of the credentials in Karmada: a digest of the certificate authority in the credentials.
const AUTHORITY: &str = "fleet.infrastructure.cluster.x-k8s.io/certificate-authority";
/// Annotation of the credentials in Karmada: the time at which their tokens have to be renewed.
const RENEW_AT: &str = "fleet.infrastructure.cluster.x-k8s.io/renew-at";

/// The desired state of a member, except its taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// URL of the member's API server.
    pub(crate) endpoint: String,
    pub(crate) id: String,
    pub(crate) provider: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// UID of the member that exists. The API server refuses to apply it to another member, or to create one.
    pub(crate) uid: Option<String>,
}

impl Member {
    /// The spec for server-side apply. Unknown fields are left out.
    fn spec(&self) -> Map<String, Value> {
        let provider = self.provider.as_ref().map(|provider| json!(provider));
        let region = self.region.as_ref().map(|region| json!(region));
        let zones = (!self.zones.is_empty()).then(|| json!(self.zones));
        let known = [
            ("syncMode", Some(json!("Push"))),
            ("apiEndpoint", Some(json!(self.endpoint))),
            ("id", Some(json!(self.id))),
            ("secretRef", Some(json!({"namespace": NAMESPACE, "name": self.name}))),
            ("impersonatorSecretRef", Some(json!({"namespace": NAMESPACE, "name": impersonator_secret(&self.name)}))),
            ("provider", provider),
            ("region", region),
            ("zones", zones),
        ];
        present(known)
    }

    fn object(&self) -> Value {
        let known = [
            ("name", Some(json!(self.name))),
            ("labels", Some(json!(self.labels))),
            ("uid", self.uid.as_ref().map(|uid| json!(uid))),
        ];
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": present(known),
            "spec": self.spec(),
        })
    }
}

/// The fields that have a value.
fn present<const COUNT: usize>(fields: [(&str, Option<Value>); COUNT]) -> Map<String, Value> {
    let present = fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
    present.collect()
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
        Api::all_with(self.client.clone(), &resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"))
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// All members.
    pub(crate) async fn members(&self) -> kube::Result<Vec<DynamicObject>> {
        let mut all = Vec::new();
        each(&self.clusters(), |member| all.push(member)).await?;
        Ok(all)
    }

    pub(crate) async fn member(&self, name: &str) -> kube::Result<Option<DynamicObject>> {
        self.clusters().get_opt(name).await
    }

    /// Applies a member. Fields that were applied before and are no longer desired, such as a label, are removed. The
    /// API server stores nothing if nothing has changed.
    pub(crate) async fn write_member(&self, member: &Member) -> kube::Result<DynamicObject> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        self.clusters().patch(&member.name, &parameters, &Patch::Apply(member.object())).await
    }

    /// The time at which the credentials of a member have to be renewed; `None` if there are no credentials with this
    /// authority. The credentials of an earlier member with the same name do not count, because their ServiceAccounts
    /// were deleted with that member.
    pub(crate) async fn renew_at(&self, member: &DynamicObject, authority: &str) -> kube::Result<Option<Timestamp>> {
        let secret = self.secrets().get_metadata_opt(&member.name_any()).await?;
        let secret = secret.filter(|secret| {
            let mut owners = secret.owner_references().iter();
            owners.any(|owner| Some(&owner.uid) == member.metadata.uid.as_ref())
                && secret.annotations().get(AUTHORITY) == Some(&digest(authority))
        });
        Ok(secret.and_then(|secret| secret.annotations().get(RENEW_AT)?.parse().ok()))
    }

    /// Writes the credentials of a member. Karmada deletes them together with the member.
    pub(crate) async fn write_credentials(
        &self,
        member: &DynamicObject,
        authority: &str,
        tokens: &Tokens,
    ) -> kube::Result<()> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        namespaces.patch(NAMESPACE, &parameters, &Patch::Apply(namespace)).await?;
        let name = member.name_any();
        let impersonator = json!({"token": in_base64(&tokens.impersonator)});
        let controller = json!({"token": in_base64(&tokens.controller), "caBundle": authority});
        // The Secret of the controllers is written last, so its annotation shows that both Secrets exist.
        for (name, data) in [(impersonator_secret(&name), impersonator), (name, controller)] {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {
                    "name": name, "namespace": NAMESPACE,
                    "annotations": {RENEW_AT: tokens.renew_at.to_string(), AUTHORITY: digest(authority)},
                    "ownerReferences": [{
                        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                        "name": member.name_any(), "uid": member.uid(),
                    }],
                },
                "data": data,
            });
            self.secrets().patch(&name, &parameters, &Patch::Apply(secret)).await?;
        }
        Ok(())
    }

    /// Adds the drain taint to a member, or removes it. Other taints are kept.
    pub(crate) async fn set_draining(&self, member: &DynamicObject, is_draining: bool) -> kube::Result<()> {
        let Some(taints) = taints(member, is_draining) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": member.resource_version()},
            "spec": {"taints": taints},
        });
        self.clusters().patch(&member.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
    }

    /// The workloads that still have replicas in a member.
    pub(crate) async fn remaining(&self, member: &str) -> kube::Result<Remaining> {
        let mut remaining = Remaining::default();
        for (kind, plural) in
            [("ResourceBinding", "resourcebindings"), ("ClusterResourceBinding", "clusterresourcebindings")]
        {
            let resource = resource("work.karmada.io", "v1alpha2", kind, plural);
            let bindings: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            each(&bindings, |binding| remaining.add(&binding, member)).await?;
        }
        Ok(remaining)
    }

    /// Deletes the member with this UID.
    pub(crate) async fn delete(&self, member: &DynamicObject) -> kube::Result<()> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: member.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        self.clusters().delete(&member.name_any(), &parameters).await.map(drop)
    }
}

/// The desired taints of a member; `None` if it has them already.
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

fn in_base64(token: &SecretString) -> String {
    BASE64_STANDARD.encode(token.expose_secret())
}

/// The digest of a certificate authority.
fn digest(authority: &str) -> String {
    BASE64_STANDARD.encode(Sha256::digest(authority).0)
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
            uid: None,
        }
    }

    #[test]
    fn a_member_that_exists_is_applied_to_itself_only() {
        assert!(member().object()["metadata"].get("uid").is_none());
        let existing = Member { uid: Some("u2".into()), ..member() };
        assert_eq!(existing.object()["metadata"]["uid"], "u2");
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
