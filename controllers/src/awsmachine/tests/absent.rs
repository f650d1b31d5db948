//! Values that equal the default behaviour launch the same instance as an absent field.

use capa_api::machine::AWSMachineSpec;
use serde_json::Value;

use super::{SPEC, Scene};
use crate::testing::absent::neutral_values;

/// The blocks and lists with required fields.
const PARENTS: [(&str, &str); 4] = [
    ("rootVolume", "rootVolume: {size: 8}"),
    ("nonRootVolumes[]", "nonRootVolumes: [{deviceName: /dev/sdf, size: 8}]"),
    ("subnet", "subnet: {filters: [{name: subnet-id, values: [subnet-0000000a]}]}"),
    ("additionalSecurityGroups[]", "additionalSecurityGroups: [{filters: [{name: group-id, values: [sg-0000000b]}]}]"),
];

/// Fields in which `false` has another effect than an absent field, and the effect.
const OTHERS: [(&str, &str); 6] = [
    ("publicIP", "no public address, whatever the subnet says"),
    ("uncompressedUserData", "compressed user data"),
    ("rootVolume.encrypted", "no encryption, whatever the image says"),
    ("nonRootVolumes[].encrypted", "no encryption, whatever the account says"),
    ("privateDnsName.enableResourceNameDnsARecord", "no record, whatever the subnet says"),
    ("privateDnsName.enableResourceNameDnsAAAARecord", "no record, whatever the subnet says"),
];

/// The call of RunInstances in the first pass over a new machine with this spec.
async fn call(spec: &str) -> Value {
    let scene = Scene::with_spec(spec);
    scene.aws.security_group("sg-0000000b", "vpc-00000001");
    scene.pass().await;
    serde_json::to_value(scene.aws.launches().first()).expect("a call is JSON")
}

#[tokio::test]
async fn zero_and_default_values_launch_as_an_absent_field() {
    let mut compared = 0;
    for neutral in neutral_values::<AWSMachineSpec>("AWSMachine", SPEC, &PARENTS) {
        let (path, value) = (neutral.path.as_str(), &neutral.value);
        let is_other = OTHERS.iter().any(|(other, _)| *other == path) && *value == false;
        let (with, without) = (call(&neutral.with).await, call(&neutral.without).await);
        assert_eq!(with != without, is_other, "{path}: {value}: {with:#}, and without it {without:#}");
        compared += usize::from(!without.is_null());
    }
    assert!(compared > 20, "the schema gave {compared} values only");
}
