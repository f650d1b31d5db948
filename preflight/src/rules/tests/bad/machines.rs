//! Broken machine templates and network sources.

use super::{Bad, bad_world, found, machines};
use crate::facts::{Answer, Facts};
pub(super) fn bad() -> Vec<Bad> {
    [of_machines(), placement(), kubernetes()].into_iter().flatten().collect()
}

fn of_machines() -> Vec<Bad> {
    const WORKERS: &str = "AWSMachineTemplate/workers";
    vec![
        bad_world("M1", WORKERS, "does not exist", |facts| {
            found(&mut facts.images).clear();
        }),
        bad_world("M1", WORKERS, "is deregistered", |facts| {
            found(&mut facts.images)[0].state = "deregistered".into();
        }),
        bad_world("M1", WORKERS, "is deprecated", |facts| {
            found(&mut facts.images)[0].deprecation_time = Some("2026-01-01T00:00:00.000Z".to_owned());
        }),
        bad_world("M2", WORKERS, "is for arm64, and m5.large has x86_64", |facts| {
            found(&mut facts.images)[0].architecture = Some("arm64".to_owned());
        }),
        bad_world("M2", WORKERS, "boots with uefi", |facts| {
            found(&mut facts.instance_types)[0].boot_modes = vec!["legacy-bios".to_owned()];
        }),
        bad_world("M2", WORKERS, "no driver for the network", |facts| {
            found(&mut facts.images)[0].has_ena = false;
        }),
        bad_world("M2", WORKERS, "instance type x9.huge does not exist", |facts| {
            machines(facts, "workers").spec.instance_type = "x9.huge".to_owned();
        }),
        bad_world("M3", WORKERS, "not offered in eu-west-1b", |facts| {
            found(&mut facts.offerings).remove(1);
        }),
        bad_world("M4", "L-1216C47A", "need 16 virtual CPUs, and the quota is 8", |facts| {
            found(&mut facts.quotas).insert("L-1216C47A".to_owned(), 8.0);
        }),
        bad_world("M4", "L-1216C47A", "need 14 virtual CPUs, and the quota is 13", |facts| {
            found(&mut facts.quotas).insert("L-1216C47A".to_owned(), 13.0);
            found(&mut facts.instance_types)[0].name = "t3.large".to_owned();
            facts.demand.machines.truncate(2);
            facts.demand.machines.iter_mut().for_each(|machines| machines.spec.instance_type = "t3.large".to_owned());
        }),
        bad_world("M4", "L-34B43A08", "spot instances need 2", |facts| {
            found(&mut facts.quotas).insert("L-34B43A08".to_owned(), 0.0);
        }),
        bad_world("M5", WORKERS, "key pair ops does not exist", |facts| {
            found(&mut facts.key_pairs).clear();
        }),
        bad_world("M6", "nodes", "does not exist", |facts| {
            facts.instance_profiles.insert("nodes".to_owned(), Answer::Found(None));
        }),
        bad_world("M6", "nodes", "has no role", |facts| {
            found(facts.instance_profiles.get_mut("nodes").unwrap()).as_mut().unwrap().roles.clear();
        }),
        bad_world("M6", "nodes", "has no policy", |facts| {
            let profile = found(facts.instance_profiles.get_mut("nodes").unwrap());
            profile.as_mut().unwrap().policies = Answer::Found(vec![]);
        }),
        bad_world("M7", WORKERS, "without a token", |facts| {
            let options = machines(facts, "workers").spec.instance_metadata_options.as_mut().unwrap();
            options.http_tokens = capa_api::machine::HttpTokens::Optional;
        }),
        bad_world("M7", WORKERS, "more than two hops", |facts| {
            let options = machines(facts, "workers").spec.instance_metadata_options.as_mut().unwrap();
            options.http_put_response_hop_limit = 64;
        }),
        bad_world("M10", WORKERS, "has 16385 bytes", |facts| {
            machines(facts, "workers").user_data_bytes = Some(16_385);
        }),
    ]
}

