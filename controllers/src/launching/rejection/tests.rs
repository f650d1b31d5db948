//! The message about each refusal of EC2: field, value, region, origin and remedy.

use capa_api::common::{IdentityReference, MachineRole};
use capa_api::machine::AWSMachine;
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_cloud::{CloudError, UserData};
use capa_network::Placement;

use super::RefusedLaunch;
use crate::launching::request::{RequestInputs, build_request};
use crate::testing::read;

const NETWORK: &str = "{region: eu-west-1, sshKeyName: ops, subnets: [{id: subnet-0000000a}], \
    instanceProfiles: {worker: nodes}, securityGroups: {all: [sg-0000000a], worker: [sg-0000000b]}}";
/// The sources of the network.
const SOURCES: &str = "{region: AWSCluster/dev, sshKeyName: AWSCluster/dev, subnets: Landscape/dev, \
    instanceProfiles: AWSCluster/dev, securityGroups.all: AWSCluster/dev, securityGroups.worker: AWSMachine/m}";
/// The end of the remedy for a field of the spec.
const NEW_TEMPLATE: &str = "make a new template in place of AWSMachineTemplate/workers";

/// The message about a launch from this spec that EC2 refuses with this code and text.
fn said(spec: &str, code: &str, text: &str) -> String {
    let cloned = meta::CLONED_FROM_NAME_ANNOTATION;
    let machine: AWSMachine = read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
          metadata: {{name: m, namespace: team-a, annotations: {{{cloned}: workers}}}}, \
          spec: {{instanceType: t3.large, ami: {{id: ami-00000001}}, {spec}}}}}"
    ));
    let network: MachineNetwork = read(NETWORK);
    let inputs = RequestInputs {
        image_id: "ami-00000001",
        network: &network,
        cluster_tag: "dev",
        owner_name: "m",
        management_cluster: None,
        role: MachineRole::Worker,
        user_data: &UserData::new(b"data".to_vec()),
        allocated_host: None,
        root_device: Some("/dev/xvda"),
    };
    let placement = Placement {
        subnet_id: "subnet-0000000a".into(),
        availability_zone: None,
        security_group_ids: ["a", "b", "c"].map(|last| format!("sg-0000000{last}")).into(),
    };
    let refused = RefusedLaunch {
        machine: &machine,
        request: &build_request(&machine, &inputs, &placement, "token".into()),
        network: &network,
        sources: &read(SOURCES),
        role: MachineRole::Worker,
        region: "eu-west-1",
        account_id: "111122223333",
        zone: Some("eu-west-1a"),
        identity: &IdentityReference::controller_default(),
        error: &CloudError::answered("RunInstances", code, text),
    };
    refused.to_string()
}

/// The spec, the refusal, and the message before AWS's own words.
type Row = (&'static str, &'static str, &'static str, String);

fn assert_said(table: impl IntoIterator<Item = Row>) {
    for (spec, code, text, expected) in table {
        let said = said(spec, code, text);
        assert_eq!(said, format!("{expected}; RunInstances: {code}: {text}"));
    }
}

#[test]
fn a_refused_field_of_the_spec_names_the_template() {
    let place = "in eu-west-1 of account 111122223333";
    assert_said([
        (
            "iamInstanceProfile: nope",
            "InvalidParameterValue",
            "Value (nope) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            format!(
                "spec.iamInstanceProfile: nope does not exist in account 111122223333: create it, or {NEW_TEMPLATE}"
            ),
        ),
        (
            "publicIP: false",
            "InvalidAMIID.NotFound",
            "The image id '[ami-00000001]' does not exist",
            format!("spec.ami.id: ami-00000001 does not exist {place}: copy the image there, or {NEW_TEMPLATE}"),
        ),
        (
            "publicIP: false",
            "AuthFailure",
            "Not authorized for images: [ami-00000001]",
            format!(
                "spec.ami.id: ami-00000001 may not be used in eu-west-1 by account 111122223333: have its owner share \
                 it, or accept its terms, or {NEW_TEMPLATE}"
            ),
        ),
        (
            "sshKeyName: mine",
            "InvalidKeyPair.NotFound",
            "The key pair 'mine' does not exist",
            format!("spec.sshKeyName: mine does not exist {place}: import it, or {NEW_TEMPLATE}"),
        ),
        (
            "subnet: {id: subnet-0000000a}",
            "InvalidSubnetID.NotFound",
            "The subnet ID 'subnet-0000000a' does not exist",
            format!("spec.subnet: subnet-0000000a does not exist {place}: {NEW_TEMPLATE}"),
        ),
        (
            "publicIP: false",
            "InvalidGroup.NotFound",
            "The security group 'sg-0000000b' does not exist",
            format!("spec.securityGroupOverrides: sg-0000000b does not exist {place}: {NEW_TEMPLATE}"),
        ),
        (
            "additionalSecurityGroups: [{id: sg-0000000c}]",
            "InvalidParameter",
            "Security group sg-0000000c and subnet subnet-0000000a belong to different networks.",
            format!(
                "spec.additionalSecurityGroups: sg-0000000c belongs to another VPC than subnet-0000000a in eu-west-1: \
                 {NEW_TEMPLATE}"
            ),
        ),
        (
            "publicIP: false",
            "Unsupported",
            "Your requested instance type (t3.large) is not supported in your requested Availability Zone.",
            format!("spec.instanceType: t3.large is not offered in eu-west-1a: {NEW_TEMPLATE}"),
        ),
        (
            "publicIP: false",
            "VcpuLimitExceeded",
            "You have requested more vCPU capacity than your current vCPU limit of 32 allows.",
            "spec.instanceType: t3.large exceeds a quota of account 111122223333 in eu-west-1: raise the quota, or \
             delete what uses it"
                .to_owned(),
        ),
    ]);
}

