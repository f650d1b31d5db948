//! Tests of the lookup of machine images by name and by AWS's parameters.

use capa_api::conditions::ConditionType;
use capa_api::machine::LaunchRecord;
use capa_cloud::{Image, InstanceType};
use capa_fake_aws::PublishedImage;

use super::{FIRST, NETWORK, SPEC, Scene};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const OWNER: &str = "111111111111";

const VERSIONED: &str = "bootstrap: {dataSecretName: boot}, version: v1.36.3";

/// A spec without an image, whose images another account of the user publishes; `more` are further fields.
fn spec(more: &str) -> String {
    format!("instanceType: t3.large, imageLookupOrg: '{OWNER}', cloudInit: {{insecureSkipSecretsManager: true}}{more}")
}

/// A scene with two instance types, and a machine of Kubernetes v1.36.3 with this spec.
fn scene(spec: &str) -> Scene {
    let scene = Scene::with_spec(SPEC);
    for (name, architecture) in [("t3.large", "x86_64"), ("t4g.large", "arm64")] {
        scene.aws.instance_type(InstanceType {
            name: name.to_owned(),
            vcpus: 2,
            memory: 8192,
            architectures: vec![architecture.to_owned()],
            ..InstanceType::default()
        });
    }
    scene.add("m", VERSIONED, spec);
    scene
}

fn publish(scene: &Scene, id: &str, name: &str, created: &str) {
    publish_for("x86_64", scene, id, name, created);
}

fn publish_for(architecture: &str, scene: &Scene, id: &str, name: &str, created: &str) {
    scene.aws.published_image(PublishedImage {
        name: name.to_owned(),
        owner: OWNER.to_owned(),
        image: Image {
            id: id.to_owned(),
            root_device_name: Some(format!("/dev/{id}")),
            architecture: Some(architecture.to_owned()),
            windows: name.contains("windows"),
            created: created.to_owned(),
            ..Image::default()
        },
    });
}

fn images(scene: &Scene) -> Vec<String> {
    scene.aws.launches().into_iter().map(|launch| launch.image_id).collect()
}

#[tokio::test]
async fn the_newest_image_with_the_name_is_launched_and_recorded() {
    let scene = scene(&spec(""));
    publish(&scene, "ami-0000000a", "capa-ami-ubuntu-24.04-v1.36.3-old", "2026-01-01T00:00:00.000Z");
    publish(&scene, "ami-0000000b", "capa-ami-ubuntu-24.04-v1.36.3-new", "2026-02-01T00:00:00.000Z");
    publish(&scene, "ami-0000000c", "capa-ami-ubuntu-24.04-v1.36.4-new", "2026-03-01T00:00:00.000Z");
    publish(&scene, "ami-0000000d", "capa-ami-flatcar-v1.36.3-new", "2026-03-01T00:00:00.000Z");
    let launched = scene.pass().await;
    assert_eq!(images(&scene), ["ami-0000000b"]);
    let record = launched.status().launch.as_ref().and_then(LaunchRecord::request);
    assert_eq!(record.and_then(|request| request.image_id.as_deref()), Some("ami-0000000b"));
}

#[tokio::test]
async fn each_part_of_the_lookup_comes_from_machine_or_network() {
    for (field, value, others) in [
        ("imageLookupFormat", "'f-{{.BaseOS}}'", "{org: '111111111111', format: other, baseOS: flatcar}"),
        ("imageLookupBaseOS", "flatcar", "{org: '111111111111', format: 'f-{{.BaseOS}}', baseOS: other}"),
        ("imageLookupOrg", "'111111111111'", "{org: '222222222222', format: f-flatcar}"),
    ] {
        let machine =
            format!("instanceType: t3.large, cloudInit: {{insecureSkipSecretsManager: true}}, {field}: {value}");
        let scene = scene(&machine);
        let network = NETWORK.replacen('{', &format!("{{imageLookup: {others}, "), 1);
        scene.kubernetes.publish_network("dev", &network);
        publish(&scene, "ami-0000000a", "f-flatcar", "");
        scene.pass().await;
        assert_eq!(images(&scene), ["ami-0000000a"], "{field}");
    }
}

#[tokio::test]
async fn a_root_volume_has_the_device_of_the_image() {
    for volume in ["{size: 20}", "{size: 20, deviceName: ''}", "{size: 20, deviceName: /dev/other}"] {
        let scene = scene(&spec(&format!(", imageLookupFormat: f, rootVolume: {volume}")));
        publish(&scene, "ami-0000000a", "f", "");
        scene.pass().await;
        let launches = scene.aws.launches();
        let device = launches.first().and_then(|launch| launch.root_volume.as_ref());
        assert_eq!(device.and_then(|volume| volume.device_name.as_deref()), Some("/dev/ami-0000000a"), "{volume}");
    }
}