fn placement() -> Vec<Bad> {
    const PINNED: &str = "AWSMachineTemplate/pinned";
    vec![
        bad_world("M8", "alias/volumes", "does not exist", |facts| {
            facts.encryption_keys.insert("alias/volumes".to_owned(), Answer::Found(None));
        }),
        bad_world("M8", "alias/volumes", "is Disabled", |facts| {
            found(facts.encryption_keys.get_mut("alias/volumes").unwrap()).as_mut().unwrap().state = "Disabled".into();
        }),
        bad_world("M8", "alias/volumes", "is for SIGN_VERIFY", |facts| {
            found(facts.encryption_keys.get_mut("alias/volumes").unwrap()).as_mut().unwrap().usage =
                "SIGN_VERIFY".into();
        }),
        bad_world("M8", "alias/volumes", "is not of eu-west-1", |facts| {
            found(facts.encryption_keys.get_mut("alias/volumes").unwrap()).as_mut().unwrap().arn =
                "arn:aws:kms:us-east-1:111122223333:key/1".to_owned();
        }),
        bad_world("M9", PINNED, "has 16 GiB, and the snapshot of the image 30", |facts| {
            found(&mut facts.images)[0].root_snapshot_gib = Some(30);
        }),
        bad_world("M9", PINNED, "io1 of 16 GiB has no 5000 IOPS", |facts| {
            let volume = machines(facts, "pinned").spec.root_volume.as_mut().unwrap();
            volume.volume_type = Some("io1".to_owned());
            volume.iops = Some(5_000);
        }),
        bad_world("M11", "bootstrap", "does not exist", |facts| {
            facts.buckets.insert("bootstrap".to_owned(), Answer::Found(None));
        }),
        bad_world("M11", "bootstrap", "is public", |facts| {
            found(facts.buckets.get_mut("bootstrap").unwrap()).as_mut().unwrap().is_public = true;
        }),
        bad_world("M11", "bootstrap", "lies in us-east-1", |facts| {
            found(facts.buckets.get_mut("bootstrap").unwrap()).as_mut().unwrap().region = "us-east-1".to_owned();
        }),
        bad_world("M12", PINNED, "placement group spread is not there", |facts| {
            found(&mut facts.placement_groups).clear();
        }),
        bad_world("M12", PINNED, "cr-0000000a is for c5.large", |facts| {
            found(&mut facts.capacity_reservations)[0].instance_type = "c5.large".to_owned();
        }),
        bad_world("M12", PINNED, "cr-0000000a lies in eu-west-1b", |facts| {
            found(&mut facts.capacity_reservations)[0].zone = "eu-west-1b".to_owned();
        }),
        bad_world("M12", PINNED, "capacity reservation cr-0000000a is not active", |facts| {
            found(&mut facts.capacity_reservations)[0].state = "expired".into();
        }),
        bad_world("M12", PINNED, "dedicated host h-0000000a is not available", |facts| {
            found(&mut facts.dedicated_hosts)[0].availability_zone = "eu-west-1c".to_owned();
        }),
        bad_world("M13", "AWSServiceRoleForEC2Spot", "no service-linked role", |facts| {
            facts.spot_role = Answer::Found(false);
        }),
    ]
}

fn kubernetes() -> Vec<Bad> {
    fn source(facts: &mut Facts) -> &mut crate::facts::SourceAccess {
        &mut facts.kubernetes.as_mut().unwrap().sources[0]
    }
    const OBJECT: &str = "Landscape/dev";
    vec![
        bad_world("K1", OBJECT, "serves no kind", |facts| source(facts).is_served = false),
        bad_world("K1", OBJECT, "nothing says", |facts| source(facts).is_described = false),
        bad_world("K2", OBJECT, "may not read landscapes.example.org", |facts| {
            source(facts).is_readable_by_manager = Answer::Found(false);
        }),
        bad_world("K3", OBJECT, "status.network.subnets[0].id", |facts| {
            source(facts).problem = Some("status.network.subnets[0].id is a number, and text is expected".to_owned());
        }),
    ]
}
