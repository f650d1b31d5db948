//! Properties that hold for any sources, any network and any sequence of launches.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::common::MachineRole;
use capa_api::conditions::Reason;
use capa_api::network::{MachineNetwork, NetworkSubnet, ZoneType};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

use strum::VariantArray;

use crate::{Capacity, Contribution, Field, Placement, PlacementRequest, Problem, Source, Trust, merge, place};

const AUTHORITY_FIELDS: [&str; 4] = ["identityRef", "instanceProfiles", "bootstrapStorage", "controlPlaneTargets"];
const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];

/// A value for each field of the contract that differs with `tag`, and the empty forms that count as absent.
fn value_of(field: &str, tag: u8) -> Value {
    match field {
        "region" | "clusterTag" | "sshKeyName" => json!(format!("{field}-{tag}")),
        "subnets" => json!([{"id": format!("subnet-0000000{tag}")}]),
        "vpc" => json!({"id": format!("vpc-0000000{tag}")}),
        "additionalTags" => json!({format!("key-{tag}"): "value"}),
        "imageLookup" => json!({"org": format!("{tag}")}),
        "controlPlaneTargets" => json!([{"classicLoadBalancerName": format!("lb-{tag}")}]),
        "identityRef" => json!({"kind": "AWSClusterRoleIdentity", "name": format!("role-{tag}")}),
        "instanceProfiles" => json!({"worker": format!("profile-{tag}")}),
        "bootstrapStorage" => json!({"s3": {"bucket": format!("bucket-{tag}")}}),
        _ => json!([format!("sg-0000000{tag}")]),
    }
}

const PLACEMENT_FIELDS: [&str; 10] = [
    "region",
    "clusterTag",
    "sshKeyName",
    "subnets",
    "vpc",
    "additionalTags",
    "imageLookup",
    "securityGroups.all",
    "securityGroups.controlPlane",
    "securityGroups.worker",
];

/// The non-empty fields of a network, security groups one by one.
fn fields(network: &MachineNetwork) -> BTreeMap<String, Value> {
    let Value::Object(mut all) = serde_json::to_value(network).unwrap() else {
        panic!("a network is an object");
    };
    let groups = match all.remove("securityGroups") {
        Some(Value::Object(groups)) => groups,
        _ => Map::new(),
    };
    let groups = groups.into_iter().map(|(role, ids)| (format!("securityGroups.{role}"), ids));
    all.into_iter().chain(groups).filter(|(_, value)| *value != "").collect()
}

fn network_with(fields: &[&str], empty: &[&str], tag: u8) -> MachineNetwork {
    let mut network = json!({"securityGroups": {}});
    for field in ["region", "clusterTag", "sshKeyName"] {
        if empty.contains(&field) {
            network[field] = json!("");
        }
    }
    for field in fields {
        match field.strip_prefix("securityGroups.") {
            Some(role) => network["securityGroups"][role] = value_of(field, tag),
            None => network[*field] = value_of(field, tag),
        }
    }
    serde_json::from_value(network).unwrap()
}

/// Sources named `S/0`, `S/1` … each with some of the fields and some of them empty; one in eight cannot be used.
fn sources(trust: Trust, offered: Vec<&'static str>) -> impl Strategy<Value = Vec<Source>> {
    let count = offered.len();
    let one =
        (subsequence(offered, 0..=count), subsequence(PLACEMENT_FIELDS.to_vec(), 0..=3), prop::bool::weighted(0.125));
    vec(one, 0..5).prop_map(move |parts| {
        let numbered = (0_u8..).zip(parts);
        let source = |(tag, (present, empty, unusable)): (u8, (Vec<&str>, Vec<&str>, bool))| Source {
            name: format!("S/{tag}"),
            trust,
            contribution: if unusable {
                Contribution::Unusable {
                    problem: Problem::new(Reason::NotFound, format!("S/{tag} does not exist")),
                    fields: Field::VARIANTS.iter().copied().filter(|field| present.contains(&field.path())).collect(),
                }
            } else {
                Contribution::Network(Box::new(network_with(&present, &empty, tag)))
            },
        };
        numbered.map(source).collect()
    })
}

fn subnet() -> impl Strategy<Value = NetworkSubnet> {
    (
        0_u8..8,
        option::of(select(ZONES.to_vec())),
        option::of(any::<bool>()),
        option::weighted(0.2, select(vec![ZoneType::LocalZone, ZoneType::AvailabilityZone])),
        subsequence(vec![MachineRole::ControlPlane, MachineRole::Worker], 0..=2),
    )
        .prop_map(|(id, zone, public, zone_type, roles)| NetworkSubnet {
            id: format!("subnet-0000000{id}"),
            availability_zone: zone.map(str::to_owned),
            public,
            ipv6: None,
            zone_type,
            roles,
        })
}

fn network() -> impl Strategy<Value = MachineNetwork> {
    let groups = || vec(select(vec!["sg-0000000a", "sg-0000000b", "sg-0000000c"]), 0..3);
    (vec(subnet(), 0..6), groups(), groups(), groups()).prop_map(|(subnets, all, control_plane, worker)| {
        let groups = json!({"all": all, "controlPlane": control_plane, "worker": worker});
        MachineNetwork {
            region: Some("eu-west-1".into()),
            subnets,
            security_groups: Some(serde_json::from_value(groups).unwrap()),
            ..MachineNetwork::default()
        }
    })
}

