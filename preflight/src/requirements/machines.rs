//! Requirements for the AWS resources that machine templates name.

use std::collections::BTreeMap;

use super::identity::account;
use super::list::List;
use super::object::{Kind, Object};
use super::wanted::Wanted;
use crate::facts::{Demand, MachineDemand, ON_DEMAND_VCPUS, SPOT_VCPUS};
use crate::rule::Category::Machines;
use crate::rules::machines::key_pair;

/// A kind of object that machine templates name.
struct Named {
    kind: Kind,
    rules: &'static [&'static str],
    condition: &'static str,
    names: for<'a> fn(&'a Demand, &'a MachineDemand) -> Vec<&'a str>,
}

const NAMED: [Named; 9] = [
    Named {
        kind: Kind::Image,
        rules: &["M1", "M2", "M9"],
        condition: "is available in the region, fits the instance types, and has a snapshot that is not larger than \
                    the root volumes",
        names: |_, machines| machines.image_id().into_iter().collect(),
    },
    Named {
        kind: Kind::InstanceType,
        rules: &["M2", "M3"],
        condition: "is offered in the zones of the subnets",
        names: |_, machines| vec![machines.spec.instance_type.as_str()],
    },
    Named {
        kind: Kind::KeyPair,
        rules: &["M5"],
        condition: "exists in the region",
        names: |demand, machines| key_pair(demand, machines).into_iter().collect(),
    },
    Named {
        kind: Kind::InstanceProfile,
        rules: &["M6"],
        condition: "exists, and has a role with the permissions that `capa-rs iam node` prints",
        names: |demand, machines| machines.instance_profile(&demand.network).into_iter().collect(),
    },
    Named {
        kind: Kind::EncryptionKey,
        rules: &["M8"],
        condition: "is enabled in the region, and symmetric",
        names: |_, machines| machines.encryption_keys().into_iter().collect(),
    },
    Named {
        kind: Kind::Bucket,
        rules: &["M11"],
        condition: "exists in the region, and is not public",
        names: |demand, _| demand.bucket().into_iter().collect(),
    },
    Named {
        kind: Kind::PlacementGroup,
        rules: &["M12"],
        condition: "is available",
        names: |_, machines| machines.spec.placement_group_name.as_deref().into_iter().collect(),
    },
    Named {
        kind: Kind::CapacityReservation,
        rules: &["M12"],
        condition: "is active in a zone of the subnets, and for the instance type",
        names: |_, machines| machines.spec.capacity_reservation_id.as_deref().into_iter().collect(),
    },
    Named {
        kind: Kind::DedicatedHost,
        rules: &["M12"],
        condition: "is available in a zone of the subnets",
        names: |_, machines| machines.spec.host_id.as_deref().into_iter().collect(),
    },
];

pub(super) fn add(list: &mut List, demand: &Demand) {
    for named in &NAMED {
        let mut objects: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for machines in &demand.machines {
            for name in (named.names)(demand, machines).into_iter().filter(|name| !name.is_empty()) {
                let templates = objects.entry(name).or_default();
                if !templates.contains(&machines.template) {
                    templates.push(machines.template.clone());
                }
            }
        }
        for (name, templates) in objects {
            let condition = named.condition;
            let wanted = Wanted::UsedBy { templates, condition };
            list.add(Machines, named.rules, &Object::existing(named.kind, name), wanted);
        }
    }
    add_quotas(list, demand);
    let spot: Vec<&MachineDemand> = demand.machines.iter().filter(|machines| machines.is_spot()).collect();
    if !spot.is_empty() {
        let role = Object::existing(Kind::ServiceLinkedRole, "AWSServiceRoleForEC2Spot");
        let wanted = Wanted::UsedBy {
            templates: spot.iter().map(|machines| machines.template.clone()).collect(),
            condition: "exists in the account",
        };
        list.add(Machines, &["M13"], &role, wanted);
    }
}

/// Adds the quotas for virtual CPUs. The required number depends on the instance types, which are not known here.
fn add_quotas(list: &mut List, demand: &Demand) {
    for (code, spot) in [(ON_DEMAND_VCPUS, false), (SPOT_VCPUS, true)] {
        let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
        for machines in demand.machines.iter().filter(|machines| machines.is_spot() == spot) {
            *counts.entry(&machines.spec.instance_type).or_default() += machines.replicas;
        }
        if counts.is_empty() {
            continue;
        }
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let kind = if spot { "spot" } else { "on-demand" };
        let quota = Wanted::Quota {
            code,
            of: format!("the virtual CPUs of {kind} instances: {}", counts.join(", ")),
            at_least: None,
        };
        list.add(Machines, &["M4"], &account(demand), quota);
    }
}
