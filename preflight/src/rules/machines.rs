//! Rules about images, instance types and launch options of machines.

use std::collections::BTreeSet;

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};
use capa_api::machine::HttpTokens;
use jiff::Timestamp;

use crate::facts::{
    Availability, CapacityReservationState, Demand, Facts, Image, InstanceProfile, InstanceType, MachineDemand,
    ON_DEMAND_VCPUS, SPOT_VCPUS,
};
use crate::rule::{Category::Machines, Checked, Problem, Rule, ShownBy, Skipped, applies, known, of_each};

/// The letters before the generation in the names of the instance types that count towards the service quotas for
/// virtual CPUs of standard instances. Source: the user guide of EC2, «On-Demand Instance quotas».
const STANDARD_FAMILIES: [&str; 11] = ["a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"];
/// The largest user data of an instance, in bytes. Source: the user guide of EC2, «Instance user data».
const MAX_USER_DATA: usize = 16 * 1024;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "M1",
        category: Machines,
        severity: Blocking,
        title: "The image exists in the region, is available to the account and is not deprecated",
        breaks: "Launches fail.",
        shown_by: ShownBy::Moto,
        check: images,
    },
    Rule {
        id: "M2",
        category: Machines,
        severity: Blocking,
        title: "Architecture, boot mode and network driver of the image fit the instance type",
        breaks: "Launches fail, or the instance never boots.",
        shown_by: ShownBy::Recorded,
        check: fitting_images,
    },
    Rule {
        id: "M3",
        category: Machines,
        severity: Blocking,
        title: "The instance type is offered in the zones of the subnets",
        breaks: "Launches into the other zones fail.",
        shown_by: ShownBy::Recorded,
        check: offerings,
    },
    Rule {
        id: "M4",
        category: Machines,
        severity: Warning,
        title: "The quotas of the account are large enough for the virtual CPUs of the machines",
        breaks: "Launches fail with VcpuLimitExceeded.",
        shown_by: ShownBy::Recorded,
        check: quotas,
    },
    Rule {
        id: "M5",
        category: Machines,
        severity: Blocking,
        title: "The key pair exists, if one is named",
        breaks: "Launches fail.",
        shown_by: ShownBy::Moto,
        check: key_pairs,
    },
    Rule {
        id: "M6",
        category: Machines,
        severity: Blocking,
        title: "The instance profile exists and has a role with permissions",
        breaks: "Launches fail, or the cloud controller, registries and volumes do not work on the node.",
        shown_by: ShownBy::Moto,
        check: instance_profiles,
    },
    Rule {
        id: "M7",
        category: Machines,
        severity: Warning,
        title: "The metadata service requires tokens, and answers pods only on purpose",
        breaks: "Without tokens, a pod that forwards requests hands out the credentials of the node; with a hop limit \
                 of 1 no pod reaches the metadata service.",
        shown_by: ShownBy::Recorded,
        check: metadata,
    },
    Rule {
        id: "M10",
        category: Machines,
        severity: Blocking,
        title: "The user data has at most 16 KiB",
        breaks: "Launches fail.",
        shown_by: ShownBy::Recorded,
        check: user_data,
    },
    Rule {
        id: "M12",
        category: Machines,
        severity: Blocking,
        title: "Placement group, capacity reservation and dedicated host exist, in a zone of the subnets",
        breaks: "Launches fail.",
        shown_by: ShownBy::Recorded,
        check: placement,
    },
    Rule {
        id: "M13",
        category: Machines,
        severity: Warning,
        title: "The service-linked role for spot instances exists, if machines are spot instances",
        breaks: "The first launch of a spot instance fails, unless the credentials may create the role.",
        shown_by: ShownBy::Moto,
        check: spot_role,
    },
];

/// The machines for which `value` returns a value, with that value.
fn with<'a, T>(
    facts: &'a Facts,
    value: impl Fn(&'a MachineDemand) -> Option<T>,
) -> Result<Vec<(&'a MachineDemand, T)>, Skipped> {
    let machines = facts.demand.machines.iter();
    let with: Vec<_> = machines.filter_map(|machines| Some((machines, value(machines)?))).collect();
    applies(!with.is_empty())?;
    Ok(with)
}

