//! The sources of a machine's network, in the order of the network contract. Pure.

use capa_api::common::MachineRole;
use capa_api::conditions::Reason;
use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_api::meta::MACHINE_NETWORK_LABEL;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet};
use capa_api::network_source::NetworkSource;
use capa_api::selector;
use capa_network::{Contribution, Problem, Source, SourceKind, Trust, UnlabelledKind};

use crate::kubernetes_api::{SourceObjects, SourceOutcome, SourceRead, SourceRequest};

/// The field that names a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// `spec.infrastructureRef` of the Cluster.
    Cluster,
    /// The entry of `spec.networkSources` with this index.
    Entry(usize),
}

impl NamedBy {
    /// The field in words, as a part of a sentence.
    fn words(self) -> String {
        match self {
            Self::Cluster => "which the Cluster names in spec.infrastructureRef".to_owned(),
            Self::Entry(index) => format!("which spec.networkSources[{index}] names"),
        }
    }

    /// What a user corrects if the object should be another one.
    const fn correction(self) -> &'static str {
        match self {
            Self::Cluster => "correct the Cluster",
            Self::Entry(_) => "name another one in a new AWSMachineTemplate",
        }
    }
}

/// The requests for the sources of a machine spec after the spec itself, in their order.
pub(crate) fn requests(
    spec: &AWSMachineSpec,
    role: Option<MachineRole>,
    cluster: &Cluster,
) -> Vec<(NamedBy, SourceRequest)> {
    let reference = cluster.spec.infrastructure_ref.as_ref();
    let infrastructure = reference.map(|reference| (NamedBy::Cluster, SourceRequest::infrastructure(reference)));
    let mut requests = entry_requests(spec, role);
    requests.extend(infrastructure);
    requests
}

/// The requests for the entries of `spec.networkSources` that serve a role, with their indexes. Without a role, all
/// entries are read.
fn entry_requests(spec: &AWSMachineSpec, role: Option<MachineRole>) -> Vec<(NamedBy, SourceRequest)> {
    let entries = spec.network_sources.iter().enumerate();
    entries
        .filter(|(_, entry)| role.is_none_or(|role| entry.serves(role)))
        .filter_map(|(index, entry)| Some((NamedBy::Entry(index), request(entry)?)))
        .collect()
}

/// The request for an entry. The schema refuses an entry with neither name nor selector, and invalid selectors.
fn request(entry: &NetworkSource) -> Option<SourceRequest> {
    let objects = match (&entry.name, &entry.selector) {
        (Some(name), _) => SourceObjects::Named(name.clone()),
        (None, Some(labels)) => SourceObjects::Selected(selector::parsed(labels)?.to_string()),
        (None, None) => return None,
    };
    Some(SourceRequest {
        kind: SourceKind { group: entry.effective_api_group().to_owned(), kind: entry.kind.clone() },
        objects,
        mapping: entry.mapping.clone(),
        role: entry.role,
    })
}

/// The spec of a machine or of a machine template as a source: region, identity, targets, subnet by id, and security
/// groups by role.
pub(crate) fn from_spec(name: String, spec: &AWSMachineSpec) -> Source {
    let subnet_id = spec.subnet.as_ref().and_then(|subnet| subnet.id.clone()).filter(|id| !id.is_empty());
    let network = MachineNetwork {
        region: spec.region.clone(),
        identity_ref: spec.identity_ref.clone(),
        control_plane_targets: spec.control_plane_targets.clone(),
        subnets: subnet_id.into_iter().map(|id| NetworkSubnet { id, ..NetworkSubnet::default() }).collect(),
        security_groups: Some(NetworkSecurityGroups::from_overrides(&spec.security_group_overrides)),
        ..MachineNetwork::default()
    };
    Source { name, trust: Trust::Authority, contribution: Contribution::Network(Box::new(network)) }
}

/// The objects of a request as a source.
pub(crate) fn from_read(named_by: NamedBy, request: &SourceRequest, read: SourceRead) -> Source {
    let SourceRead { trust, fields, outcome } = read;
    let described = request.to_string();
    let (name, problem) = match outcome {
        SourceOutcome::Described { name, network } => match network {
            Ok(Some(network)) => {
                let contribution = Contribution::Network(network);
                return Source { name, trust, contribution };
            }
            Ok(None) => {
                let message = format!("{name} has published no status.network yet");
                (name, Problem::new(Reason::NotReady, message))
            }
            Err(problem) => (name, problem),
        },
        SourceOutcome::Undescribed if named_by == NamedBy::Cluster => {
            let SourceKind { group, kind } = request.kind.clone();
            return Source {
                name: described,
                trust,
                contribution: Contribution::Unlabelled(UnlabelledKind { group, kind }),
            };
        }
        failure => (described, problem(named_by, request, failure)),
    };
    Source { name, trust, contribution: Contribution::Unusable { problem, fields } }
}