/// The requirements of a machine, without the numbers of machines by subnet.
#[derive(Clone, Debug)]
struct PlacementInput {
    role: MachineRole,
    failure_domain: Option<&'static str>,
    public_ip: Option<bool>,
    explicit_subnet: bool,
    additional: Vec<String>,
    capacity: BTreeMap<String, Capacity>,
}

impl PlacementInput {
    fn lacks_capacity(&self, subnet: &str) -> bool {
        self.capacity.get(subnet) == Some(&Capacity::Lacking)
    }

    fn place(&self, network: &MachineNetwork, counts: &BTreeMap<String, usize>) -> Result<Placement, Problem> {
        let request = PlacementRequest {
            role: self.role,
            failure_domain: self.failure_domain,
            needs_ipv6: false,
            public_ip: self.public_ip,
            explicit_subnet: self.explicit_subnet,
            additional_security_group_ids: &self.additional,
            machines_by_subnet: counts,
            capacity: &self.capacity,
            unlabelled: None,
        };
        place(network, &request)
    }
}

fn input() -> impl Strategy<Value = PlacementInput> {
    (
        select(vec![MachineRole::ControlPlane, MachineRole::Worker]),
        option::of(select(ZONES.to_vec())),
        option::of(any::<bool>()),
        any::<bool>(),
        vec(select(vec!["sg-0000000a", "sg-0000000d"]), 0..2),
        btree_map(
            (0_u8..8).prop_map(|id| format!("subnet-0000000{id}")),
            select(vec![Capacity::Lacking, Capacity::Uncertain]),
            0..4,
        ),
    )
        .prop_map(|(role, failure_domain, public_ip, explicit_subnet, additional, capacity)| PlacementInput {
            role,
            failure_domain,
            public_ip,
            explicit_subnet,
            additional: additional.into_iter().map(str::to_owned).collect(),
            capacity,
        })
}

fn counts() -> impl Strategy<Value = BTreeMap<String, usize>> {
    btree_map((0_u8..8).prop_map(|id| format!("subnet-0000000{id}")), 0_usize..4, 0..6)
}

/// The rule of the contract, implemented a second time: whether this subnet suits this machine.
fn suits(subnet: &NetworkSubnet, input: &PlacementInput) -> bool {
    let zone = input.failure_domain.is_none() || subnet.availability_zone.as_deref() == input.failure_domain;
    let role = subnet.roles.is_empty() || subnet.roles.contains(&input.role);
    let edge = subnet.zone_type == Some(ZoneType::LocalZone);
    let public = subnet.public.is_none() || subnet.public == Some(input.public_ip == Some(true));
    zone && (input.explicit_subnet || (role && !edge && public))
}

fn spread(counts: &BTreeMap<String, usize>, ids: &BTreeSet<String>) -> usize {
    let of = |id: &String| counts.get(id).copied().unwrap_or(0);
    let most = ids.iter().map(of).max().unwrap_or(0);
    most - ids.iter().map(of).min().unwrap_or(0)
}