fn images(facts: &Facts) -> Checked {
    let machines = with(facts, MachineDemand::image_id)?;
    let images = known(&facts.images, "the images")?;
    let mut problems = Vec::new();
    for (machines, id) in machines {
        let (message, severity) = match images.iter().find(|image| image.id == id) {
            None => {
                (format!("{id} does not exist in {}, or is not shared with the account", facts.demand.region), Blocking)
            }
            Some(image) if image.state != Availability::Available => (format!("{id} is {}", image.state), Blocking),
            Some(image) if is_deprecated(image, &facts.gathered_at) => (format!("{id} is deprecated"), Warning),
            Some(_) => continue,
        };
        let problem = Problem::new(&machines.template, message, "name an image that is available in the region");
        problems.push(
            problem
                .with_severity(severity)
                .fixed_by(facts.aws(&format!("ec2 describe-images --include-deprecated --image-ids {id}"))),
        );
    }
    Ok(problems)
}

fn is_deprecated(image: &Image, now: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let deprecated = image.deprecation_time.as_deref().and_then(time);
    deprecated.zip(time(now)).is_some_and(|(deprecated, now)| deprecated <= now)
}

fn instance_type<'a>(facts: &'a Facts, machines: &MachineDemand) -> Result<Option<&'a InstanceType>, Skipped> {
    let types = known(&facts.instance_types, "the instance types")?;
    Ok(types.iter().find(|instance_type| instance_type.name == machines.spec.instance_type))
}

fn fitting_images(facts: &Facts) -> Checked {
    let machines = with(facts, MachineDemand::image_id)?;
    let images = known(&facts.images, "the images")?;
    let mut problems = Vec::new();
    for (machines, id) in machines {
        let name = &machines.spec.instance_type;
        let Some(instance_type) = instance_type(facts, machines)? else {
            let message = format!("instance type {name} does not exist in {}", facts.demand.region);
            problems.push(Problem::new(&machines.template, message, "choose another instance type"));
            continue;
        };
        let Some(image) = images.iter().find(|image| image.id == id) else {
            continue;
        };
        let boot_mode = image.boot_mode.as_deref().filter(|mode| *mode != "uefi-preferred");
        let built_for = image.architecture.as_ref();
        let message = if let Some(built_for) = built_for.filter(|name| !instance_type.architectures.contains(name)) {
            format!("{id} is for {built_for}, and {name} has {}", instance_type.architectures.join(" or "))
        } else if let Some(mode) = boot_mode.filter(|mode| instance_type.boot_modes.iter().all(|known| known != mode)) {
            format!("{id} boots with {mode}, and {name} does not")
        } else if instance_type.ena == "required" && !image.has_ena {
            format!("{id} has no driver for the network of {name} (ENA)")
        } else {
            continue;
        };
        problems.push(Problem::new(&machines.template, message, "choose another image or instance type"));
    }
    Ok(problems)
}

/// The zones in which the machines may be launched.
fn zones<'a>(facts: &'a Facts, machines: &MachineDemand) -> Result<BTreeSet<&'a str>, Skipped> {
    let ids = machines.subnet_ids(&facts.demand.network);
    let subnets = facts.of_network(&facts.subnets, "the subnets")?.iter();
    Ok(subnets.filter(|subnet| ids.contains(subnet.id.as_str())).map(|subnet| subnet.zone.as_str()).collect())
}

fn offerings(facts: &Facts) -> Checked {
    applies(!facts.demand.machines.is_empty())?;
    let offerings = known(&facts.offerings, "the zones of the instance types")?;
    let mut problems = Vec::new();
    for machines in &facts.demand.machines {
        let name = &machines.spec.instance_type;
        let zones = zones(facts, machines)?;
        let is_offered =
            |zone: &str| offerings.iter().any(|offering| offering.instance_type == *name && offering.zone == zone);
        let missing: Vec<&str> = zones.iter().copied().filter(|zone| !is_offered(zone)).collect();
        if missing.is_empty() {
            continue;
        }
        let message = format!("{name} is not offered in {}", missing.join(" and "));
        let problem = Problem::new(&machines.template, message, "choose another instance type or other subnets");
        // Machines that may use several zones are launched in the other zones.
        let severity = if missing.len() < zones.len() { Warning } else { Blocking };
        problems.push(problem.with_severity(severity).fixed_by(facts.aws(&format!(
            "ec2 describe-instance-type-offerings --location-type availability-zone \
             --filters Name=instance-type,Values={name}"
        ))));
    }
    Ok(problems)
}