#[test]
fn a_refused_field_of_a_source_names_the_source() {
    let place = "in eu-west-1 of account 111122223333";
    assert_said([
        (
            "publicIP: false",
            "InvalidSubnetID.NotFound",
            "The subnet ID 'subnet-0000000a' does not exist",
            format!(
                "status.network.subnets of Landscape/dev: subnet-0000000a does not exist {place}: correct Landscape/dev"
            ),
        ),
        (
            "publicIP: false",
            "InvalidGroup.NotFound",
            "The security group 'sg-0000000a' does not exist",
            format!(
                "spec.network.securityGroupOverrides of AWSCluster/dev: sg-0000000a does not exist {place}: correct \
                 AWSCluster/dev"
            ),
        ),
        (
            "publicIP: false",
            "InvalidKeyPair.NotFound",
            "The key pair 'ops' does not exist",
            format!(
                "spec.sshKeyName of AWSCluster/dev: ops does not exist {place}: import it, or correct \
                 AWSCluster/dev"
            ),
        ),
        (
            "publicIP: false",
            "InvalidParameterValue",
            "Value (nodes) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            "status.network.instanceProfiles of AWSCluster/dev: nodes does not exist in account 111122223333: create \
             it, or correct AWSCluster/dev"
                .to_owned(),
        ),
        (
            "publicIP: false",
            "InsufficientFreeAddressesInSubnet",
            "There are not enough free addresses in subnet 'subnet-0000000a'.",
            "status.network.subnets of Landscape/dev: subnet-0000000a in eu-west-1 has no free address: release \
             addresses, or correct Landscape/dev"
                .to_owned(),
        ),
    ]);
}

#[test]
fn a_refused_volume_is_named_by_its_path() {
    let place = "in eu-west-1 of account 111122223333";
    let (small, device) = (
        "Volume of size 8GB is smaller than snapshot 'snap-0123456789abcdef0', expect size >= 30GB",
        "Invalid device name '/dev/sdzz'",
    );
    let code = "InvalidBlockDeviceMapping";
    let two =
        "rootVolume: {size: 8}, nonRootVolumes: [{deviceName: /dev/sdb, size: 8}, {deviceName: /dev/sdzz, size: 8}]";
    assert_said([
        (
            "rootVolume: {size: 8}",
            code,
            small,
            format!("spec.rootVolume: /dev/xvda is refused {place}: {NEW_TEMPLATE}"),
        ),
        (two, code, device, format!("spec.nonRootVolumes[1]: /dev/sdzz is refused {place}: {NEW_TEMPLATE}")),
        (two, code, small, format!("spec.rootVolume or spec.nonRootVolumes is refused {place}: {NEW_TEMPLATE}")),
    ]);
}

#[test]
fn a_profile_is_named_even_where_awss_text_does_not_name_it() {
    let text = "The value for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    let said = said("iamInstanceProfile: nope", "InvalidParameterValue", text);
    assert!(said.starts_with("spec.iamInstanceProfile: nope does not exist"), "{said}");
}

#[test]
fn a_missing_permission_names_action_identity_and_place() {
    let denied = |action: &str| {
        let text = format!(
            "You are not authorized to perform this operation. User: \
             arn:aws:sts::111122223333:assumed-role/capa-manager/i-0 is not authorized to perform: {action} on \
             resource: arn:aws:iam::111122223333:role/nodes"
        );
        said("iamInstanceProfile: mine", "UnauthorizedOperation", &text)
    };
    let identity = "AWSClusterControllerIdentity/default";
    let pass_role = denied("iam:PassRole");
    let expected = format!(
        "{identity} may not pass the role of spec.iamInstanceProfile: mine to EC2 in account 111122223333: allow it \
         iam:PassRole for this role; RunInstances: UnauthorizedOperation: "
    );
    assert!(pass_role.starts_with(&expected), "{pass_role}");
    let launch = denied("ec2:RunInstances");
    let expected = format!(
        "{identity} lacks the permission ec2:RunInstances in eu-west-1 of account 111122223333: allow it; \
         RunInstances: "
    );
    assert!(launch.starts_with(&expected), "{launch}");
    for said in [pass_role, launch] {
        assert!(!said.contains("arn:"), "{said}");
    }
}

#[test]
fn an_unknown_refusal_shows_awss_text_with_the_region() {
    let unknown = said("publicIP: false", "InvalidParameterValue", "Address 10.0.0.1 is in use.");
    assert_eq!(
        unknown,
        "the launch in eu-west-1 of account 111122223333 fails: RunInstances: InvalidParameterValue: Address 10.0.0.1 \
         is in use."
    );
    let caller = "User: arn:aws:sts::111122223333:assumed-role/capa-manager/i-0 cannot do this";
    let refused = said("publicIP: false", "InvalidParameterValue", caller);
    assert!(refused.ends_with("User: (an IAM principal) cannot do this"), "{refused}");
}

#[test]
fn a_long_or_odd_value_is_cut_and_escaped() {
    let spec = format!("iamInstanceProfile: \"a\\n{}\"", "x".repeat(300));
    let said = said(&spec, "InvalidParameterValue", "Invalid IAM Instance Profile name");
    let shown = format!("spec.iamInstanceProfile: a\\n{} does not exist", "x".repeat(super::MAX_SHOWN_CHARACTERS - 2));
    assert!(said.starts_with(&shown), "{said}");
}
