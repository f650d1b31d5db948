//! Merges sources into one network: the whole value of each field comes from the first source that supplies it.

use std::collections::BTreeMap;
use std::fmt;

use capa_api::conditions::Reason;
use capa_api::meta::{MACHINE_NETWORK_CONTRACT, MACHINE_NETWORK_LABEL};
use capa_api::network::MachineNetwork;

use crate::{Field, Trust};

/// One source of a machine's network.
#[derive(Clone, Debug)]
pub struct Source {
    /// `Kind/name`, as recorded on the machine.
    pub name: String,
    /// The trust of the source.
    pub trust: Trust,
    /// The contribution of the source.
    pub contribution: Contribution,
}

/// The contribution of a source.
#[derive(Clone, Debug)]
pub enum Contribution {
    /// A network; later sources supply absent and empty fields.
    Network(Box<MachineNetwork>),
    /// The kind of the object does not publish networks: later sources supply all fields.
    Unlabelled(UnlabelledKind),
    /// The source is named but cannot be used: it is deleted, forbidden, malformed or not ready. If a field that the
    /// source could supply is still missing, the merge stops here, so that a typo never lets a later source place the
    /// machine in another network.
    Unusable {
        /// The reason.
        problem: Problem,
        /// The fields that the source could supply.
        fields: Vec<Field>,
    },
}

/// A kind whose CRD does not have the label of the network contract, so that its objects are not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlabelledKind {
    /// API group of the kind.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl fmt::Display for UnlabelledKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind } = self;
        write!(
            formatter,
            "the CRD of {kind} in group {group} does not have the label \
             {MACHINE_NETWORK_LABEL}: {MACHINE_NETWORK_CONTRACT}, so status.network of a {kind} is not read"
        )
    }
}

/// The reason for which a network cannot be used, as the `NetworkReady` condition shows it. A problem never contains a
/// value from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Machine-readable reason.
    pub reason: Reason,
    /// The message: the object, the path, the expected value, and the corrective action.
    pub message: String,
}

impl Problem {
    /// A problem with its message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Whether the problem lasts until somebody changes an object or creates a resource. Other problems may end by
    /// themselves.
    pub fn needs_a_change(&self) -> bool {
        matches!(self.reason, Reason::NotFound | Reason::InvalidSpec)
    }
}

/// The result of the merge of all sources.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The fields that were found.
    pub network: MachineNetwork,
    /// The source of each field that was found: field path to `Kind/name`.
    pub winners: BTreeMap<String, String>,
    /// The problem that forbids a launch from this network, if any.
    pub problem: Option<Problem>,
    /// The kind of a source that was not read. It is a problem only if a field is missing.
    pub unlabelled: Option<UnlabelledKind>,
    /// The reason why the load balancer targets are not known yet although a source announces them. Control plane
    /// machines wait.
    pub pending_targets: Option<Problem>,
    /// Whether a source says that the cluster uses IPv6. A source counts even if another source replaces its subnets.
    pub uses_ipv6: bool,
}

impl Merged {
    /// Whether no source has supplied the field yet. Announced targets count as supplied.
    fn lacks(&self, field: Field) -> bool {
        let is_announced = field == Field::ControlPlaneTargets && self.pending_targets.is_some();
        !is_announced && !self.winners.contains_key(field.path())
    }
}

/// Walks the sources in order.
pub fn merge(sources: &[Source]) -> Merged {
    let mut merged = Merged::default();
    for source in sources {
        match &source.contribution {
            Contribution::Unusable { problem, fields } => {
                if fields.iter().any(|field| merged.lacks(*field)) {
                    merged.problem = Some(problem.clone());
                    break;
                }
            }
            Contribution::Network(network) => {
                if let Some(problem) = refused_authority(source, network) {
                    merged.problem = Some(problem);
                    break;
                }
                merged.uses_ipv6 |= network.uses_ipv6();
                take_missing_fields(&mut merged, source, network);
            }
            Contribution::Unlabelled(kind) => merged.unlabelled = Some(kind.clone()),
        }
    }
    merged
}