/// Asserts that the call that was not answered is repeated with its image, although there is a newer one.
async fn assert_repeats_first_image(mut scene: Scene) {
    scene.restart();
    for _ in 0..5 {
        scene.pass().await;
    }
    let launched = images(&scene);
    assert!(!launched.is_empty() && launched.iter().all(|image| image == "ami-0000000a"), "{launched:?}");
}

#[tokio::test]
async fn a_repeated_call_names_the_recorded_image() {
    let scene = scene(&spec(", imageLookupFormat: 'f-*'"));
    publish(&scene, "ami-0000000a", "f-1", "2026-01-01T00:00:00.000Z");
    scene.unanswered_launch().await;
    publish(&scene, "ami-0000000b", "f-2", "2026-02-01T00:00:00.000Z");
    assert_repeats_first_image(scene).await;
}

#[tokio::test]
async fn the_instance_of_a_call_is_found_although_its_image_is_gone() {
    let mut scene = scene(&spec(", imageLookupFormat: f, rootVolume: {size: 20}"));
    publish(&scene, "ami-0000000a", "f", "");
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.aws.remove("ami-0000000a");
    scene.restart();
    let found = scene.after(super::RETRY * 60).await;
    assert_eq!(found.launch().instance_id(), Some(FIRST));
    assert_eq!(images(&scene), ["ami-0000000a"]);
}

