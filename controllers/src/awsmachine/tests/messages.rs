//! Tests of the whole condition message of an AWSMachine that is not launched.

use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_cloud::CloudError;

use super::{CLUSTER, NETWORK, SPEC, Scene};
use crate::kubernetes_api::SourceOutcome;
use crate::testing::{FakeSource, read};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const NETWORK_READY: ConditionType = ConditionType::NetworkReady;
/// The place of every launch of these tests.
const PLACE: &str = "in eu-west-1 of account 111122223333";
/// The remedy for a field of a machine from the template `workers`.
const NEW_TEMPLATE: &str = "make a new template in place of AWSMachineTemplate/workers";

/// A scene whose machine Cluster API has made from the template `workers`; `more` are further fields of its spec.
fn cloned(more: &str) -> Scene {
    let scene = Scene::with_spec(&format!("{SPEC}{more}"));
    scene.edit(|machine| {
        let annotations = machine.metadata.annotations.get_or_insert_default();
        annotations.insert(meta::CLONED_FROM_NAME_ANNOTATION.to_owned(), "workers".to_owned());
    });
    scene
}

/// The reason and message of a condition after one pass. Nothing is launched.
async fn said(scene: &Scene, condition: ConditionType) -> (String, String) {
    let pass = scene.pass().await;
    assert_eq!(scene.aws.instance_ids(), [""; 0]);
    (pass.condition(condition), pass.message(condition).to_owned())
}

/// The network of an infrastructure object of another group.
fn of_a_foreign_kind(read_as: impl Into<FakeSource>) -> Scene {
    let scene = cloned("");
    let foreign = CLUSTER.replace("kind: AWSCluster", "kind: Landscape").replace(meta::GROUP, "example.org");
    scene.kubernetes.put_cluster(read(&foreign));
    scene.kubernetes.put_source("dev", read_as);
    scene
}

#[tokio::test]
async fn a_refused_launch_has_field_place_origin_and_remedy() {
    let own_subnet = ", subnet: {id: subnet-0000000b}";
    let table = [
        (
            "",
            "ami-00000001",
            format!("spec.ami.id: ami-00000001 does not exist {PLACE}: copy the image there, or {NEW_TEMPLATE}"),
            "InvalidAMIID.NotFound: The image id 'ami-00000001' does not exist",
        ),
        (
            "",
            "sg-0000000a",
            format!(
                "spec.network.securityGroupOverrides of AWSCluster/dev: sg-0000000a does not exist {PLACE}: correct \
                 AWSCluster/dev"
            ),
            "InvalidGroup.NotFound: The security group 'sg-0000000a' does not exist",
        ),
        (
            "",
            "subnet-0000000a",
            format!(
                "spec.network.subnets of AWSCluster/dev: subnet-0000000a does not exist {PLACE}: correct \
                 AWSCluster/dev"
            ),
            "InvalidSubnetID.NotFound: The subnet ID 'subnet-0000000a' does not exist",
        ),
        (
            own_subnet,
            "subnet-0000000b",
            format!("spec.subnet: subnet-0000000b does not exist {PLACE}: {NEW_TEMPLATE}"),
            "InvalidSubnetID.NotFound: The subnet ID 'subnet-0000000b' does not exist",
        ),
        (
            ", sshKeyName: nope",
            "key pair",
            format!("spec.sshKeyName: nope does not exist {PLACE}: import it, or {NEW_TEMPLATE}"),
            "InvalidKeyPair.NotFound: The key pair 'nope' does not exist",
        ),
    ];
    for (spec, removed, expected, of_aws) in table {
        let scene = cloned(spec);
        scene.aws.remove(removed);
        let (reason, message) = said(&scene, INSTANCE_READY).await;
        assert_eq!(reason, "False/NotFound", "{message}");
        assert_eq!(message, format!("{expected}; RunInstances: {of_aws}"));
    }
}

#[tokio::test]
async fn a_refused_instance_profile_has_its_name_and_remedy() {
    let scene = cloned(", iamInstanceProfile: nope");
    let text = "Invalid IAM Instance Profile name";
    let error = CloudError::answered("RunInstances", "InvalidParameterValue", text);
    scene.aws.fail_next("RunInstances", error);
    let expected = format!(
        "spec.iamInstanceProfile: nope does not exist in account 111122223333: create it, or {NEW_TEMPLATE}; \
         RunInstances: InvalidParameterValue: {text}"
    );
    let found = said(&scene, INSTANCE_READY).await;
    assert_eq!(found, ("False/InvalidSpec".to_owned(), expected));
}

#[tokio::test]
async fn a_throttled_or_unanswered_launch_has_its_region() {
    for error in [
        CloudError::answered("RunInstances", "RequestLimitExceeded", "Request limit exceeded."),
        CloudError::no_answer("RunInstances", "no answer in time"),
    ] {
        let scene = cloned("");
        let text = error.to_string();
        scene.aws.fail_next("RunInstances", error);
        let (reason, message) = said(&scene, INSTANCE_READY).await;
        assert_eq!(reason, "False/Launching");
        assert_eq!(message, format!("{text}; the region is eu-west-1"));
    }
}