fn refused_authority(source: &Source, network: &MachineNetwork) -> Option<Problem> {
    if source.trust == Trust::Authority {
        return None;
    }
    // For each authority field, the field of a machine's spec with the same meaning.
    let named = [
        ("identityRef", Some("identityRef"), network.identity_ref.is_some()),
        ("instanceProfiles", Some("iamInstanceProfile"), network.instance_profiles.is_some()),
        ("bootstrapStorage", None, network.bootstrap_storage.is_some()),
        ("controlPlaneTargets", Some("controlPlaneTargets"), !network.control_plane_targets.is_empty()),
        // A source that announces targets delays control plane machines.
        ("pendingControlPlaneTargets", Some("controlPlaneTargets"), network.pending_control_plane_targets.is_some()),
    ];
    let (field, of_machine, _) = named.into_iter().find(|(_, _, present)| *present)?;
    let instead = of_machine
        .map_or_else(String::new, |field| format!(", and set spec.template.spec.{field} in a new AWSMachineTemplate"));
    let message = format!(
        "{} supplies {field}, which only an AWSMachine, an AWSCluster, or a kind with an AWSNetworkMapping whose \
         authority is Allowed may supply: remove it there{instead}",
        source.name
    );
    Some(Problem::new(Reason::AuthorityNotAllowed, message))
}

fn take_missing_fields(merged: &mut Merged, source: &Source, from: &MachineNetwork) {
    let Merged { network: into, winners, pending_targets, .. } = merged;
    let mut take = |field: Field, taken: bool| {
        if taken {
            winners.insert(field.path().to_owned(), source.name.clone());
        }
    };
    take(Field::Region, fill_string(&mut into.region, from.region.as_ref()));
    take(Field::Subnets, fill_list(&mut into.subnets, &from.subnets));
    if let Some(groups) = &from.security_groups {
        let into = into.security_groups.get_or_insert_default();
        take(Field::SecurityGroupsAll, fill_list(&mut into.all, &groups.all));
        take(Field::SecurityGroupsControlPlane, fill_list(&mut into.control_plane, &groups.control_plane));
        take(Field::SecurityGroupsWorker, fill_list(&mut into.worker, &groups.worker));
    }
    take(Field::Vpc, fill_option(&mut into.vpc, from.vpc.as_ref()));
    take(
        Field::AdditionalTags,
        into.additional_tags.is_empty() && !from.additional_tags.is_empty() && {
            into.additional_tags.clone_from(&from.additional_tags);
            true
        },
    );
    take(Field::ClusterTag, fill_string(&mut into.cluster_tag, from.cluster_tag.as_ref()));
    take(Field::SshKeyName, fill_string(&mut into.ssh_key_name, from.ssh_key_name.as_ref()));
    take(Field::ImageLookup, fill_option(&mut into.image_lookup, from.image_lookup.as_ref()));
    // Announced targets belong to this source even before they are known: no later source supplies others.
    let are_open = into.control_plane_targets.is_empty() && pending_targets.is_none();
    take(
        Field::ControlPlaneTargets,
        are_open && fill_list(&mut into.control_plane_targets, &from.control_plane_targets),
    );
    if are_open && from.control_plane_targets.is_empty() {
        let pending = from.pending_control_plane_targets.as_ref();
        *pending_targets = pending.map(|pending| still_to_come(&source.name, pending));
    }
    take(Field::IdentityRef, fill_option(&mut into.identity_ref, from.identity_ref.as_ref()));
    take(Field::InstanceProfiles, fill_option(&mut into.instance_profiles, from.instance_profiles.as_ref()));
    take(Field::BootstrapStorage, fill_option(&mut into.bootstrap_storage, from.bootstrap_storage.as_ref()));
}

