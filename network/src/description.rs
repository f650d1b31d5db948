//! How the objects of a kind describe a network.

use std::fmt;
use std::sync::Arc;

use capa_api::common::MachineRole;
use capa_api::conditions::Reason;
use capa_api::meta::NETWORK_SOURCE_LABEL;
use capa_api::network::MachineNetwork;
use capa_api::network_mapping::MappingAuthority;
use serde_json::{Value, json};

use crate::ack::{AckKind, NoNetwork, SYNCED};
use crate::data;
use crate::infrastructure_network::infrastructure_network;
use crate::joined::joined;
use crate::mapping::{Mapping, Unmapped};
use crate::parse::{WrongType, in_contract, parse};
use crate::{Field, Problem, Trust, trust_of};

/// Maximum size of an object that is read as a source, in bytes of its JSON form.
const LARGEST: usize = 256 << 10;

/// Maximum length of the names of several objects in a message, in characters.
const NAMES: usize = 200;

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKind {
    /// API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl SourceKind {
    /// Name of the AWSNetworkMapping that reads all objects of the kind: `<kind in lower case>.<API group, or core>`.
    pub fn mapping_name(&self) -> String {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        format!("{}.{group}", self.kind.to_lowercase())
    }

    /// The description of a kind without a mapping. `publishes_network` says whether the CRD of the kind has the label
    /// of the network contract.
    pub fn built_in(&self, publishes_network: bool) -> Option<Description> {
        if self.group.is_empty() && matches!(self.kind.as_str(), "ConfigMap" | "Secret") {
            return Some(Description::Data);
        }
        let ack = AckKind::find(&self.group, &self.kind).map(Description::Ack);
        ack.or_else(|| publishes_network.then_some(Description::Status))
    }
}

/// How the objects of a kind describe a network.
#[derive(Clone, Debug)]
pub enum Description {
    /// By the expressions of an AWSNetworkMapping.
    Mapping(Arc<Mapping>),
    /// By the fields of an ACK kind.
    Ack(AckKind),
    /// By the values of a ConfigMap or Secret.
    Data,
    /// In `status.network`, or in CAPA's fields of an AWSCluster that another controller manages.
    Status,
}

impl Description {
    /// The trust in objects of the kind.
    pub fn trust(&self, kind: &SourceKind) -> Trust {
        match self {
            Self::Mapping(mapping) if mapping.authority() == MappingAuthority::Allowed => Trust::Authority,
            Self::Mapping(_) | Self::Ack(_) | Self::Data => Trust::Placement,
            Self::Status => trust_of(&kind.group, &kind.kind),
        }
    }

    /// The fields that objects of the kind can supply to machines of a role.
    pub fn fields(&self, kind: &SourceKind, role: Option<MachineRole>) -> Vec<Field> {
        match self {
            Self::Mapping(mapping) => mapping.fields(),
            Self::Ack(ack) => ack.fields(role),
            Self::Data | Self::Status => Field::allowed(self.trust(kind)),
        }
    }

    /// `Kind/name` of the objects, and their network. The network is `None` while an object has not published its
    /// network.
    ///
    /// # Errors
    /// The problem of the first object that cannot be used, or the conflict of two objects. The problem contains no
    /// value of an object.
    pub fn network(
        &self,
        kind: &SourceKind,
        objects: &[Value],
        role: Option<MachineRole>,
    ) -> (String, Result<Option<MachineNetwork>, Problem>) {
        let mut objects: Vec<(&str, &Value)> = objects.iter().map(|object| (name(object), object)).collect();
        objects.sort_by_key(|(name, _)| *name);
        let names: Vec<&str> = objects.iter().map(|(name, _)| *name).collect();
        let names: String = names.join(",").chars().take(NAMES).collect();
        let described = format!("{}/{names}", kind.kind);
        let each = objects.into_iter().map(|(name, object)| {
            let described = format!("{}/{name}", kind.kind);
            let network = self.of_object(kind, &described, object, role)?;
            Ok(network.map(|network| (described, network)))
        });
        let all: Result<Option<Vec<_>>, Problem> = each.collect();
        let network = all.and_then(|networks| networks.map(joined).transpose());
        (described, network)
    }

    fn of_object(
        &self,
        kind: &SourceKind,
        described: &str,
        object: &Value,
        role: Option<MachineRole>,
    ) -> Result<Option<MachineNetwork>, Problem> {
        check_size(described, object)?;
        let is_data = SourceKind::built_in(kind, false).is_some_and(|built_in| matches!(built_in, Self::Data));
        if is_data {
            check_label(kind, described, object)?;
        }
        let in_object = |wrong: WrongType| wrong_type(described, &wrong, "correct it there");
        match self {
            Self::Mapping(mapping) => {
                let data = if is_data { data::data(&kind.kind, object) } else { json!({}) };
                let network = mapping.network(object, &data);
                network.map(Some).map_err(|unmapped| of_mapping(described, mapping, unmapped))
            }
            Self::Ack(ack) => {
                let network = ack.network(object, role).map(Some);
                network.map_err(|reason| of_ack(described, reason))
            }
            Self::Data => data::network(&kind.kind, object).map(Some).map_err(in_object),
            Self::Status => {
                let network = infrastructure_network(&kind.group, &kind.kind, object);
                let network = network.map(|network| parse(&network)).transpose();
                network.map_err(|wrong| in_object(in_contract(wrong)))
            }
        }
    }
}

