//! Decides which Secrets contain bootstrap data. Pure.
//!
//! A user who may create Machines chooses the Secret that an instance gets, and reads the Secret with the instance. So
//! a Secret counts as bootstrap data only if its author has marked it: by its owner, by its type, by a label, or as
//! HyperShift does.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::ContractReference;
use capa_api::forms::is_dns_subdomain;
use capa_api::meta;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use crate::invalid_value::shortened;

/// The type of the Secrets that Cluster API and its providers make.
const CLUSTER_SECRET: &str = "cluster.x-k8s.io/secret";

/// The API group of bootstrap providers. Objects of other groups own Secrets for other purposes.
const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";

/// Rancher uses the API group of its bootstrap provider for other purposes too, and the provider's objects own other
/// Secrets. So a Secret must have the type of bootstrap data.
const RANCHER: (&str, &str, &str) = ("rke.cattle.io", "RKEBootstrap", "rke.cattle.io/bootstrap");

/// HyperShift gives the user data of a NodePool neither an owner nor a type. Its other Secrets with this annotation,
/// such as the token of the NodePool, have other names.
const HYPERSHIFT: (&str, &str) = ("hypershift.openshift.io/nodePool", "user-data-");

/// The purposes of Secrets of this type. The name of such a Secret is the name of a cluster followed by a purpose. All
/// but the last are the purposes that Cluster API itself knows; the last is the token with which the nodes of K3s and
/// RKE2 join.
const PURPOSES: [&str; 8] =
    ["kubeconfig", "user-kubeconfig", "ca", "etcd", "sa", "proxy", "apiserver-etcd-client", "token"];

/// Refuses a name that no Secret can have. A request with such a name could reach another object than a Secret.
pub(crate) fn validate_name(name: &str) -> Result<(), ConditionUpdate> {
    if is_dns_subdomain(name) {
        return Ok(());
    }
    let shown = shortened(name);
    let message =
        format!("spec.bootstrap.dataSecretName of the Machine is {shown:?}, which no Secret is named: correct it");
    Err(ConditionType::BootstrapDataReady.is_false(Reason::InvalidSpec, message))
}

/// Refuses a Secret that is not known to be bootstrap data. `source` is the bootstrap object that the Machine names.
pub(crate) fn validate(secret: &Secret, source: Option<&ContractReference>) -> Result<(), ConditionUpdate> {
    if is_owned_by(secret, source) || is_labelled(secret) || is_user_data_of_hypershift(secret) {
        return Ok(());
    }
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let message = match (secret.type_.as_deref(), purpose(name)) {
        (Some(CLUSTER_SECRET), None) => return Ok(()),
        (Some(CLUSTER_SECRET), Some(purpose)) => format!(
            "Secret {name} is not handed to an instance: by its type and name it is the {purpose} of a cluster; \
             correct spec.bootstrap of the Machine"
        ),
        _ => format!(
            "Secret {name} is not handed to an instance: nothing says that it is bootstrap data; if it is, give it the \
             label {}: \"true\"",
            meta::BOOTSTRAP_DATA_LABEL
        ),
    };
    Err(ConditionType::BootstrapDataReady.is_false(Reason::NotAllowed, message))
}

/// Whether the bootstrap object of the Machine owns the Secret, as Cluster API's contract for bootstrap providers asks.
/// A bootstrap object also owns the certificate authorities that it has created for a cluster, which are recognized by
/// their names.
fn is_owned_by(secret: &Secret, source: Option<&ContractReference>) -> bool {
    let Some(ContractReference { api_group, kind, name }) = source else {
        return false;
    };
    let (group, of_kind, type_) = RANCHER;
    let is_of_rancher = api_group == group && kind == of_kind && secret.type_.as_deref() == Some(type_);
    if api_group != BOOTSTRAP_GROUP && !is_of_rancher {
        return false;
    }
    let owner = meta::owner(&secret.metadata, api_group, kind);
    let is_named_like_source = secret.metadata.name.as_ref() == Some(name);
    let claimed = secret.metadata.name.as_deref().and_then(purpose);
    owner.is_some_and(|owner| owner.name == *name) && (claimed.is_none() || is_named_like_source)
}

/// Whether the label of bootstrap data is `true`.
fn is_labelled(secret: &Secret) -> bool {
    secret.labels().get(meta::BOOTSTRAP_DATA_LABEL).is_some_and(|value| value == "true")
}

/// Whether the Secret is the user data of a NodePool of HyperShift.
fn is_user_data_of_hypershift(secret: &Secret) -> bool {
    let (annotation, prefix) = HYPERSHIFT;
    let is_user_data = |name: &str| name.starts_with(prefix) && purpose(name).is_none();
    secret.annotations().contains_key(annotation) && secret.metadata.name.as_deref().is_some_and(is_user_data)
}