#[tokio::test]
async fn filters_without_a_match_have_region_and_remedy() {
    let filters = "filters: [{name: vpc-id, values: [vpc-0000000f]}]";
    for (spec, expected) in [
        (
            format!(", subnet: {{{filters}}}"),
            "no subnet in eu-west-1 matches spec.subnet.filters: tag one, or name other filters in a new template",
        ),
        (
            format!(", subnet: {{id: subnet-0000000f, {filters}}}"),
            "subnet subnet-0000000f of spec.subnet.id does not exist in eu-west-1, or does not match \
             spec.subnet.filters: tag it, or name another in a new template",
        ),
        (
            format!(", additionalSecurityGroups: [{{{filters}}}]"),
            "no security group in eu-west-1 matches spec.additionalSecurityGroups[0]: tag one, or name other filters \
             in a new template",
        ),
    ] {
        let found = said(&cloned(&spec), NETWORK_READY).await;
        assert_eq!(found, ("False/NotFound".to_owned(), expected.to_owned()));
    }
}

#[tokio::test]
async fn a_missing_subnet_is_never_to_be_set_on_the_machine() {
    let scene = cloned("");
    let network = "{region: eu-west-1, securityGroups: {all: [sg-0000000a]}}";
    scene.kubernetes.publish_network("dev", network);
    let expected = "no source supplies subnets: let the cluster's infrastructure object publish \
                    status.network.subnets, or set spec.template.spec.subnet in a new AWSMachineTemplate";
    let found = said(&scene, NETWORK_READY).await;
    assert_eq!(found, ("False/MissingField".to_owned(), expected.to_owned()));
}

#[tokio::test]
async fn a_kind_without_the_label_is_the_cause_of_a_missing_field() {
    let (reason, message) = said(&of_a_foreign_kind(SourceOutcome::Undescribed), NETWORK_READY).await;
    assert_eq!(reason, "False/MissingField");
    let expected = "no source supplies region: the CRD of Landscape in group example.org does not have the label \
                    infrastructure.cluster.x-k8s.io/machine-network: v1, so status.network of a Landscape is not read; \
                    add the label, or set spec.template.spec.region in a new AWSMachineTemplate";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn a_missing_infrastructure_object_has_a_remedy() {
    let (reason, message) = said(&of_a_foreign_kind(SourceOutcome::NotFound), NETWORK_READY).await;
    assert_eq!(reason, "False/NotFound");
    let expected = "Landscape/dev, which the Cluster names in spec.infrastructureRef, does not exist: create it, or \
                    correct the Cluster";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn a_refused_authority_has_no_advice_about_mappings() {
    let network = NETWORK.replacen('{', "{instanceProfiles: {worker: admin}, ", 1);
    let published = FakeSource::published(&read(&network));
    let (reason, message) = said(&of_a_foreign_kind(published), NETWORK_READY).await;
    assert_eq!(reason, "False/AuthorityNotAllowed");
    let expected = "Landscape/dev supplies instanceProfiles, which only an AWSMachine, an AWSCluster, or a kind with \
                    an AWSNetworkMapping whose authority is Allowed may supply: remove it there, and set \
                    spec.template.spec.iamInstanceProfile in a new AWSMachineTemplate";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn a_wrong_type_has_path_and_type_and_no_value() {
    let network = "{region: eu-west-1, subnets: [{id: subnet-0000000a}, {id: [hunter2]}]}";
    let published = FakeSource::published(&read(network));
    let (reason, message) = said(&of_a_foreign_kind(published), NETWORK_READY).await;
    assert_eq!(reason, "False/WrongType");
    let expected = "Landscape/dev: status.network.subnets[1].id does not have the type of the network contract: it has \
                    to be a string; correct it there";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn large_data_that_is_compressed_is_not_to_be_compressed() {
    // Compression reduces random letters to three quarters of their size.
    let mut state: u32 = 1;
    let letters = (0..40_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'0' + u8::try_from(state >> 26).unwrap_or_default())
    });
    let data: String = letters.collect();
    for (spec, expected) in [
        (", uncompressedUserData: false", "it is compressed, so shorten the bootstrap data in Secret boot"),
        ("", "so shorten the bootstrap data in Secret boot"),
    ] {
        let scene = cloned(spec);
        scene.kubernetes.put_secret("team-a", "boot", &[("value", &data)]);
        let (reason, message) = said(&scene, ConditionType::BootstrapDataReady).await;
        assert_eq!(reason, "False/TooLarge");
        assert!(message.ends_with(expected) && !message.contains("uncompressedUserData"), "{message}");
    }
}

#[tokio::test]
async fn a_wrong_role_of_a_group_has_the_roles_of_machines() {
    let scene = cloned(", securityGroupOverrides: {controlPlane: sg-0000000b}");
    let (reason, message) = said(&scene, INSTANCE_READY).await;
    assert_eq!(reason, "False/InvalidSpec");
    assert!(message.contains("use one of node, controlplane, lb;"), "{message}");
    assert!(message.ends_with(NEW_TEMPLATE), "{message}");
}