#[tokio::test]
async fn an_image_that_is_not_found_is_named_and_waited_for() {
    let scene = scene(&spec(""));
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/NotFound");
    let message = waiting.message(INSTANCE_READY);
    for part in ["capa-ami-ubuntu-24.04-?1.36.3-*", "x86_64", OWNER, "eu-west-1"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(images(&scene).is_empty());
    publish(&scene, "ami-0000000a", "capa-ami-ubuntu-24.04-v1.36.3-1", "");
    scene.after(super::RETRY * 60).await;
    assert_eq!(images(&scene), ["ami-0000000a"]);
}

#[tokio::test]
async fn a_lookup_that_cannot_be_made_says_what_to_correct() {
    for (spec, reason, part) in [
        (spec("").replace(OWNER, "*"), "InvalidSpec", "imageLookupOrg"),
        (spec(", imageLookupFormat: '{{.Arch}}'"), "InvalidSpec", "{{.Arch}}"),
        (spec("").replace("t3.large", "t9.large"), "NotFound", "t9.large"),
    ] {
        let scene = scene(&spec);
        let waiting = scene.pass().await;
        assert_eq!(waiting.condition(INSTANCE_READY), format!("False/{reason}"), "{spec}");
        let message = waiting.message(INSTANCE_READY);
        assert!(message.contains(part), "{message}");
        assert!(images(&scene).is_empty());
    }
}

#[tokio::test]
async fn arm64_and_windows_machines_find_images_of_their_own() {
    for (spec, expected) in [
        (spec(""), "ami-0000000a"),
        (spec("").replace("t3.large", "t4g.large"), "ami-0000000b"),
        (spec(", imageLookupBaseOS: windows-2022"), "ami-0000000c"),
    ] {
        let scene = scene(&spec);
        publish(&scene, "ami-0000000a", "capa-ami-ubuntu-24.04-v1.36.3-1", "");
        publish_for("arm64", &scene, "ami-0000000b", "capa-ami-ubuntu-24.04-v1.36.3-1", "");
        publish(&scene, "ami-0000000c", "capa-ami-windows-2022-v1.36.3-1", "");
        scene.pass().await;
        assert_eq!(images(&scene), [expected], "{spec}");
    }
}

/// The parameter of the image that `EKS` asks for.
const PARAMETER: &str = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
const EKS: &str = "instanceType: t3.large, ami: {eksLookupType: AmazonLinux2023}, \
                   cloudInit: {insecureSkipSecretsManager: true}";

/// A scene with a machine that uses an EKS image, and with these parameters and their images.
#[tokio::test]
async fn a_windows_image_is_not_launched_with_the_boot_hook() {
    let spec = format!("instanceType: t3.large, imageLookupOrg: '{OWNER}', imageLookupBaseOS: windows-2022");
    let scene = scene(&spec);
    publish(&scene, "ami-0000000c", "capa-ami-windows-2022-v1.36.3-1", "");
    let refused = scene.pass().await;
    assert_eq!(refused.condition(ConditionType::BootstrapDataReady), "False/InvalidSpec");
    let message = refused.message(ConditionType::BootstrapDataReady);
    assert!(message.contains("insecureSkipSecretsManager"), "{message}");
    assert!(images(&scene).is_empty() && scene.aws.secrets().is_empty());
}

fn eks_scene(spec: &str, parameters: &[(&str, &str)]) -> Scene {
    let scene = scene(spec);
    for (name, id) in parameters {
        publish(&scene, id, "amazon-eks-node", "");
        scene.aws.public_parameter(name, id);
    }
    scene
}

#[tokio::test]
async fn the_image_that_eks_recommends_is_launched_and_recorded() {
    let arm64 = PARAMETER.replace("x86_64", "arm64");
    let parameters = [(PARAMETER, "ami-0000000a"), (&arm64, "ami-0000000b")];
    for (spec, expected) in [(EKS.to_owned(), "ami-0000000a"), (EKS.replace("t3.large", "t4g.large"), "ami-0000000b")] {
        let scene = eks_scene(&spec, &parameters);
        let launched = scene.pass().await;
        assert_eq!(images(&scene), [expected], "{spec}");
        let record = launched.status().launch.as_ref().and_then(LaunchRecord::request);
        assert_eq!(record.and_then(|request| request.image_id.as_deref()), Some(expected));
        let calls = &launched.calls;
        assert!(!calls.iter().any(|call| call == "DescribeImages"), "{calls:?}");
    }
}

#[tokio::test]
async fn the_family_of_eks_images_gives_way_to_other_lookups() {
    // The precedence among the parameter, the id and the lookup by name.
    let by_name = format!("{EKS}, imageLookupOrg: '{OWNER}', imageLookupFormat: f");
    for (field, spec, expected) in [
        ("ami.eksLookupType", EKS.to_owned(), "ami-0000000a"),
        ("ami.id", EKS.replace("{eks", "{id: ami-0000000c, eks"), "ami-0000000c"),
        ("imageLookupFormat", by_name, "ami-0000000b"),
    ] {
        let scene = eks_scene(&spec, &[(PARAMETER, "ami-0000000a"), ("/other", "ami-0000000c")]);
        publish(&scene, "ami-0000000b", "f", "");
        scene.pass().await;
        assert_eq!(images(&scene), [expected], "{field}");
    }
}

#[tokio::test]
async fn a_repeated_call_names_the_image_that_eks_recommended_first() {
    let scene = eks_scene(EKS, &[(PARAMETER, "ami-0000000a"), ("/other", "ami-0000000b")]);
    scene.unanswered_launch().await;
    scene.aws.public_parameter(PARAMETER, "ami-0000000b");
    assert_repeats_first_image(scene).await;
}

#[tokio::test]
async fn a_root_volume_gets_the_device_of_the_eks_image() {
    let scene = eks_scene(&format!("{EKS}, rootVolume: {{size: 20}}"), &[(PARAMETER, "ami-0000000a")]);
    scene.pass().await;
    let launches = scene.aws.launches();
    let device = launches.first().and_then(|launch| launch.root_volume.as_ref());
    assert_eq!(device.and_then(|volume| volume.device_name.as_deref()), Some("/dev/ami-0000000a"));
}

#[tokio::test]
async fn a_missing_parameter_of_eks_is_named_and_waited_for() {
    let scene = eks_scene(EKS, &[]);
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/NotFound");
    let message = waiting.message(INSTANCE_READY);
    for part in [PARAMETER, "eu-west-1", "Kubernetes 1.36", "ami.eksLookupType", "ami.id"] {
        assert!(message.contains(part), "{message}");
    }
    publish(&scene, "ami-0000000a", "amazon-eks-node", "");
    scene.aws.public_parameter(PARAMETER, "ami-0000000a");
    scene.after(super::RETRY * 60).await;
    assert_eq!(images(&scene), ["ami-0000000a"]);
}

#[tokio::test]
async fn a_parameter_of_eks_that_cannot_be_asked_for_says_why() {
    let gpu = EKS.replace("AmazonLinux2023", "AmazonLinuxGPU");
    for (spec, reason, part) in [
        (gpu.replace("t3.large", "t4g.large"), "InvalidSpec", "AmazonLinux2023GPU"),
        (EKS.replace("t3.large", "t9.large"), "NotFound", "t9.large"),
    ] {
        let scene = eks_scene(&spec, &[]);
        let waiting = scene.pass().await;
        assert_eq!(waiting.condition(INSTANCE_READY), format!("False/{reason}"), "{spec}");
        let message = waiting.message(INSTANCE_READY);
        assert!(message.contains(part), "{message}");
        assert!(images(&scene).is_empty());
    }
    let scene = eks_scene(EKS, &[]);
    scene.add("m", "bootstrap: {dataSecretName: boot}", EKS);
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/InvalidSpec");
    assert!(waiting.message(INSTANCE_READY).contains("spec.version"));
}