/// The problem of a source that was not read.
fn problem(named_by: NamedBy, request: &SourceRequest, failure: SourceOutcome) -> Problem {
    let named = format!("{request}, {},", named_by.words());
    let of_group = kind_and_group(&request.kind);
    let (reason, message) = match failure {
        SourceOutcome::Described { .. } | SourceOutcome::Undescribed => {
            let mapping = request.kind.mapping_name();
            let message = format!(
                "nothing says how to read {named} as a network: create the AWSNetworkMapping {mapping}, or name one in \
                 mapping"
            );
            (Reason::NotFound, message)
        }
        SourceOutcome::NotFound => (Reason::NotFound, absence(named_by, request)),
        SourceOutcome::NoKindMatch => {
            (Reason::NoKindMatch, format!("the API server serves no kind {of_group}: install its CRD"))
        }
        SourceOutcome::ClusterScoped => (
            Reason::NotFound,
            format!("{of_group} is cluster-scoped, and a source is in the namespace of the machine: use another kind"),
        ),
        SourceOutcome::Forbidden => {
            let verb = match request.objects {
                SourceObjects::Named(_) => "get",
                SourceObjects::Selected(_) => "list",
            };
            let message = format!(
                "the manager may not read {of_group}: create a ClusterRole that allows {verb} on it, with the label \
                 infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs: \"true\""
            );
            (Reason::Forbidden, message)
        }
        SourceOutcome::NoMapping => {
            let mapping = request.mapping.as_deref().unwrap_or_default();
            let message = format!("AWSNetworkMapping/{mapping}, which is to read {request}, does not exist: create it");
            (Reason::NotFound, message)
        }
        SourceOutcome::UnusableMapping { name, reads: Some(reads) } => {
            let reads = kind_and_group(&reads);
            let message =
                format!("AWSNetworkMapping/{name} reads {reads}, not {of_group}: name another mapping for {request}");
            (Reason::Conflict, message)
        }
        SourceOutcome::UnusableMapping { name, reads: None } => (
            Reason::NotReady,
            format!("AWSNetworkMapping/{name}, which is to read {request}, is not Ready: see its condition Ready"),
        ),
        SourceOutcome::Unreadable { text, .. } => {
            let is_core = request.kind.group.is_empty();
            let server = if is_core { "the API server" } else { "the webhook or API that serves the kind" };
            let message =
                format!("{named} cannot be read: {text}; correct {server}, and the manager reads the object again");
            (Reason::Failed, message)
        }
    };
    Problem::new(reason, message)
}

/// The message about an object that does not exist, or about labels that no object has.
fn absence(named_by: NamedBy, request: &SourceRequest) -> String {
    let words = named_by.words();
    match &request.objects {
        SourceObjects::Named(_) => {
            format!("{request}, {words}, does not exist: create it, or {}", named_by.correction())
        }
        SourceObjects::Selected(selector) => {
            format!("no {}, {words}, has the labels {selector}: create or label one", request.kind.kind)
        }
    }
}

fn kind_and_group(SourceKind { group, kind }: &SourceKind) -> String {
    if group.is_empty() { format!("{kind} in the core group") } else { format!("{kind} in group {group}") }
}

/// Whether a CRD with these labels publishes networks.
pub(crate) fn publishes_network(labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    labels
        .and_then(|labels| labels.get(MACHINE_NETWORK_LABEL))
        .is_some_and(|contract| contract == capa_api::meta::MACHINE_NETWORK_CONTRACT)
}

#[cfg(test)]
mod tests {
    use capa_network::Field;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::fields::{Row, assert_effect, spec_with};
    use crate::testing::read;

    fn spec(sources: &str) -> AWSMachineSpec {
        read(&format!("{{instanceType: t3.large, networkSources: [{sources}]}}"))
    }

    fn problem(outcome: SourceOutcome) -> Problem {
        let spec = spec("{apiGroup: example.org, kind: Landscape, name: l, mapping: m}");
        let (named_by, request) = entry_requests(&spec, None).remove(0);
        let read = SourceRead { trust: Trust::Placement, fields: vec![Field::Region], outcome };
        match from_read(named_by, &request, read).contribution {
            Contribution::Unusable { problem, fields } => {
                assert_eq!(fields, [Field::Region]);
                problem
            }
            usable => panic!("usable: {usable:?}"),
        }
    }

