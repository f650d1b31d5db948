//! The sources of a machine's network, in the order of the network contract. Pure.

use std::fmt;

use capa_api::conditions::Reason;
use capa_api::contract::ContractReference;
use capa_api::machine::AWSMachineSpec;
use capa_api::meta::MACHINE_NETWORK_LABEL;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet};
use capa_api::network_schema::{self, Step};
use capa_network::{Contribution, Problem, Source, Trust, UnlabelledKind, trust_of};
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::kubernetes_api::Infrastructure;

/// The longest part of a path that a message repeats: the keys of maps in the object are anybody's.
const SHOWN: usize = 200;

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

/// The cluster's infrastructure object as a source.
pub(super) fn from_infrastructure(reference: &ContractReference, read: Infrastructure) -> Source {
    let ContractReference { api_group, kind, name } = reference;
    let described = format!("{kind}/{name}");
    let unusable = |reason, message: String| Contribution::Unusable(Problem::new(reason, message));
    let contribution = match read {
        Infrastructure::Silent => Contribution::Unlabelled(UnlabelledKind {
            group: api_group.clone(),
            kind: kind.clone(),
        }),
        Infrastructure::Published(Some(value)) => match parse(&value) {
            Ok(network) => Contribution::Network(Box::new(network)),
            Err(wrong) => unusable(Reason::WrongType, format!("{described}: {wrong}")),
        },
        Infrastructure::Published(None) => unusable(
            Reason::NotReady,
            format!("{described} has published no status.network yet"),
        ),
        Infrastructure::NotFound => unusable(
            Reason::NotFound,
            format!(
                "{described}, which the Cluster names in spec.infrastructureRef, does not exist: create it, or correct the Cluster"
            ),
        ),
        Infrastructure::NoKindMatch => unusable(
            Reason::NoKindMatch,
            format!("the API server serves no kind {kind} in group {api_group}: install its CRD"),
        ),
        Infrastructure::Forbidden => unusable(
            Reason::Forbidden,
            format!(
                "the manager may not read {kind} in group {api_group}: create a ClusterRole that allows get on it, \
                 with the label infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs: \"true\""
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
    Source {
        name: described,
        trust: trust_of(api_group, kind),
        contribution,
    }
}

/// A value of another type than that of the network contract. The value is not kept, because it may be a secret.
#[derive(Debug)]
struct WrongType {
    /// Full path of the field.
    path: String,
    /// The type of the contract, in words.
    expected: String,
}

impl fmt::Display for WrongType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected } = self;
        write!(
            formatter,
            "{path} does not have the type of the network contract: it has to be {expected}; correct it there"
        )
    }
}

/// Reads `status.network`. A field that is null counts as absent.
fn parse(network: &Value) -> Result<MachineNetwork, WrongType> {
    serde_path_to_error::deserialize(&without_nulls(network)).map_err(|error| {
        let path = error.path();
        let steps = path.iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(Step::Field(key)),
            Segment::Seq { .. } => Some(Step::Item),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let below: String = path.to_string().chars().take(SHOWN).collect();
        WrongType {
            path: match below.as_str() {
                "." => "status.network".to_owned(),
                below => format!("status.network.{below}"),
            },
            expected: network_schema::expected_type(steps),
        }
    })
}

fn without_nulls(network: &Value) -> Value {
    match network {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        plain => plain.clone(),
    }
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
        match from_infrastructure(&reference(), read).contribution {
            Contribution::Unusable(problem) => problem,
            usable => panic!("usable: {usable:?}"),
        }
    }

    #[test]
    fn an_object_without_the_contract_is_no_error() {
        let Contribution::Unlabelled(kind) = from_infrastructure(&reference(), Infrastructure::Silent).contribution
        else {
            panic!("an object without the label is no source");
        };
        assert_eq!((kind.group.as_str(), kind.kind.as_str()), ("example.org", "Landscape"));
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
    fn a_wrong_type_has_its_full_path_and_the_expected_type() {
        let table = [
            (json!("hunter2"), "status.network", "an object"),
            (
                json!({"region": "r", "subnets": "hunter2"}),
                "status.network.subnets",
                "a list of objects with id",
            ),
            (
                json!({"subnets": [{"id": "subnet-1"}, {"id": ["hunter2"]}]}),
                "status.network.subnets[1].id",
                "a string",
            ),
            (
                json!({"subnets": [{"availabilityZone": "hunter2"}]}),
                "status.network.subnets[0]",
                "an object with id",
            ),
            (
                json!({"subnets": [{"id": "subnet-1", "public": "hunter2"}]}),
                "status.network.subnets[0].public",
                "true or false",
            ),
            (
                json!({"subnets": [{"id": "subnet-1", "roles": ["hunter2"]}]}),
                "status.network.subnets[0].roles[0]",
                "one of ControlPlane, Worker",
            ),
            (
                json!({"securityGroups": {"all": "hunter2"}}),
                "status.network.securityGroups.all",
                "a list of strings",
            ),
            (
                json!({"vpc": {"cidrBlocks": []}}),
                "status.network.vpc",
                "an object with id",
            ),
            (
                json!({"additionalTags": {"a.b/c": 1}}),
                "status.network.additionalTags.a.b/c",
                "a string",
            ),
            (
                json!({"identityRef": {"kind": "hunter2", "name": "n"}}),
                "status.network.identityRef.kind",
                "one of AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity",
            ),
        ];
        for (network, path, expected) in table {
            let problem = problem(Infrastructure::Published(Some(network)));
            assert_eq!(problem.reason, Reason::WrongType);
            assert_eq!(
                problem.message,
                format!(
                    "Landscape/l: {path} does not have the type of the network contract: it has to be {expected}; \
                     correct it there"
                )
            );
        }
    }

    #[test]
    fn a_field_that_is_null_counts_as_absent() {
        let network = json!({"region": null, "subnets": [{"id": "subnet-1", "roles": null}], "vpc": null});
        let source = from_infrastructure(&reference(), Infrastructure::Published(Some(network)));
        assert!(matches!(source.contribution, Contribution::Network(_)));
    }

    #[test]
    fn the_path_of_a_wrong_type_is_cut() {
        let network = json!({"additionalTags": {"x".repeat(100_000): 1}});
        assert!(problem(Infrastructure::Published(Some(network))).message.len() < 2 * SHOWN + 200);
    }

    #[test]
    fn a_foreign_kind_is_read_like_our_own_but_trusted_less() {
        let network = json!({"region": "eu-west-1", "subnets": [{"id": "subnet-00000001"}], "unknownField": 1});
        let foreign = from_infrastructure(&reference(), Infrastructure::Published(Some(network.clone())));
        let ours = ContractReference {
            api_group: capa_api::meta::GROUP.into(),
            kind: "AWSCluster".into(),
            ..reference()
        };
        let ours = from_infrastructure(&ours, Infrastructure::Published(Some(network)));
        assert_eq!((foreign.trust, ours.trust), (Trust::Placement, Trust::Authority));
        assert!(matches!(foreign.contribution, Contribution::Network(_)));
    }
}
