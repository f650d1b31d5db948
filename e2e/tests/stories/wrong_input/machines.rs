//! Wrong Machines, AWSMachines and bootstrap data.

use capa_e2e::{fixtures, moto};

use super::{Mend, NO_IMAGE, WrongInput};
use crate::stories::machines::{INLINE, machine};
use crate::stories::scenario::{NO_GROUP, NO_SUBNET, Scenario};

/// A field of an AWSMachine's spec in YAML's flow style, what is said about it, and the type and the reason of the
/// condition that says it, if the API server accepts the field.
struct WrongSpec {
    input: &'static str,
    spec: &'static str,
    condition: Option<(&'static str, &'static str)>,
    says: &'static [&'static str],
}

const fn wrong(
    input: &'static str,
    spec: &'static str,
    condition: Option<(&'static str, &'static str)>,
    says: &'static [&'static str],
) -> WrongSpec {
    WrongSpec { input, spec, condition, says }
}

const INVALID: Option<(&str, &str)> = Some(("InstanceReady", "InvalidSpec"));
const NOT_FOUND: Option<(&str, &str)> = Some(("NetworkReady", "NotFound"));

/// The patterns that stand in place of ids below. AWS is not asked with them.
pub(super) const PATTERNS: [&str; 4] = ["ami-*", "subnet-*", "sg-?", "alias/*"];

const WRONG_SPECS: &[WrongSpec] = &[
    wrong(
        "an instance profile that does not exist",
        "iamInstanceProfile: nope",
        INVALID,
        &[
            "spec.iamInstanceProfile: nope does not exist in account ",
            ": create it, or make a new AWSMachine in place of this one; RunInstances: InvalidParameterValue: ",
            "Value (nope)",
        ],
    ),
    wrong("a key pair that does not exist", "sshKeyName: nope", None, &["nope"]),
    wrong(
        "a filter that no subnet matches",
        "subnet: {filters: [{name: 'tag:tier', values: [none]}]}",
        NOT_FOUND,
        &["spec.subnet.filters"],
    ),
    wrong(
        "a filter that no security group matches",
        "additionalSecurityGroups: [{filters: [{name: 'tag:tier', values: [none]}]}]",
        NOT_FOUND,
        &["spec.additionalSecurityGroups"],
    ),
    wrong("a pattern as subnet", "subnet: {id: 'subnet-*'}", INVALID, &["subnet.id is"]),
    wrong(
        "a pattern as security group",
        "additionalSecurityGroups: [{id: 'sg-?'}]",
        INVALID,
        &["additionalSecurityGroups[0].id is"],
    ),
    wrong(
        "a pattern as encryption key",
        "rootVolume: {size: 40, encryptionKey: 'alias/*'}",
        INVALID,
        &["rootVolume.encryptionKey is"],
    ),
    wrong("a partition of no placement group", "placementGroupPartition: 2", None, &["placementGroupName"]),
    wrong("a root volume of 4 GiB", "rootVolume: {size: 4}", None, &["rootVolume"]),
    wrong("a volume io2 without IOPS", "rootVolume: {size: 20, type: io2}", None, &["iops"]),
    wrong("a reserved tag", "additionalTags: {'aws:team': a}", None, &["aws:"]),
    wrong("an instance of Azure", "providerID: 'azure:///subscriptions/1'", None, &["providerID"]),
    wrong("a proxy that is none", "ignition: {version: '3.4', proxy: {httpProxy: 'proxy:3128'}}", None, &["ignition"]),
    wrong("a text as number", "rootVolume: {size: large}", None, &["size"]),
];

pub(super) fn inputs(s: &Scenario) -> Vec<WrongInput> {
    let of_spec = WRONG_SPECS.iter().enumerate().map(|(number, wrong)| {
        let name = format!("machine-{number}");
        let objects = whole(&name, &format!("{INLINE}, {}", wrong.spec));
        WrongInput { condition: wrong.condition, ..replaced(wrong.input, &name, objects, wrong.says) }
    });
    let mut inputs: Vec<WrongInput> = of_spec.collect();
    inputs.extend(wrong_ids());
    inputs.extend(bootstrap_data());
    inputs.extend(tagged_later(s));
    inputs
}

/// A machine with its bootstrap Secret, in the cluster `dev`.
fn whole(name: &str, spec: &str) -> String {
    let secret = fixtures::bootstrap_secret(name, "#cloud-config");
    format!("{secret}\n---\n{}", machine(name, "dev", spec))
}