/// Whether machines count towards the quotas of standard instances.
fn is_standard(machines: &MachineDemand) -> bool {
    let family = machines.spec.instance_type.split(|letter: char| letter.is_ascii_digit()).next();
    family.is_some_and(|family| STANDARD_FAMILIES.contains(&family))
}

fn quotas(facts: &Facts) -> Checked {
    applies(!facts.demand.machines.is_empty())?;
    let quotas = known(&facts.quotas, "the service quotas")?;
    let mut problems = Vec::new();
    for (code, name, spot) in [(ON_DEMAND_VCPUS, "on-demand", false), (SPOT_VCPUS, "spot", true)] {
        let mut wanted: i64 = 0;
        let of_kind = facts.demand.machines.iter().filter(|machines| machines.is_spot() == spot);
        for machines in of_kind.filter(|machines| is_standard(machines)) {
            let vcpus = instance_type(facts, machines)?.map_or(0, |of| of.vcpus);
            wanted += i64::from(vcpus) * i64::from(machines.replicas);
        }
        let wanted = f64::from(i32::try_from(wanted).unwrap_or(i32::MAX));
        if let Some(quota) = quotas.get(code).filter(|quota| **quota < wanted) {
            let message = format!("{name} instances need {wanted} virtual CPUs, and the quota is {quota}");
            problems.push(Problem::new(code, message, "ask AWS for a higher quota").fixed_by(facts.aws(&format!(
                "service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} --desired-value \
                 {wanted}"
            ))));
        }
    }
    Ok(problems)
}

/// Name of the key pair of the machines: their own, or else that of the network.
pub(crate) fn key_pair<'a>(demand: &'a Demand, machines: &'a MachineDemand) -> Option<&'a str> {
    let default = demand.network.ssh_key_name.as_deref();
    let name = machines.spec.ssh_key_name.as_deref().or(default);
    name.filter(|name| !name.is_empty())
}

fn key_pairs(facts: &Facts) -> Checked {
    let machines = with(facts, |machines| key_pair(&facts.demand, machines))?;
    let names = known(&facts.key_pairs, "the key pairs")?;
    let missing = machines.into_iter().filter(|(_, name)| !names.iter().any(|known| known == name));
    let problems = missing.map(|(machines, name)| {
        let message = format!("key pair {name} does not exist in {}", facts.demand.region);
        Problem::new(&machines.template, message, "create the key pair, or leave sshKeyName out")
            .fixed_by(facts.aws(&format!("ec2 import-key-pair --key-name {name} --public-key-material fileb://<file>")))
    });
    Ok(problems.collect())
}

fn instance_profiles(facts: &Facts) -> Checked {
    applies(!facts.instance_profiles.is_empty())?;
    of_each(facts.instance_profiles.iter().map(|(name, profile)| {
        let profile = known(profile, &format!("instance profile {name}"))?;
        instance_profile(facts, name, profile.as_ref())
    }))
}

fn instance_profile(facts: &Facts, name: &str, profile: Option<&InstanceProfile>) -> Result<Option<Problem>, Skipped> {
    let (message, fix, command, severity) = match profile {
        None => (
            format!("instance profile {name} does not exist"),
            "create the instance profile with a role, or leave iamInstanceProfile out",
            format!("iam create-instance-profile --instance-profile-name {name}"),
            Blocking,
        ),
        Some(profile) if profile.roles.is_empty() => (
            format!("instance profile {name} has no role"),
            "add a role to the instance profile",
            format!("iam add-role-to-instance-profile --instance-profile-name {name} --role-name <role>"),
            Blocking,
        ),
        Some(profile) => {
            let policies = known(&profile.policies, &format!("the policies of instance profile {name}"))?;
            if !policies.is_empty() {
                return Ok(None);
            }
            (
                format!("the role of instance profile {name} has no policy"),
                "attach the policies that `capa-rs iam node` prints",
                "iam put-role-policy --role-name <role> --policy-name nodes --policy-document file://<file>".to_owned(),
                Warning,
            )
        }
    };
    let problem = Problem::new(name, message, fix).with_severity(severity);
    Ok(Some(problem.fixed_by(facts.aws(&command))))
}