/// The purpose of a Secret of this name; `None` for a name without a purpose.
fn purpose(name: &str) -> Option<&'static str> {
    let ends = |purpose: &&&str| name.strip_suffix(**purpose).is_some_and(|rest| rest.ends_with('-'));
    PURPOSES.iter().find(ends).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIG: &str = "bootstrap.cluster.x-k8s.io/v1beta2/KubeadmConfig/m";

    /// A Secret by name and type, with a label's value and an owner (`group/version/Kind/name`) where given.
    fn secret(name: &str, kind: &str, label: Option<&str>, owner: Option<&str>) -> Secret {
        let labels = label.map(|value| json!({meta::BOOTSTRAP_DATA_LABEL: value}));
        let owners = owner.map(|owner| {
            let parts: Vec<&str> = owner.split('/').collect();
            let [group, version, kind, name] = parts.as_slice() else {
                panic!("{owner}");
            };
            json!([{"apiVersion": format!("{group}/{version}"), "kind": kind, "name": name, "uid": "u"}])
        });
        let metadata = json!({"name": name, "labels": labels, "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata, "type": kind})).unwrap()
    }

    fn refusal(secret: &Secret) -> Option<String> {
        let source = ContractReference {
            api_group: "bootstrap.cluster.x-k8s.io".into(),
            kind: "KubeadmConfig".into(),
            name: "m".into(),
        };
        let update = validate(secret, Some(&source)).err()?;
        assert_eq!(update.reason, Reason::NotAllowed);
        Some(update.message)
    }

    #[test]
    fn a_secret_is_bootstrap_data_by_owner_type_or_label() {
        for (name, kind, label, owner) in [
            ("boot", CLUSTER_SECRET, None, None),
            ("dev-kubeconfigs", CLUSTER_SECRET, None, None),
            ("kubeconfig", CLUSTER_SECRET, None, None),
            ("boot", "Opaque", Some("true"), None),
            ("boot", "Opaque", None, Some(CONFIG)),
            ("dev-ca", "Opaque", Some("true"), None),
        ] {
            assert_eq!(refusal(&secret(name, kind, label, owner)), None, "{name} {kind}");
        }
    }

    #[test]
    fn the_secrets_of_a_cluster_are_no_bootstrap_data() {
        for purpose in PURPOSES {
            let message = refusal(&secret(&format!("dev-{purpose}"), CLUSTER_SECRET, None, None)).unwrap();
            assert!(message.contains(&format!("dev-{purpose} is not handed")), "{message}");
        }
        let made_by_config = secret("dev-ca", CLUSTER_SECRET, None, Some(CONFIG));
        assert!(refusal(&made_by_config).unwrap().contains("the ca of a cluster"));
    }

    #[test]
    fn any_other_secret_is_refused_and_names_the_label() {
        let other = "bootstrap.cluster.x-k8s.io/v1beta2/KubeadmConfig/another";
        let other_kind = "controlplane.cluster.x-k8s.io/v1beta2/KubeadmControlPlane/m";
        for (kind, label, owner) in [
            ("Opaque", None, None),
            ("Opaque", Some("false"), None),
            ("Opaque", None, Some(other)),
            ("Opaque", None, Some(other_kind)),
            ("kubernetes.io/service-account-token", None, None),
        ] {
            let message = refusal(&secret("app", kind, label, owner)).unwrap();
            assert!(message.contains(meta::BOOTSTRAP_DATA_LABEL), "{kind}: {message}");
        }
        assert!(validate(&secret("app", "Opaque", None, Some(CONFIG)), None).is_err());
    }

    #[test]
    fn an_owner_of_another_group_makes_no_bootstrap_data() {
        let source = ContractReference {
            api_group: "external-secrets.io".into(),
            kind: "ExternalSecret".into(),
            name: "db".into(),
        };
        let secret = secret("db", "Opaque", None, Some("external-secrets.io/v1/ExternalSecret/db"));
        assert!(validate(&secret, Some(&source)).is_err());
    }

    #[test]
    fn of_ranchers_secrets_only_bootstrap_data_is_delivered() {
        let source = |kind: &str, name: &str| ContractReference {
            api_group: "rke.cattle.io".into(),
            kind: kind.into(),
            name: name.into(),
        };
        let owner = Some("rke.cattle.io/v1/RKEBootstrap/w0");
        let data = "rke.cattle.io/bootstrap";
        let table = [
            ("w0-machine-bootstrap", data, owner, "RKEBootstrap", "w0", true),
            ("w0-machine-plan", "rke.cattle.io/machine-plan", owner, "RKEBootstrap", "w0", false),
            ("w0-machine-token", "kubernetes.io/service-account-token", owner, "RKEBootstrap", "w0", false),
            ("dev-kubeconfig", data, owner, "RKEBootstrap", "w0", false),
            ("w0-machine-bootstrap", data, owner, "RKEBootstrap", "another", false),
            ("w0-machine-bootstrap", data, None, "RKEBootstrap", "w0", false),
            ("w0", data, Some("rke.cattle.io/v1/RKEControlPlane/w0"), "RKEControlPlane", "w0", false),
        ];
        for (name, type_, owner, kind, named, is_delivered) in table {
            let answer = validate(&secret(name, type_, None, owner), Some(&source(kind, named)));
            assert_eq!(answer.is_ok(), is_delivered, "{name} {type_} {kind}/{named}: {answer:?}");
        }
    }

    #[test]
    fn of_hypershifts_secrets_only_user_data_is_delivered() {
        let annotated = |name: &str, annotation: &str| -> Secret {
            let metadata = json!({"name": name, "annotations": {annotation: "clusters/pool"}});
            serde_json::from_value(json!({"metadata": metadata, "type": "Opaque"})).unwrap()
        };
        let (annotation, _) = HYPERSHIFT;
        assert!(validate(&annotated("user-data-pool-4f1c", annotation), None).is_ok());
        assert!(validate(&annotated("token-pool-4f1c", annotation), None).is_err());
        assert!(validate(&annotated("user-data-pool-kubeconfig", annotation), None).is_err());
        assert!(validate(&annotated("user-data-pool-4f1c", "example.org/other"), None).is_err());
    }

    #[test]
    fn a_name_that_no_secret_has_is_refused_and_cut() {
        assert!(validate_name("dev-x7k2p").is_ok());
        let update = validate_name("../../kube-system/secrets/x").unwrap_err();
        assert_eq!(update.reason, Reason::InvalidSpec);
        assert!(update.message.contains("\"../../kube-system/secrets/x\""), "{}", update.message);
        assert!(validate_name(&"x".repeat(300)).unwrap_err().message.len() < 200);
    }
}
