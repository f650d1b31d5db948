//! Rules about volumes, their encryption, and storage for bootstrap data.

use capa_api::cluster::status::FindingSeverity::Blocking;
use capa_api::common::Volume;

use crate::facts::{Facts, KeyState, KeyUsage, MachineDemand};
use crate::rule::{Category::Machines, Checked, Problem, Rule, ShownBy, applies, known, of_each};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "M8",
        category: Machines,
        severity: Blocking,
        title: "The encryption keys of volumes are enabled, in the region, and for encryption",
        breaks: "The instance starts and ends at once with Client.InternalError.",
        shown_by: ShownBy::Moto,
        check: encryption_keys,
    },
    Rule {
        id: "M9",
        category: Machines,
        severity: Blocking,
        title: "The root volume is not smaller than the snapshot of the image, and its performance is possible",
        breaks: "Launches fail.",
        shown_by: ShownBy::Recorded,
        check: volumes,
    },
    Rule {
        id: "M11",
        category: Machines,
        severity: Blocking,
        title: "The bucket for bootstrap data exists, in the region, and is not public",
        breaks: "Machines do not get their bootstrap data, or everybody reads the join token in it.",
        shown_by: ShownBy::Recorded,
        check: buckets,
    },
];

fn encryption_keys(facts: &Facts) -> Checked {
    applies(!facts.encryption_keys.is_empty())?;
    let region = &facts.demand.region;
    of_each(facts.encryption_keys.iter().map(|(name, key)| {
        let (message, fix, command) = match known(key, &format!("key {name}"))? {
            None => (
                format!("key {name} does not exist in {region}"),
                "correct encryptionKey, or create the key",
                "kms create-key".to_owned(),
            ),
            Some(key) if key.state != KeyState::Enabled => (
                format!("key {name} is {}", key.state),
                "enable the key, or use another one",
                format!("kms enable-key --key-id {name}"),
            ),
            Some(key) if key.usage != KeyUsage::EncryptDecrypt => (
                format!("key {name} is for {}", key.usage),
                "use a symmetric key for encryption",
                "kms create-key".to_owned(),
            ),
            Some(key) if key.arn.split(':').nth(3).is_some_and(|of| of != region) => {
                (format!("key {name} is not of {region}"), "use a key of the region", "kms create-key".to_owned())
            }
            Some(_) => return Ok(None),
        };
        Ok(Some(Problem::new(name, message, fix).fixed_by(facts.aws(&command))))
    }))
}

/// The impossible setting of a volume's performance, if there is one. Source: the user guide of EBS, «Amazon EBS volume
/// types».
fn impossible(volume: &Volume) -> Option<String> {
    let iops = volume.iops.unwrap_or_default();
    let size = volume.size;
    match volume.volume_type.as_deref()? {
        "gp3" if iops > 0 && !(3_000..=80_000).contains(&iops) => Some(format!("gp3 has no {iops} IOPS")),
        "gp3" if iops > size.saturating_mul(500).max(3_000) => {
            Some(format!("gp3 of {size} GiB has no {iops} IOPS: at most 500 per GiB"))
        }
        "io1" if iops > size.saturating_mul(50) => {
            Some(format!("io1 of {size} GiB has no {iops} IOPS: at most 50 per GiB"))
        }
        "io2" if iops > size.saturating_mul(1_000) => {
            Some(format!("io2 of {size} GiB has no {iops} IOPS: at most 1000 per GiB"))
        }
        "io1" | "io2" if iops < 100 => Some("io1 and io2 need at least 100 IOPS".to_owned()),
        "st1" | "sc1" => Some("st1 and sc1 cannot be root volumes".to_owned()),
        _ => None,
    }
}

fn volumes(facts: &Facts) -> Checked {
    let with_root = |machines: &&MachineDemand| machines.spec.root_volume.is_some();
    applies(facts.demand.machines.iter().any(|machines| with_root(&machines)))?;
    let images = known(&facts.images, "the images")?;
    let mut problems = Vec::new();
    for machines in facts.demand.machines.iter().filter(with_root) {
        let Some(volume) = &machines.spec.root_volume else {
            continue;
        };
        let image = machines.spec.ami.as_ref().and_then(|ami| ami.id.as_ref());
        let image = image.and_then(|id| images.iter().find(|image| image.id == *id));
        let snapshot = image.and_then(|image| image.root_snapshot_gib).map(i64::from);
        let message = match snapshot.filter(|snapshot| *snapshot > volume.size) {
            Some(snapshot) => {
                Some(format!("the root volume has {} GiB, and the snapshot of the image {snapshot}", volume.size))
            }
            None => impossible(volume),
        };
        if let Some(message) = message {
            problems.push(Problem::new(&machines.template, message, "correct rootVolume"));
        }
    }
    Ok(problems)
}

fn buckets(facts: &Facts) -> Checked {
    applies(!facts.buckets.is_empty())?;
    of_each(facts.buckets.iter().map(|(name, bucket)| {
        let (message, fix, command) = match known(bucket, &format!("bucket {name}"))? {
            None => (
                format!("bucket {name} does not exist"),
                "create the bucket, or correct its name",
                format!("s3api create-bucket --bucket {name}"),
            ),
            Some(bucket) if bucket.region != facts.demand.region => (
                format!("bucket {name} lies in {}", bucket.region),
                "use a bucket of the region",
                format!("s3api create-bucket --bucket {name}"),
            ),
            Some(bucket) if bucket.is_public => (
                format!("bucket {name} is public"),
                "block public access",
                format!(
                    "s3api put-public-access-block --bucket {name} --public-access-block-configuration \
                     BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
                ),
            ),
            Some(_) => return Ok(None),
        };
        Ok(Some(Problem::new(name, message, fix).fixed_by(facts.aws(&command))))
    }))
}