/// A machine cannot change, so another one takes its place.
fn replaced(input: &'static str, name: &str, objects: String, says: &[&str]) -> WrongInput {
    let right = format!("{name}-mended");
    WrongInput {
        input,
        objects,
        looks_at: ("AWSMachine", name.to_owned()),
        condition: None,
        says: says.iter().map(|part| (*part).to_owned()).collect(),
        mend: Mend::Apply(whole(&right, INLINE)),
        heals: ("AWSMachine", right),
    }
}

fn wrong_ids() -> Vec<WrongInput> {
    let subnet = format!("{INLINE}, subnet: {{id: {NO_SUBNET}}}");
    let group = format!("{INLINE}, additionalSecurityGroups: [{{id: {NO_GROUP}}}]");
    let both = format!(
        "{INLINE}, additionalSecurityGroups: [{{id: {NO_GROUP}, filters: [{{name: 'tag:tier', values: [a]}}]}}]"
    );
    let other = |name: &str, from: &str, to: &str| whole(name, INLINE).replace(from, to);
    let image = format!("ami: {{id: {}}}", moto::IMAGE_ID);
    let zone = "version: v1.36.3\n  failureDomain: eu-west-1z";
    let pattern = other("pattern", &image, "ami: {id: 'ami-*'}");
    vec![
        replaced("an image that does not exist", "image", other("image", moto::IMAGE_ID, NO_IMAGE), &[NO_IMAGE]),
        WrongInput {
            condition: INVALID,
            ..replaced("a pattern as image", "pattern", pattern, &["ami.id is \"ami-*\""])
        },
        replaced("no image", "imageless", other("imageless", &image, "ami: {}"), &["ami"]),
        replaced("an instance type of another form", "form", other("form", "t3.large", "large"), &["large"]),
        replaced("a zone without a subnet", "zone", other("zone", "version: v1.36.3", zone), &["eu-west-1z"]),
        replaced("a subnet of nobody", "subnet", whole("subnet", &subnet), &[NO_SUBNET]),
        replaced("a security group of nobody", "group", whole("group", &group), &[NO_GROUP]),
        replaced("a security group by id and filters", "both", whole("both", &both), &["filters"]),
    ]
}

/// Machines that wait for other bootstrap data.
fn bootstrap_data() -> Vec<WrongInput> {
    let right = |name: &str| fixtures::bootstrap_secret(name, "#cloud-config");
    let waits = |input, name: &str, secret: String, reason, says: &[&str]| WrongInput {
        condition: Some(("BootstrapDataReady", reason)),
        mend: Mend::Apply(right(name)),
        heals: ("AWSMachine", name.to_owned()),
        ..replaced(input, name, format!("{secret}\n---\n{}", machine(name, "dev", INLINE)), says)
    };
    let formatted = |name: &str| right(name).replace("cloud-config,", &format!("{name},"));
    let large = fixtures::bootstrap_secret("large", &format!("#cloud-config\n# {}", "x".repeat(16 * 1024)));
    let unknown = format!("{}\n---\n{}", formatted("bottlerocket"), machine("bottlerocket", "dev", "ignition: {}"));
    vec![
        waits("no bootstrap Secret", "dataless", String::new(), "WaitingForBootstrapData", &["Secret dataless"]),
        waits(
            "Ignition without a bucket",
            "ignition",
            formatted("ignition"),
            "StorageNotSupported",
            &["no S3 bucket", "spec.s3Bucket"],
        ),
        waits("too large user data", "large", large, "TooLarge", &["uncompressedUserData: false"]),
        WrongInput {
            condition: Some(("BootstrapDataReady", "UnsupportedFormat")),
            ..replaced("bootstrap data of an unknown format", "bottlerocket", unknown, &["Secret bottlerocket"])
        },
    ]
}

/// Machines whose filters match once the resource has its tag.
fn tagged_later(s: &Scenario) -> [WrongInput; 2] {
    let tagged = |input, name: &str, spec: &str, says, tag| WrongInput {
        condition: NOT_FOUND,
        mend: tag,
        heals: ("AWSMachine", name.to_owned()),
        ..replaced(input, name, whole(name, &format!("{INLINE}, {spec}")), &[says])
    };
    let subnet = s.network.zones[0].private_subnet_id.clone();
    let group = s.network.control_plane_security_group_id.clone();
    [
        tagged(
            "a subnet without the tag of a filter",
            "untagged-subnet",
            "subnet: {filters: [{name: 'tag:tier', values: [dmz]}]}",
            "spec.subnet.filters",
            Mend::Tag(subnet, "tier", "dmz"),
        ),
        tagged(
            "a security group without the tag of a filter",
            "untagged-group",
            "additionalSecurityGroups: [{filters: [{name: 'tag:purpose', values: [storage]}]}]",
            "spec.additionalSecurityGroups",
            Mend::Tag(group, "purpose", "storage"),
        ),
    ]
}
