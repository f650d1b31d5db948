//! Tests of the effect of each field in an AWSMachine's spec. `api/tests/data/effects.tsv` names the test of each
//! field.

use capa_api::machine::InstanceState;
use serde_json::{Value, json};

use super::{FIRST, NETWORK, SPEC, Scene};
use crate::testing::fields::{Row, assert_effect, spec_with};

/// The result of one pass over a new machine with this spec: the status, and the call of RunInstances, if any.
async fn observed(spec: &str) -> Value {
    let scene = Scene::with_spec(spec);
    scene.aws.security_group("sg-0000000c", "vpc-00000001");
    let elsewhere = scene.aws.in_region("us-east-1");
    elsewhere.subnet("subnet-0000000a", "vpc-00000001", "eu-west-1a");
    elsewhere.security_group("sg-0000000a", "vpc-00000001");
    elsewhere.image("ami-00000001", "/dev/sda1");
    shown(&scene).await
}

async fn shown(scene: &Scene) -> Value {
    let pass = scene.pass().await;
    let conditions = pass.status().conditions.iter().map(|condition| {
        let is = format!("{}/{}", condition.status, condition.reason);
        let shown = json!({"is": is, "message": condition.message});
        (condition.type_.clone(), shown)
    });
    json!({
        "call": scene.aws.launches().first(),
        "conditions": conditions.collect::<serde_json::Map<_, _>>(),
        "status": pass.status(),
    })
}

async fn assert_effects(rows: &[Row]) {
    let without = observed(SPEC).await;
    for row in rows {
        assert_effect(row, &without, &observed(&spec_with(SPEC, row)).await);
    }
}