    #[test]
    fn each_field_of_an_entry_decides_what_is_read() {
        let expression = "networkSources: [{kind: Subnet, selector: {matchExpressions: [{key: a, operator: In, values: \
                          [b]}]}}]";
        let rows: [Row; 9] = [
            (
                "networkSources[].apiGroup",
                "networkSources: [{apiGroup: a.b, kind: K, name: net}]",
                "/0/group",
                json!("a.b"),
            ),
            ("networkSources[].kind", "networkSources: [{kind: K, name: net}]", "/0/kind", json!("K")),
            ("networkSources[].name", "networkSources: [{kind: K, name: net}]", "/0/objects", json!("K/net")),
            (
                "networkSources[].selector.matchLabels{}",
                "networkSources: [{kind: K, selector: {matchLabels: {a: b}}}]",
                "/0/objects",
                json!("K with a=b"),
            ),
            (
                "networkSources[].selector.matchExpressions[].key",
                expression,
                "/0/objects",
                json!("Subnet with a in (b)"),
            ),
            (
                "networkSources[].selector.matchExpressions[].operator",
                expression,
                "/0/objects",
                json!("Subnet with a in (b)"),
            ),
            (
                "networkSources[].selector.matchExpressions[].values[]",
                expression,
                "/0/objects",
                json!("Subnet with a in (b)"),
            ),
            (
                "networkSources[].role",
                "networkSources: [{kind: K, name: net, role: Worker}]",
                "/0/role",
                json!("Worker"),
            ),
            (
                "networkSources[].mapping",
                "networkSources: [{kind: K, name: net, mapping: m}]",
                "/0/mapping",
                json!("m"),
            ),
        ];
        let shown = |spec: &str| {
            let requests = entry_requests(&read(&format!("{{{spec}}}")), None).into_iter();
            let requests = requests.map(|(_, request)| {
                json!({
                    "group": request.kind.group, "kind": request.kind.kind, "objects": request.to_string(),
                    "mapping": request.mapping, "role": request.role,
                })
            });
            requests.collect::<Value>()
        };
        let smallest = "instanceType: t3.large";
        for row in &rows {
            assert_effect(row, &shown(smallest), &shown(&spec_with(smallest, row)));
        }
    }

    #[test]
    fn entries_are_read_by_the_machines_of_their_role() {
        let spec = spec(
            "{kind: ConfigMap, name: both}, {kind: ConfigMap, name: workers, role: Worker}, {apiGroup: \
             ec2.services.k8s.aws, kind: Subnet, selector: {matchLabels: {team: a}}, role: ControlPlane}",
        );
        let of = |role| {
            let requests = entry_requests(&spec, role).into_iter();
            requests.map(|(_, request)| request.to_string()).collect::<Vec<_>>()
        };
        let subnets = "Subnet with team=a";
        assert_eq!(of(None), ["ConfigMap/both", "ConfigMap/workers", subnets]);
        assert_eq!(of(Some(MachineRole::Worker)), ["ConfigMap/both", "ConfigMap/workers"]);
        assert_eq!(of(Some(MachineRole::ControlPlane)), ["ConfigMap/both", subnets]);
    }

    #[test]
    fn the_problem_of_an_entry_names_the_object_and_the_remedy() {
        let other = SourceKind { group: String::new(), kind: "ConfigMap".into() };
        let unusable = |reads| SourceOutcome::UnusableMapping { name: "m".into(), reads };
        let table = [
            (
                SourceOutcome::NotFound,
                Reason::NotFound,
                "Landscape/l, which spec.networkSources[0] names, does not exist: create it, or name another one in a \
                 new AWSMachineTemplate",
            ),
            (
                SourceOutcome::NoKindMatch,
                Reason::NoKindMatch,
                "the API server serves no kind Landscape in group example.org: install its CRD",
            ),
            (
                SourceOutcome::Forbidden,
                Reason::Forbidden,
                "the manager may not read Landscape in group example.org: create a ClusterRole that allows get on it, \
                 with the label infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs: \"true\"",
            ),
            (
                SourceOutcome::ClusterScoped,
                Reason::NotFound,
                "Landscape in group example.org is cluster-scoped, and a source is in the namespace of the machine: \
                 use another kind",
            ),
            (
                SourceOutcome::Undescribed,
                Reason::NotFound,
                "nothing says how to read Landscape/l, which spec.networkSources[0] names, as a network: create the \
                 AWSNetworkMapping landscape.example.org, or name one in mapping",
            ),
            (
                SourceOutcome::NoMapping,
                Reason::NotFound,
                "AWSNetworkMapping/m, which is to read Landscape/l, does not exist: create it",
            ),
            (
                unusable(None),
                Reason::NotReady,
                "AWSNetworkMapping/m, which is to read Landscape/l, is not Ready: see its condition Ready",
            ),
            (
                unusable(Some(other)),
                Reason::Conflict,
                "AWSNetworkMapping/m reads ConfigMap in the core group, not Landscape in group example.org: name \
                 another mapping for Landscape/l",
            ),
        ];
        for (outcome, reason, message) in table {
            let problem = problem(outcome);
            assert_eq!((problem.reason, problem.message.as_str()), (reason, message));
        }
    }

    #[test]
    fn an_infrastructure_object_without_the_contract_is_no_error() {
        let request = SourceRequest::infrastructure(&capa_api::contract::ContractReference {
            api_group: "example.org".into(),
            kind: "Landscape".into(),
            name: "l".into(),
        });
        let read = SourceRead { trust: Trust::Placement, fields: vec![], outcome: SourceOutcome::Undescribed };
        let source = from_read(NamedBy::Cluster, &request, read);
        let Contribution::Unlabelled(kind) = source.contribution else {
            panic!("an object without the label is no source");
        };
        assert_eq!((kind.group.as_str(), kind.kind.as_str()), ("example.org", "Landscape"));
        assert_eq!(source.name, "Landscape/l");
    }
}