fn metadata(facts: &Facts) -> Checked {
    let machines = with(facts, |machines| machines.spec.instance_metadata_options.as_ref())?;
    let mut problems = Vec::new();
    for (machines, options) in machines {
        let message = if options.http_tokens == HttpTokens::Optional {
            "the metadata service answers without a token"
        } else if options.http_put_response_hop_limit > 2 {
            "the metadata service answers over more than two hops"
        } else {
            continue;
        };
        let fix = "set instanceMetadataOptions.httpTokens: required, and httpPutResponseHopLimit 1, or 2 for pods";
        problems.push(Problem::new(&machines.template, message, fix));
    }
    Ok(problems)
}

fn user_data(facts: &Facts) -> Checked {
    let machines = with(facts, |machines| machines.user_data_bytes)?;
    let large = machines.into_iter().filter(|(_, bytes)| *bytes > MAX_USER_DATA);
    let problems = large.map(|(machines, bytes)| {
        let message = format!("the user data has {bytes} bytes, more than {MAX_USER_DATA}");
        let fix = "shorten files and commands in the bootstrap configuration, or bake them into the image";
        Problem::new(&machines.template, message, fix)
    });
    Ok(problems.collect())
}

fn placement(facts: &Facts) -> Checked {
    let mut problems = Vec::new();
    let mut is_asked = false;
    for machines in &facts.demand.machines {
        let spec = &machines.spec;
        let zones = zones(facts, machines).unwrap_or_default();
        let is_elsewhere = |zone: &str| !zones.is_empty() && !zones.contains(zone);
        let mut add = |message: String, command: &str| {
            let problem = Problem::new(
                &machines.template,
                message,
                "correct the name or id, or create it in a zone of the subnets",
            );
            problems.push(problem.fixed_by(facts.aws(command)));
        };
        if let Some(name) = spec.placement_group_name.as_deref().filter(|name| !name.is_empty()) {
            is_asked = true;
            let groups = known(&facts.placement_groups, "the placement groups")?;
            let group = groups.iter().find(|group| group.name == name);
            if group.is_none_or(|group| group.state != Availability::Available) {
                add(format!("placement group {name} is not there"), "ec2 describe-placement-groups");
            }
        }
        if let Some(id) = spec.capacity_reservation_id.as_deref().filter(|id| !id.is_empty()) {
            is_asked = true;
            let reservations = known(&facts.capacity_reservations, "the capacity reservations")?;
            match reservations.iter().find(|reservation| reservation.id == id) {
                Some(found) if found.state == CapacityReservationState::Active => {
                    if found.instance_type != spec.instance_type {
                        add(format!("{id} is for {}", found.instance_type), "ec2 describe-capacity-reservations");
                    } else if is_elsewhere(&found.zone) {
                        add(format!("{id} lies in {}", found.zone), "ec2 describe-capacity-reservations");
                    }
                }
                _ => add(format!("capacity reservation {id} is not active"), "ec2 describe-capacity-reservations"),
            }
        }
        if let Some(id) = spec.host_id.as_deref().filter(|id| !id.is_empty()) {
            is_asked = true;
            let hosts = known(&facts.dedicated_hosts, "the dedicated hosts")?;
            match hosts.iter().find(|host| host.id == id) {
                Some(host) if host.is_available() && !is_elsewhere(&host.availability_zone) => {}
                _ => {
                    add(format!("dedicated host {id} is not available in a zone of the subnets"), "ec2 describe-hosts");
                }
            }
        }
    }
    applies(is_asked)?;
    Ok(problems)
}

fn spot_role(facts: &Facts) -> Checked {
    applies(facts.demand.has_spot_machines())?;
    if *known(&facts.spot_role, "the service-linked role for spot instances")? {
        return Ok(vec![]);
    }
    let problem = Problem::new(
        "AWSServiceRoleForEC2Spot",
        "the account has no service-linked role for spot instances",
        "create the role once for the account",
    );
    Ok(vec![problem.fixed_by("aws iam create-service-linked-role --aws-service-name spot.amazonaws.com")])
}