#[tokio::test]
async fn the_spec_decides_the_instance_and_its_location() {
    assert_effects(&[
        (
            "controlPlaneTargets[].targetGroupARN",
            "controlPlaneTargets: [{targetGroupARN: 'arn:a'}]",
            "/status/network/controlPlaneTargets/0/targetGroupARN",
            json!("arn:a"),
        ),
        (
            "controlPlaneTargets[].port",
            "controlPlaneTargets: [{targetGroupARN: 'arn:a', port: 443}]",
            "/status/network/controlPlaneTargets/0/port",
            json!(443),
        ),
        (
            "controlPlaneTargets[].loadBalancerName",
            "controlPlaneTargets: [{loadBalancerName: api}]",
            "/status/network/controlPlaneTargets/0/loadBalancerName",
            json!("api"),
        ),
        (
            "controlPlaneTargets[].classicLoadBalancerName",
            "controlPlaneTargets: [{classicLoadBalancerName: api}]",
            "/status/network/controlPlaneTargets/0/classicLoadBalancerName",
            json!("api"),
        ),
        (
            "instanceType",
            "instanceType: m7i.large",
            "/call/instance_type",
            json!("m7i.large"),
        ),
        (
            "ami.id",
            "ami: {id: ami-00000002}",
            "/call/image_id",
            json!("ami-00000002"),
        ),
        (
            "region",
            "region: us-east-1",
            "/status/network/region",
            json!("us-east-1"),
        ),
        (
            "iamInstanceProfile",
            "iamInstanceProfile: nodes",
            "/call/iam_instance_profile",
            json!("nodes"),
        ),
        (
            "sshKeyName",
            "sshKeyName: operator",
            "/call/key_name",
            json!("operator"),
        ),
        ("publicIP", "publicIP: true", "/call/public_ip", json!(true)),
        (
            "subnet.id",
            "subnet: {id: subnet-0000000b}",
            "/call/subnet_id",
            json!("subnet-0000000b"),
        ),
        (
            "subnet.filters[].name",
            "subnet: {filters: [{name: availability-zone, values: [eu-west-1b]}]}",
            "/call/subnet_id",
            json!("subnet-0000000b"),
        ),
        (
            "subnet.filters[].values[]",
            "subnet: {filters: [{name: subnet-id, values: [subnet-0000000b]}]}",
            "/call/subnet_id",
            json!("subnet-0000000b"),
        ),
        (
            "additionalSecurityGroups[].id",
            "additionalSecurityGroups: [{id: sg-0000000b}]",
            "/call/security_group_ids",
            json!(["sg-0000000a", "sg-0000000b"]),
        ),
        (
            "additionalSecurityGroups[].filters[].name",
            "additionalSecurityGroups: [{filters: [{name: vpc-id, values: [vpc-00000001]}]}]",
            "/call/security_group_ids",
            json!(["sg-0000000a", "sg-0000000c"]),
        ),
        (
            "additionalSecurityGroups[].filters[].values[]",
            "additionalSecurityGroups: [{filters: [{name: group-id, values: [sg-0000000c]}]}]",
            "/call/security_group_ids",
            json!(["sg-0000000a", "sg-0000000c"]),
        ),
        (
            "additionalTags{}",
            "additionalTags: {team: a}",
            "/call/tags/team",
            json!("a"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn overrides_of_a_machine_replace_node_and_lb_together() {
    let observed = async |spec: &str| {
        let scene = Scene::with_spec(spec);
        let node_and_lb = NETWORK.replace("all: [sg-0000000a]", "all: [sg-0000000a, sg-0000000b]");
        scene.kubernetes.publish_network("dev", &node_and_lb);
        shown(&scene).await
    };
    let without = observed(SPEC).await;
    let both = json!(["sg-0000000a", "sg-0000000b"]);
    assert_eq!(without["call"]["security_group_ids"], both);
    for (set, used) in [
        ("securityGroupOverrides: {node: sg-0000000c}", json!(["sg-0000000c"])),
        (
            "securityGroupOverrides: {node: sg-0000000c, lb: sg-0000000b}",
            json!(["sg-0000000c", "sg-0000000b"]),
        ),
    ] {
        let row = ("securityGroupOverrides{}", set, "/call/security_group_ids", used);
        assert_effect(&row, &without, &observed(&spec_with(SPEC, &row)).await);
    }
    let only_lb = observed(&format!("{SPEC}, securityGroupOverrides: {{lb: sg-0000000c}}")).await;
    assert!(
        only_lb["call"].is_null(),
        "a worker without the group of nodes cannot join"
    );
    assert_eq!(only_lb["conditions"]["InstanceReady"]["is"], "False/InvalidSpec");
}

#[tokio::test]
async fn the_identity_is_the_one_that_the_spec_names() {
    let missing = |identity: &str| {
        json!(format!(
            "{identity} does not exist: create it, or name another in identityRef"
        ))
    };
    assert_effects(&[
        (
            "identityRef.kind",
            "identityRef: {kind: AWSClusterStaticIdentity, name: default}",
            "/conditions/IdentityReady/message",
            missing("AWSClusterStaticIdentity/default"),
        ),
        (
            "identityRef.name",
            "identityRef: {kind: AWSClusterControllerIdentity, name: other}",
            "/conditions/IdentityReady/message",
            missing("AWSClusterControllerIdentity/other"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_spec_configures_the_volumes() {
    assert_effects(&[
        (
            "rootVolume.size",
            "rootVolume: {size: 40}",
            "/call/root_volume/size",
            json!(40),
        ),
        (
            "rootVolume.deviceName",
            "rootVolume: {size: 40, deviceName: /dev/xvda}",
            "/call/root_volume/device_name",
            json!("/dev/xvda"),
        ),
        (
            "rootVolume.type",
            "rootVolume: {size: 40, type: gp3}",
            "/call/root_volume/volume_type",
            json!("gp3"),
        ),
        (
            "rootVolume.iops",
            "rootVolume: {size: 40, iops: 4000}",
            "/call/root_volume/iops",
            json!(4000),
        ),
        (
            "rootVolume.throughput",
            "rootVolume: {size: 40, throughput: 200}",
            "/call/root_volume/throughput",
            json!(200),
        ),
        (
            "rootVolume.encrypted",
            "rootVolume: {size: 40, encrypted: false}",
            "/call/root_volume/encrypted",
            json!(false),
        ),
        (
            "rootVolume.encryptionKey",
            "rootVolume: {size: 40, encryptionKey: alias/nodes}",
            "/call/root_volume/encryption_key",
            json!("alias/nodes"),
        ),
        (
            "nonRootVolumes[].size",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100}]",
            "/call/data_volumes/0/size",
            json!(100),
        ),
        (
            "nonRootVolumes[].deviceName",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100}]",
            "/call/data_volumes/0/device_name",
            json!("/dev/sdb"),
        ),
        (
            "nonRootVolumes[].type",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100, type: io2}]",
            "/call/data_volumes/0/volume_type",
            json!("io2"),
        ),
        (
            "nonRootVolumes[].iops",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100, iops: 4000}]",
            "/call/data_volumes/0/iops",
            json!(4000),
        ),
        (
            "nonRootVolumes[].throughput",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100, throughput: 200}]",
            "/call/data_volumes/0/throughput",
            json!(200),
        ),
        (
            "nonRootVolumes[].encrypted",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100, encrypted: true}]",
            "/call/data_volumes/0/encrypted",
            json!(true),
        ),
        (
            "nonRootVolumes[].encryptionKey",
            "nonRootVolumes: [{deviceName: /dev/sdb, size: 100, encryptionKey: alias/nodes}]",
            "/call/data_volumes/0/encryption_key",
            json!("alias/nodes"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_spec_configures_the_metadata_service() {
    assert_effects(&[
        (
            "instanceMetadataOptions.httpEndpoint",
            "instanceMetadataOptions: {httpEndpoint: disabled}",
            "/conditions/InstanceReady/is",
            json!("False/InvalidSpec"),
        ),
        (
            "instanceMetadataOptions.httpProtocolIpv6",
            "instanceMetadataOptions: {httpProtocolIpv6: enabled}",
            "/call/metadata_options/http_protocol_ipv6",
            json!("enabled"),
        ),
        (
            "instanceMetadataOptions.httpPutResponseHopLimit",
            "instanceMetadataOptions: {httpPutResponseHopLimit: 5}",
            "/call/metadata_options/http_put_response_hop_limit",
            json!(5),
        ),
        (
            "instanceMetadataOptions.httpTokens",
            "instanceMetadataOptions: {httpTokens: optional}",
            "/call/metadata_options/http_tokens",
            json!("optional"),
        ),
        (
            "instanceMetadataOptions.instanceMetadataTags",
            "instanceMetadataOptions: {instanceMetadataTags: enabled}",
            "/conditions/InstanceReady/is",
            json!("False/InvalidSpec"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_spec_decides_the_delivery_of_bootstrap_data() {
    assert_effects(&[
        // The first byte of data that is compressed with gzip; otherwise `#`.
        (
            "uncompressedUserData",
            "uncompressedUserData: false",
            "/call/user_data/0",
            json!(0x1f),
        ),
        (
            "cloudInit.insecureSkipSecretsManager",
            "cloudInit: {insecureSkipSecretsManager: false}",
            "/status/bootstrapSecrets/backend",
            json!("secrets-manager"),
        ),
        (
            "cloudInit.secureSecretsBackend",
            "cloudInit: {insecureSkipSecretsManager: false, secureSecretsBackend: ssm-parameter-store}",
            "/status/bootstrapSecrets/backend",
            json!("ssm-parameter-store"),
        ),
        (
            "cloudInit.secretPrefix",
            "cloudInit: {insecureSkipSecretsManager: false, secretPrefix: team-a, secretCount: 1}",
            "/status/bootstrapSecrets/prefix",
            json!("team-a/uid-m"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_instance_in_the_spec_is_followed_and_none_launched() {
    for row in [
        (
            "providerID",
            "providerID: 'aws:///eu-west-1a/i-00000000000000001'",
            "/status/instanceState",
            json!("running"),
        ),
        (
            "instanceID",
            "instanceID: i-00000000000000001",
            "/status/instanceState",
            json!("running"),
        ),
    ] {
        // The instance is found only by the spec, and its name tag decides about its ownership.
        let unnamed = Scene::new();
        unnamed.aws.instance(FIRST, InstanceState::Running, "team-a/other");
        let named = Scene::with_spec(&spec_with(SPEC, &row));
        named.aws.instance(FIRST, InstanceState::Running, "team-a/m");
        // The first pass starts the lookup of the instance.
        named.pass().await;
        let (without, with) = (shown(&unnamed).await, shown(&named).await);
        assert_effect(&row, &without, &with);
        assert!(without["call"].is_object() && with["call"].is_null(), "{with:#}");
    }
}
