//! The sources of a machine's network, in the order of the network contract. Pure.

use capa_api::conditions::Reason;
use capa_api::contract::ContractReference;
use capa_api::machine::AWSMachineSpec;
use capa_api::meta::MACHINE_NETWORK_LABEL;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet};
use capa_network::{Contribution, Problem, Source, Trust, trust_of};
use serde_json::Value;

use crate::kubernetes_api::Infrastructure;

/// The spec of a machine or of a machine template as a source: region, identity, targets, subnet by id, and security
/// groups by role.
pub(super) fn from_spec(name: String, spec: &AWSMachineSpec) -> Source {
    let subnet_id = spec
        .subnet
        .as_ref()
        .and_then(|subnet| subnet.id.clone())
        .filter(|id| !id.is_empty());
    let network = MachineNetwork {
        region: spec.region.clone(),
        identity_ref: spec.identity_ref.clone(),
        control_plane_targets: spec.control_plane_targets.clone(),
        subnets: subnet_id
            .into_iter()
            .map(|id| NetworkSubnet {
                id,
                ..NetworkSubnet::default()
            })
            .collect(),
        security_groups: Some(NetworkSecurityGroups::from_overrides(&spec.security_group_overrides)),
        ..MachineNetwork::default()
    };
    Source {
        name,
        trust: Trust::Authority,
        contribution: Contribution::Network(Box::new(network)),
    }
}

/// The cluster's infrastructure object as a source; `None` where its kind does not implement the network contract.
pub(super) fn from_infrastructure(reference: &ContractReference, read: Infrastructure) -> Option<Source> {
    let ContractReference { api_group, kind, name } = reference;
    let described = format!("{kind}/{name}");
    let unusable = |reason, message: String| Contribution::Unusable(Problem::new(reason, message));
    let contribution = match read {
        Infrastructure::Silent => return None,
        Infrastructure::Published(Some(value)) => match parse(value) {
            Ok(network) => Contribution::Network(Box::new(network)),
            Err(path) => unusable(
                Reason::WrongType,
                format!(
                    "{described}: status.network.{path} has not the type of the network contract: correct it there"
                ),
            ),
        },
        Infrastructure::Published(None) => unusable(
            Reason::NotReady,
            format!("{described} has published no status.network yet"),
        ),
        Infrastructure::NotFound => unusable(
            Reason::NotFound,
            format!("{described}, which the Cluster names in spec.infrastructureRef, does not exist"),
        ),
        Infrastructure::NoKindMatch => unusable(
            Reason::NoKindMatch,
            format!("the API server serves no kind {kind} in group {api_group}: install its CRD"),
        ),
        Infrastructure::Forbidden => unusable(
            Reason::Forbidden,
            format!(
                "the manager may not read {kind} in group {api_group}: bind a ClusterRole labelled \
                 infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs: \"true\" that allows get"
            ),
        ),
        Infrastructure::Unreadable { text, .. } => unusable(
            Reason::Failed,
            format!(
                "{described}, which the Cluster names in spec.infrastructureRef, cannot be read: {text}; correct the \
                 webhook or API that serves the kind, and the manager reads the object again"
            ),
        ),
    };
    Some(Source {
        name: described,
        trust: trust_of(api_group, kind),
        contribution,
    })
}

/// Reads `status.network` field by field, so that an error can name the path. An error never contains a value: the
/// object may hold secrets.
fn parse(value: Value) -> Result<MachineNetwork, String> {
    let Value::Object(fields) = value else {
        return Err(String::new());
    };
    let mut accepted = serde_json::Map::new();
    for (name, value) in fields {
        let mut alone = serde_json::Map::new();
        alone.insert(name.clone(), value.clone());
        if !value.is_null() {
            serde_json::from_value::<MachineNetwork>(Value::Object(alone)).map_err(|_| name.clone())?;
            accepted.insert(name, value);
        }
    }
    serde_json::from_value(Value::Object(accepted)).map_err(|_| String::new())
}

/// Whether a CRD with these labels publishes networks.
pub(crate) fn publishes_network(labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    labels
        .and_then(|labels| labels.get(MACHINE_NETWORK_LABEL))
        .is_some_and(|contract| contract == capa_api::meta::MACHINE_NETWORK_CONTRACT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference() -> ContractReference {
        ContractReference {
            api_group: "example.org".into(),
            kind: "Landscape".into(),
            name: "l".into(),
        }
    }

    fn problem(read: Infrastructure) -> Problem {
        match from_infrastructure(&reference(), read).unwrap().contribution {
            Contribution::Unusable(problem) => problem,
            Contribution::Network(network) => panic!("usable: {network:?}"),
        }
    }

    #[test]
    fn an_object_without_the_contract_is_no_error() {
        assert!(from_infrastructure(&reference(), Infrastructure::Silent).is_none());
    }

    #[test]
    fn an_unusable_object_says_why_and_how_to_mend_it() {
        assert_eq!(problem(Infrastructure::NotFound).reason, Reason::NotFound);
        assert_eq!(problem(Infrastructure::Published(None)).reason, Reason::NotReady);
        assert!(
            problem(Infrastructure::Forbidden)
                .message
                .contains("aggregate-to-capa-rs")
        );
        assert!(
            problem(Infrastructure::NoKindMatch)
                .message
                .contains("Landscape in group example.org")
        );
    }

    #[test]
    fn a_wrong_type_is_named_by_its_path_and_never_by_its_value() {
        let read = Infrastructure::Published(Some(json!({"region": "r", "subnets": "hunter2"})));
        let problem = problem(read);
        assert_eq!(problem.reason, Reason::WrongType);
        assert!(
            problem.message.contains("status.network.subnets"),
            "{}",
            problem.message
        );
        assert!(!problem.message.contains("hunter2"), "{}", problem.message);
    }

    #[test]
    fn a_foreign_kind_is_read_like_our_own_but_trusted_less() {
        let network = json!({"region": "eu-west-1", "subnets": [{"id": "subnet-00000001"}], "unknownField": 1});
        let foreign = from_infrastructure(&reference(), Infrastructure::Published(Some(network.clone()))).unwrap();
        let ours = ContractReference {
            api_group: capa_api::meta::GROUP.into(),
            kind: "AWSCluster".into(),
            ..reference()
        };
        let ours = from_infrastructure(&ours, Infrastructure::Published(Some(network))).unwrap();
        assert_eq!((foreign.trust, ours.trust), (Trust::Placement, Trust::Authority));
        assert!(matches!(foreign.contribution, Contribution::Network(_)));
    }
}