proptest! {
    #[test]
    fn every_field_comes_whole_from_the_first_source_that_has_it(
        sources in sources(Trust::Authority, [&PLACEMENT_FIELDS[..], &AUTHORITY_FIELDS[..]].concat())
    ) {
        let mut expected = BTreeMap::new();
        let mut winners = BTreeMap::new();
        let mut problem = None;
        for source in &sources {
            match &source.contribution {
                Contribution::Network(network) => {
                    for (field, value) in fields(network) {
                        winners.entry(field.clone()).or_insert_with(|| source.name.clone());
                        expected.entry(field).or_insert(value);
                    }
                }
                Contribution::Unusable { problem: why, fields } => {
                    if fields.iter().any(|field| !winners.contains_key(field.path())) {
                        problem = Some(why.clone());
                        break;
                    }
                }
                Contribution::Unlabelled(_) => {}
            }
        }
        let merged = merge(&sources);
        prop_assert_eq!(fields(&merged.network), expected);
        prop_assert_eq!(merged.winners, winners);
        prop_assert_eq!(merged.problem, problem);
    }

    #[test]
    fn authority_never_comes_from_a_placement_source(
        trusted in sources(Trust::Authority, [&PLACEMENT_FIELDS[..], &AUTHORITY_FIELDS[..]].concat()),
        mut foreign in sources(Trust::Placement, [&PLACEMENT_FIELDS[..], &AUTHORITY_FIELDS[..]].concat()),
        foreign_first in any::<bool>(),
    ) {
        for source in &mut foreign {
            source.name = source.name.replace('S', "Foreign");
        }
        let sources = if foreign_first { [foreign, trusted].concat() } else { [trusted, foreign].concat() };
        let merged = merge(&sources);
        for field in AUTHORITY_FIELDS {
            if let Some(winner) = merged.winners.get(field) {
                prop_assert!(winner.starts_with("S/"), "{field} comes from {winner}");
            }
        }
        let offends = |source: &Source| match &source.contribution {
            Contribution::Network(network) => {
                source.trust == Trust::Placement
                    && fields(network).keys().any(|field| AUTHORITY_FIELDS.contains(&field.as_str()))
            }
            Contribution::Unusable { .. } | Contribution::Unlabelled(_) => false,
        };
        let mut supplied = BTreeSet::new();
        let ends = |source: &&Source| match &source.contribution {
            Contribution::Network(_) if offends(source) => true,
            Contribution::Network(network) => {
                supplied.extend(fields(network).into_keys());
                false
            }
            Contribution::Unusable { fields, .. } => fields.iter().any(|field| !supplied.contains(field.path())),
            Contribution::Unlabelled(_) => false,
        };
        let refused = sources.iter().find(ends).is_some_and(offends);
        let reason = merged.problem.map(|problem| problem.reason);
        prop_assert_eq!(reason == Some(Reason::AuthorityNotAllowed), refused, "refused, not ignored");
    }

    #[test]
    fn a_placement_suits_the_machine_and_its_groups_are_never_empty(
        network in network(), input in input(), counts in counts()
    ) {
        let suitable: Vec<&NetworkSubnet> = network.subnets.iter().filter(|subnet| suits(subnet, &input)).collect();
        match input.place(&network, &counts) {
            Ok(placement) => {
                let of = |id: &str| counts.get(id).copied().unwrap_or(0);
                let chosen = |subnet: &&NetworkSubnet| {
                    subnet.id == placement.subnet_id && subnet.availability_zone == placement.availability_zone
                };
                prop_assert!(suitable.iter().any(chosen));
                prop_assert!(!input.lacks_capacity(&placement.subnet_id));
                let may_be_private = |subnet: &NetworkSubnet| input.public_ip == Some(true) && subnet.public.is_none();
                let is_uncertain = |id: &str| input.capacity.contains_key(id);
                let rank =
                    |subnet: &&NetworkSubnet| (may_be_private(subnet), is_uncertain(&subnet.id), of(&subnet.id));
                let open = suitable.iter().filter(|subnet| !input.lacks_capacity(&subnet.id));
                let best = suitable.iter().filter(|subnet| chosen(subnet)).map(rank).min();
                prop_assert_eq!(open.map(rank).min(), best);
                if input.failure_domain.is_some() {
                    prop_assert_eq!(placement.availability_zone.as_deref(), input.failure_domain);
                }
                let once: BTreeSet<&String> = placement.security_group_ids.iter().collect();
                prop_assert!(!once.is_empty());
                prop_assert_eq!(once.len(), placement.security_group_ids.len(), "each group once");
                prop_assert!(input.additional.iter().all(|id| once.contains(id)));
            }
            Err(problem) if problem.reason == Reason::NoSubnetInFailureDomain => prop_assert!(suitable.is_empty()),
            Err(problem) if problem.reason == Reason::InsufficientCapacity => {
                prop_assert!(!suitable.is_empty());
                prop_assert!(suitable.iter().all(|subnet| input.lacks_capacity(&subnet.id)));
            }
            Err(problem) if problem.reason == Reason::MissingField => prop_assert!(network.subnets.is_empty()),
            Err(problem) => {
                let groups = network.security_groups.as_ref().unwrap();
                prop_assert_eq!(problem.reason, Reason::NoSecurityGroup);
                prop_assert!(groups.all.is_empty() && groups.of_role(input.role).is_empty());
                prop_assert!(input.additional.is_empty());
            }
        }
    }

    #[test]
    fn launches_spread_evenly_over_the_subnets_of_a_zone(
        subnets in btree_set(0_u8..9, 1..6),
        launches in vec(option::of(0_usize..ZONES.len()), 0..40),
        pinned in any::<bool>(),
    ) {
        let mut zones: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let subnets = subnets.into_iter().map(|number| {
            let zone = ZONES[usize::from(number) % ZONES.len()];
            let id = format!("subnet-0000000{number}");
            zones.entry(zone).or_default().insert(id.clone());
            NetworkSubnet { id, availability_zone: Some(zone.to_owned()), ..NetworkSubnet::default() }
        });
        let network = MachineNetwork {
            region: Some("eu-west-1".into()),
            subnets: subnets.collect(),
            ..MachineNetwork::default()
        };
        let mut counts = BTreeMap::new();
        for zone in launches {
            let input = PlacementInput {
                role: MachineRole::Worker,
                failure_domain: zone.filter(|_| pinned).map(|zone| ZONES[zone]),
                public_ip: None,
                explicit_subnet: false,
                additional: vec!["sg-0000000a".into()],
                capacity: BTreeMap::new(),
            };
            if let Ok(placement) = input.place(&network, &counts) {
                *counts.entry(placement.subnet_id).or_insert(0) += 1;
            }
            for ids in zones.values() {
                prop_assert!(spread(&counts, ids) <= 1, "{counts:?}");
            }
            let all = zones.values().flatten().cloned().collect();
            prop_assert!(pinned || spread(&counts, &all) <= 1, "{counts:?}");
        }
    }
}
