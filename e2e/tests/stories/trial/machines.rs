//! Wrong Machines, AWSMachines and bootstrap data.

use capa_e2e::{fixtures, moto};

use super::{Mend, NO_GROUP, NO_IMAGE, NO_SUBNET, Trial};
use crate::stories::machines::{INLINE, machine};
use crate::stories::scenario::Scenario;

/// Fields of an AWSMachine's spec, in YAML's flow style, and what is said about them.
const WRONG_SPECS: &[(&str, &str, &str)] = &[
    (
        "an instance profile that does not exist",
        "iamInstanceProfile: nope",
        "nope",
    ),
    ("a key pair that does not exist", "sshKeyName: nope", "nope"),
    (
        "a filter that no subnet matches",
        "subnet: {filters: [{name: 'tag:tier', values: [none]}]}",
        "spec.subnet.filters",
    ),
    (
        "a filter that no security group matches",
        "additionalSecurityGroups: [{filters: [{name: 'tag:tier', values: [none]}]}]",
        "spec.additionalSecurityGroups",
    ),
    (
        "a partition of no placement group",
        "placementGroupPartition: 2",
        "placementGroupName",
    ),
    ("a root volume of 4 GiB", "rootVolume: {size: 4}", "rootVolume"),
    ("a volume io2 without IOPS", "rootVolume: {size: 20, type: io2}", "iops"),
    ("a reserved tag", "additionalTags: {'aws:team': a}", "aws:"),
    (
        "an instance of Azure",
        "providerID: 'azure:///subscriptions/1'",
        "providerID",
    ),
    (
        "a proxy that is none",
        "ignition: {version: '3.4', proxy: {httpProxy: 'proxy:3128'}}",
        "ignition",
    ),
    ("a text as number", "rootVolume: {size: large}", "size"),
];

pub(super) fn trials(s: &Scenario) -> Vec<Trial> {
    let mut trials: Vec<Trial> = WRONG_SPECS
        .iter()
        .enumerate()
        .map(|(number, (input, spec, says))| {
            let name = format!("machine-{number}");
            replaced(input, &name, &whole(&name, &format!("{INLINE}, {spec}")), says)
        })
        .collect();
    trials.extend(wrong_ids());
    trials.extend(bootstrap_data());
    trials.push(tagged_later(s));
    trials
}

/// A machine with its bootstrap Secret, in the cluster `dev`.
fn whole(name: &str, spec: &str) -> String {
    let secret = fixtures::bootstrap_secret(name, "#cloud-config");
    format!("{secret}\n---\n{}", machine(name, "dev", spec))
}

/// A machine cannot change, so another one takes its place.
fn replaced(input: &'static str, name: &str, wrong: &str, says: &str) -> Trial {
    let right = format!("{name}-mended");
    Trial {
        input,
        wrong: wrong.to_owned(),
        looks_at: ("AWSMachine", name.to_owned()),
        says: says.to_owned(),
        mend: Mend::Apply(whole(&right, INLINE)),
        heals: ("AWSMachine", right),
    }
}

fn wrong_ids() -> Vec<Trial> {
    let subnet = format!("{INLINE}, subnet: {{id: {NO_SUBNET}}}");
    let group = format!("{INLINE}, additionalSecurityGroups: [{{id: {NO_GROUP}}}]");
    let both = format!(
        "{INLINE}, additionalSecurityGroups: [{{id: {NO_GROUP}, filters: [{{name: 'tag:tier', values: [a]}}]}}]"
    );
    let other = |name: &str, from: &str, to: &str| whole(name, INLINE).replace(from, to);
    let image = format!("ami: {{id: {}}}", moto::IMAGE_ID);
    let zone = "version: v1.36.3\n  failureDomain: eu-west-1z";
    vec![
        replaced(
            "an image that does not exist",
            "image",
            &other("image", moto::IMAGE_ID, NO_IMAGE),
            NO_IMAGE,
        ),
        replaced("no image", "imageless", &other("imageless", &image, "ami: {}"), "ami"),
        replaced(
            "an instance type of another form",
            "form",
            &other("form", "t3.large", "large"),
            "large",
        ),
        replaced(
            "a zone without a subnet",
            "zone",
            &other("zone", "version: v1.36.3", zone),
            "eu-west-1z",
        ),
        replaced("a subnet of nobody", "subnet", &whole("subnet", &subnet), NO_SUBNET),
        replaced("a security group of nobody", "group", &whole("group", &group), NO_GROUP),
        replaced(
            "a security group by id and filters",
            "both",
            &whole("both", &both),
            "filters",
        ),
    ]
}

/// Machines that wait for other bootstrap data.
fn bootstrap_data() -> Vec<Trial> {
    let right = |name: &str| fixtures::bootstrap_secret(name, "#cloud-config");
    let waits = |input, name: &str, secret: String, says: &str| Trial {
        input,
        wrong: format!("{secret}\n---\n{}", machine(name, "dev", INLINE)),
        looks_at: ("AWSMachine", name.to_owned()),
        says: says.to_owned(),
        mend: Mend::Apply(right(name)),
        heals: ("AWSMachine", name.to_owned()),
    };
    let ignition = right("ignition").replace("cloud-config,", "ignition,");
    let large = fixtures::bootstrap_secret("large", &format!("#cloud-config\n# {}", "x".repeat(16 * 1024)));
    vec![
        waits("no bootstrap Secret", "dataless", String::new(), "Secret dataless"),
        waits("Ignition without a bucket", "ignition", ignition, "no S3 bucket"),
        waits("too large user data", "large", large, "uncompressedUserData: false"),
    ]
}

/// A machine whose filter matches once the subnet has its tag.
fn tagged_later(s: &Scenario) -> Trial {
    let spec = format!("{INLINE}, subnet: {{filters: [{{name: 'tag:tier', values: [dmz]}}]}}");
    Trial {
        input: "a subnet without the tag of a filter",
        wrong: whole("untagged", &spec),
        looks_at: ("AWSMachine", "untagged".into()),
        says: "spec.subnet.filters".into(),
        mend: Mend::Tag(s.network.zones[0].private_subnet_id.clone()),
        heals: ("AWSMachine", "untagged".into()),
    }
}