fn name(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

fn check_size(described: &str, object: &Value) -> Result<(), Problem> {
    let size = serde_json::to_vec(object).map_or(usize::MAX, |text| text.len());
    if size <= LARGEST {
        return Ok(());
    }
    let largest = LARGEST >> 10;
    Err(Problem::new(
        Reason::TooLarge,
        format!("{described} is larger than {largest} KiB: publish the network in a smaller object"),
    ))
}

fn check_label(kind: &SourceKind, described: &str, object: &Value) -> Result<(), Problem> {
    let labels = object.pointer("/metadata/labels");
    let label = labels.and_then(|labels| labels.get(NETWORK_SOURCE_LABEL));
    if kind.kind != "Secret" || label.is_some_and(|value| value == "true") {
        return Ok(());
    }
    Err(Problem::new(
        Reason::NotAllowed,
        format!(
            "{described} does not have the label {NETWORK_SOURCE_LABEL}: \"true\", so it is not read as a network: add \
             the label"
        ),
    ))
}

fn wrong_type(described: &str, WrongType { path, expected }: &WrongType, remedy: impl fmt::Display) -> Problem {
    Problem::new(
        Reason::WrongType,
        format!(
            "{described}: {path} does not have the type of the network contract: it has to be {expected}; {remedy}"
        ),
    )
}

fn of_ack(described: &str, reason: NoNetwork) -> Problem {
    match reason {
        NoNetwork::NotSynced => Problem::new(
            Reason::NotReady,
            format!("{described} is not synchronised with AWS: its condition {SYNCED} is not True yet"),
        ),
        NoNetwork::Missing(path) => Problem::new(Reason::NotReady, format!("{described} has no {path} yet")),
        NoNetwork::WrongType(wrong) => wrong_type(described, &wrong, "correct it there"),
    }
}

fn of_mapping(described: &str, mapping: &Mapping, unmapped: Unmapped) -> Problem {
    let mapping = mapping.name();
    match unmapped {
        Unmapped::NotReady => Problem::new(
            Reason::NotReady,
            format!("{described} is not ready: readyWhen of AWSNetworkMapping/{mapping} is not true yet"),
        ),
        Unmapped::WrongType(WrongType { path, expected }) => Problem::new(
            Reason::WrongType,
            format!(
                "{described}: {path}, as AWSNetworkMapping/{mapping} reads it, has to be {expected}; correct the \
                 object or the mapping"
            ),
        ),
        Unmapped::TooMuchWork(path) => Problem::new(
            Reason::TooLarge,
            format!(
                "{described} is too large for {path} of AWSNetworkMapping/{mapping}: shorten the object's lists, or \
                 simplify the expression"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use capa_api::meta::GROUP;

    use super::*;

    fn kind(group: &str, kind: &str) -> SourceKind {
        SourceKind { group: group.into(), kind: kind.into() }
    }

    fn mapped(fields: &str, more: &str) -> Description {
        let spec = format!("{{source: {{apiGroup: example.org, kind: Landscape}}, fields: {{{fields}}}{more}}}");
        let spec = serde_saphyr::from_str(&spec).unwrap();
        Description::Mapping(Arc::new(Mapping::compile("m", &spec).unwrap()))
    }

    fn problem(description: &Description, kind: &SourceKind, object: Value) -> Problem {
        description.network(kind, &[object], None).1.unwrap_err()
    }

    #[test]
    fn each_kind_has_its_description() {
        let built_in = |group: &str, name: &str, label| match kind(group, name).built_in(label) {
            Some(Description::Data) => "data",
            Some(Description::Ack(_)) => "ack",
            Some(Description::Status) => "status",
            Some(Description::Mapping(_)) => "mapping",
            None => "none",
        };
        assert_eq!(built_in("", "ConfigMap", false), "data");
        assert_eq!(built_in("", "Secret", false), "data");
        assert_eq!(built_in("example.org", "ConfigMap", false), "none");
        assert_eq!(built_in("ec2.services.k8s.aws", "Subnet", false), "ack");
        assert_eq!(built_in(GROUP, "AWSCluster", true), "status");
        assert_eq!(built_in("example.org", "Landscape", true), "status");
        assert_eq!(built_in("example.org", "Landscape", false), "none");
        assert_eq!(kind("", "ConfigMap").mapping_name(), "configmap.core");
        assert_eq!(kind("example.org", "Landscape").mapping_name(), "landscape.example.org");
    }

    #[test]
    fn only_our_own_kind_and_allowed_mappings_hold_authority() {
        let landscape = kind("example.org", "Landscape");
        let table = [
            (Description::Status, kind(GROUP, "AWSCluster"), Trust::Authority),
            (Description::Status, kind(GROUP, "AWSMachine"), Trust::Authority),
            (Description::Status, kind("example.org", "AWSCluster"), Trust::Placement),
            (Description::Status, landscape.clone(), Trust::Placement),
            (Description::Data, kind("", "ConfigMap"), Trust::Placement),
            (mapped("region: self.a", ""), kind(GROUP, "AWSCluster"), Trust::Placement),
            (mapped("region: self.a", ", authority: None"), landscape.clone(), Trust::Placement),
            (mapped("region: self.a", ", authority: Allowed"), landscape, Trust::Authority),
        ];
        for (description, kind, trust) in table {
            assert_eq!(description.trust(&kind), trust, "{} of {kind:?}", "authority");
        }
        let ack = kind("elbv2.services.k8s.aws", "TargetGroup");
        assert_eq!(ack.built_in(false).unwrap().trust(&ack), Trust::Placement);
    }

    #[test]
    fn the_fields_of_an_object_that_cannot_be_read_follow_from_the_trust() {
        for (group, name, supplies_identity) in [(GROUP, "AWSCluster", true), ("example.org", "Landscape", false)] {
            let fields = Description::Status.fields(&kind(group, name), None);
            assert_eq!(fields.contains(&Field::IdentityRef), supplies_identity, "{name}");
            assert!(fields.contains(&Field::Region), "{name}");
        }
    }

    #[test]
    fn a_secret_needs_the_label_with_a_mapping_as_well() {
        let secret = kind("", "Secret");
        let object = |label: &str| {
            let metadata = json!({"name": "s", "labels": {NETWORK_SOURCE_LABEL: label}});
            json!({"metadata": metadata, "data": {"region": "aHVudGVyMg=="}})
        };
        for description in [Description::Data, mapped("region: data.region", "")] {
            for label in ["false", ""] {
                let problem = problem(&description, &secret, object(label));
                assert_eq!(problem.reason, Reason::NotAllowed);
                assert!(problem.message.starts_with("Secret/s does not have the label"), "{}", problem.message);
            }
            let (name, network) = description.network(&secret, &[object("true")], None);
            assert_eq!(name, "Secret/s");
            assert_eq!(network.unwrap().unwrap().region.as_deref(), Some("hunter2"));
        }
    }

    #[test]
    fn an_object_that_is_too_large_is_not_evaluated() {
        let object = json!({"metadata": {"name": "c"}, "data": {"region": "x".repeat(LARGEST)}});
        let problem = problem(&Description::Data, &kind("", "ConfigMap"), object);
        assert_eq!(problem.reason, Reason::TooLarge);
        assert_eq!(problem.message, "ConfigMap/c is larger than 256 KiB: publish the network in a smaller object");
    }

    #[test]
    fn a_problem_names_object_path_and_type_and_no_value() {
        let landscape = kind("example.org", "Landscape");
        let object = json!({"metadata": {"name": "l"}, "status": {"network": {"region": ["hunter2"]}, "many":
            (0..20_000).collect::<Vec<_>>()}});
        let table = [
            (
                Description::Status,
                Reason::WrongType,
                "Landscape/l: status.network.region does not have the type of the network contract: it has to be a \
                 string; correct it there",
            ),
            (
                mapped("region: self.status.network.region", ""),
                Reason::WrongType,
                "Landscape/l: region, as AWSNetworkMapping/m reads it, has to be a string; correct the object or the \
                 mapping",
            ),
            (
                mapped("region: self.a", ", readyWhen: self.status.ready"),
                Reason::NotReady,
                "Landscape/l is not ready: readyWhen of AWSNetworkMapping/m is not true yet",
            ),
            (
                mapped("subnets: 'self.status.many.map(a, self.status.many.map(b, a + b))'", ""),
                Reason::TooLarge,
                "Landscape/l is too large for subnets of AWSNetworkMapping/m: shorten the object's lists, or simplify \
                 the expression",
            ),
        ];
        for (description, reason, message) in table {
            let problem = problem(&description, &landscape, object.clone());
            assert_eq!((problem.reason, problem.message.as_str()), (reason, message));
        }
    }

    #[test]
    fn several_objects_are_joined_in_name_order() {
        let subnet = |name: &str, id: &str| {
            json!({
                "metadata": {"name": name},
                "status": {"subnetID": id, "conditions": [{"type": "ACK.ResourceSynced", "status": "True"}]},
            })
        };
        let kind = kind("ec2.services.k8s.aws", "Subnet");
        let description = kind.built_in(false).unwrap();
        let objects = [subnet("b", "subnet-0000000b"), subnet("a", "subnet-0000000a")];
        let (name, network) = description.network(&kind, &objects, None);
        assert_eq!(name, "Subnet/a,b");
        let ids: Vec<_> = network.unwrap().unwrap().subnets.into_iter().map(|subnet| subnet.id).collect();
        assert_eq!(ids, ["subnet-0000000a", "subnet-0000000b"]);
        let waiting = json!({"metadata": {"name": "c"}});
        let (_, network) = description.network(&kind, &[subnet("a", "subnet-0000000a"), waiting], None);
        let problem = network.expect_err("all objects are waited for");
        assert_eq!(problem.reason, Reason::NotReady);
        assert!(problem.message.contains("Subnet/c"), "{}", problem.message);
    }
}