fn still_to_come(source: &str, pending: &str) -> Problem {
    Problem::new(
        Reason::NotReady,
        format!(
            "{source} does not know the targets of {pending} yet, and a control plane machine is registered in those \
             that \
             are known at its launch: see NetworkReady there"
        ),
    )
}

fn fill_string(into: &mut Option<String>, from: Option<&String>) -> bool {
    fill_option(into, from.filter(|text| !text.is_empty()))
}

fn fill_option<T: Clone>(into: &mut Option<T>, from: Option<&T>) -> bool {
    let taken = into.is_none() && from.is_some();
    if taken {
        *into = from.cloned();
    }
    taken
}

fn fill_list<T: Clone>(into: &mut Vec<T>, from: &[T]) -> bool {
    let taken = into.is_empty() && !from.is_empty();
    if taken {
        *into = from.to_vec();
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, trust: Trust, yaml: &str) -> Source {
        let network = serde_saphyr::from_str(yaml).unwrap();
        Source { name: name.into(), trust, contribution: Contribution::Network(Box::new(network)) }
    }

    #[test]
    fn each_field_comes_whole_from_the_first_source_that_has_it() {
        let merged = merge(&[
            source("AWSMachine/m", Trust::Authority, "{region: eu-west-1, securityGroups: {worker: [sg-00000001]}}"),
            source(
                "AWSCluster/c",
                Trust::Authority,
                "{region: us-east-1, subnets: [{id: subnet-00000001}], securityGroups: {all: [sg-00000002], worker: \
                 [sg-00000003]}}",
            ),
        ]);
        assert_eq!(merged.network.region.as_deref(), Some("eu-west-1"));
        let groups = merged.network.security_groups.unwrap();
        assert_eq!(groups.worker, ["sg-00000001"]);
        assert_eq!(groups.all, ["sg-00000002"]);
        assert_eq!(merged.winners["region"], "AWSMachine/m");
        assert_eq!(merged.winners["subnets"], "AWSCluster/c");
        assert_eq!(merged.winners["securityGroups.worker"], "AWSMachine/m");
        assert_eq!(merged.problem, None);
    }

    #[test]
    fn empty_lists_and_strings_count_as_absent() {
        let merged = merge(&[
            source("A/a", Trust::Authority, "{region: '', subnets: []}"),
            source("B/b", Trust::Authority, "{region: eu-west-1, subnets: [{id: subnet-00000001}]}"),
        ]);
        assert_eq!(merged.winners["region"], "B/b");
        assert_eq!(merged.winners["subnets"], "B/b");
    }

    #[test]
    fn pending_targets_are_not_taken_from_a_later_source() {
        let given = "{controlPlaneTargets: [{classicLoadBalancerName: given}]}";
        let pending = "{pendingControlPlaneTargets: load balancer api}";
        let table = [
            (pending, given, false, true),
            (given, pending, true, false),
            (pending, "{}", false, true),
            ("{}", pending, false, true),
            ("{}", given, true, false),
        ];
        for (first, second, targets, waits) in table {
            let merged = merge(&[source("A/a", Trust::Authority, first), source("B/b", Trust::Authority, second)]);
            assert_eq!(!merged.network.control_plane_targets.is_empty(), targets, "{first} {second}");
            let why = merged.pending_targets;
            assert_eq!(why.is_some(), waits, "{first} {second}");
            assert!(why.is_none_or(|why| why.message.contains("load balancer api")));
        }
    }

    #[test]
    fn an_unusable_source_ends_the_walk() {
        let problem = Problem::new(Reason::NotFound, "Network/n does not exist");
        let merged = merge(&[
            Source {
                name: "N/n".into(),
                trust: Trust::Placement,
                contribution: Contribution::Unusable {
                    problem: problem.clone(),
                    fields: Field::allowed(Trust::Placement),
                },
            },
            source("B/b", Trust::Authority, "{region: eu-west-1}"),
        ]);
        assert_eq!(merged.problem, Some(problem));
        assert_eq!(merged.network.region, None);
    }

    #[test]
    fn an_unusable_source_stops_only_what_it_could_supply() {
        let unusable = Source {
            name: "Subnet/s".into(),
            trust: Trust::Placement,
            contribution: Contribution::Unusable {
                problem: Problem::new(Reason::NotFound, "Subnet/s does not exist"),
                fields: vec![Field::Region, Field::Subnets],
            },
        };
        let earlier = |yaml| source("A/a", Trust::Authority, yaml);
        let later = source("B/b", Trust::Authority, "{vpc: {id: vpc-00000001}}");
        let complete = earlier("{region: r, subnets: [{id: subnet-00000001}]}");
        let merged = merge(&[complete, unusable.clone(), later.clone()]);
        assert_eq!((merged.problem, merged.network.vpc.is_some()), (None, true));
        let merged = merge(&[earlier("{region: r}"), unusable, later]);
        assert_eq!((merged.problem.is_some(), merged.network.vpc), (true, None));
    }

    #[test]
    fn an_unlabelled_kind_contributes_nothing_and_is_remembered() {
        let kind = UnlabelledKind { group: "example.org".into(), kind: "Landscape".into() };
        let unlabelled = Source {
            name: "Landscape/l".into(),
            trust: Trust::Placement,
            contribution: Contribution::Unlabelled(kind.clone()),
        };
        let merged = merge(&[unlabelled, source("B/b", Trust::Authority, "{region: eu-west-1}")]);
        assert_eq!(merged.network.region.as_deref(), Some("eu-west-1"));
        assert_eq!((merged.problem, merged.unlabelled), (None, Some(kind.clone())));
        let said = kind.to_string();
        assert!(
            said.contains("Landscape in group example.org")
                && said.contains("label infrastructure.cluster.x-k8s.io/machine-network: v1"),
            "{said}"
        );
    }

    #[test]
    fn a_refused_authority_field_says_where_it_may_be_set() {
        let said = |field: &str| {
            let merged = merge(&[source("ConfigMap/c", Trust::Placement, &format!("{{{field}}}"))]);
            merged.problem.unwrap().message
        };
        let only = "which only an AWSMachine, an AWSCluster, or a kind with an AWSNetworkMapping whose authority is \
                    Allowed may supply: remove it there";
        let new = "in a new AWSMachineTemplate";
        assert_eq!(
            said("identityRef: {kind: AWSClusterRoleIdentity, name: admin}"),
            format!("ConfigMap/c supplies identityRef, {only}, and set spec.template.spec.identityRef {new}")
        );
        assert_eq!(
            said("instanceProfiles: {worker: admin}"),
            format!(
                "ConfigMap/c supplies instanceProfiles, {only}, and set spec.template.spec.iamInstanceProfile {new}"
            )
        );
        assert_eq!(
            said("bootstrapStorage: {s3: {bucket: mine}}"),
            format!("ConfigMap/c supplies bootstrapStorage, {only}")
        );
    }

    #[test]
    fn authority_from_a_placement_source_is_refused_not_ignored() {
        for field in [
            "identityRef: {kind: AWSClusterRoleIdentity, name: admin}",
            "instanceProfiles: {worker: admin}",
            "bootstrapStorage: {s3: {bucket: mine}}",
            "controlPlaneTargets: [{classicLoadBalancerName: other}]",
            "pendingControlPlaneTargets: load balancer api",
        ] {
            let merged = merge(&[source("ConfigMap/c", Trust::Placement, &format!("{{region: r, {field}}}"))]);
            let problem = merged.problem.unwrap();
            assert_eq!(problem.reason, Reason::AuthorityNotAllowed, "{field}");
            assert!(problem.message.contains("ConfigMap/c"), "{}", problem.message);
            assert!(!problem.message.contains("admin"), "no value of a source may show: {}", problem.message);
            assert_eq!(merged.network.region, None, "nothing of a refused source is used");
        }
    }
}
