//! Tests of the lookup of machine images by name.

use capa_api::conditions::ConditionType;
use capa_api::machine::LaunchRecord;
use capa_cloud::sim::PublishedImage;
use capa_cloud::{Image, InstanceType};

use super::{NETWORK, SPEC, Scene};
use crate::testing::unanswered;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const OWNER: &str = "111111111111";

const VERSIONED: &str = "bootstrap: {dataSecretName: boot}, version: v1.36.3";

/// A spec without an image, whose images another account of the user publishes; `more` are further fields.
fn spec(more: &str) -> String {
    format!("instanceType: t3.large, imageLookupOrg: '{OWNER}', cloudInit: {{insecureSkipSecretsManager: true}}{more}")
}

/// A scene with an instance type, and a machine of Kubernetes v1.36.3 with this spec.
fn scene(spec: &str) -> Scene {
    let scene = Scene::with_spec(SPEC);
    scene.aws.instance_type(InstanceType {
        name: "t3.large".to_owned(),
        processors: 2,
        memory: 8192,
        architectures: vec!["x86_64".to_owned()],
        ..InstanceType::default()
    });
    scene.add("m", VERSIONED, spec);
    scene
}

fn publish(scene: &Scene, id: &str, name: &str, created: &str) {
    scene.aws.published_image(PublishedImage {
        name: name.to_owned(),
        owner: OWNER.to_owned(),
        image: Image {
            id: id.to_owned(),
            root_device_name: Some(format!("/dev/{id}")),
            architecture: Some("x86_64".to_owned()),
            windows: false,
            created: created.to_owned(),
        },
    });
}

fn images(scene: &Scene) -> Vec<String> {
    scene.aws.launches().into_iter().map(|launch| launch.image_id).collect()
}

#[tokio::test]
async fn the_newest_image_with_the_name_is_launched_and_recorded() {
    let scene = scene(&spec(""));
    publish(
        &scene,
        "ami-0000000a",
        "capa-ami-ubuntu-24.04-v1.36.3-old",
        "2026-01-01T00:00:00.000Z",
    );
    publish(
        &scene,
        "ami-0000000b",
        "capa-ami-ubuntu-24.04-v1.36.3-new",
        "2026-02-01T00:00:00.000Z",
    );
    publish(
        &scene,
        "ami-0000000c",
        "capa-ami-ubuntu-24.04-v1.36.4-new",
        "2026-03-01T00:00:00.000Z",
    );
    publish(
        &scene,
        "ami-0000000d",
        "capa-ami-flatcar-v1.36.3-new",
        "2026-03-01T00:00:00.000Z",
    );
    let launched = scene.pass().await;
    assert_eq!(images(&scene), ["ami-0000000b"]);
    let record = launched.status().launch.as_ref().and_then(LaunchRecord::request);
    assert_eq!(record.map(|request| request.image_id.as_str()), Some("ami-0000000b"));
}

#[tokio::test]
async fn each_part_of_the_lookup_comes_from_machine_or_network() {
    for (field, value, others) in [
        (
            "imageLookupFormat",
            "'f-{{.BaseOS}}'",
            "{org: '111111111111', format: other, baseOS: flatcar}",
        ),
        (
            "imageLookupBaseOS",
            "flatcar",
            "{org: '111111111111', format: 'f-{{.BaseOS}}', baseOS: other}",
        ),
        (
            "imageLookupOrg",
            "'111111111111'",
            "{org: '222222222222', format: f-flatcar}",
        ),
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
async fn a_root_volume_gets_the_device_of_the_image() {
    let scene = scene(&spec(", imageLookupFormat: f, rootVolume: {size: 20}"));
    publish(&scene, "ami-0000000a", "f", "");
    scene.pass().await;
    let launches = scene.aws.launches();
    let device = launches.first().and_then(|launch| launch.root_volume.as_ref());
    assert_eq!(
        device.map(|volume| volume.device_name.as_str()),
        Some("/dev/ami-0000000a")
    );
}

#[tokio::test]
async fn a_repeated_call_names_the_recorded_image() {
    let mut scene = scene(&spec(", imageLookupFormat: 'f-*'"));
    publish(&scene, "ami-0000000a", "f-1", "2026-01-01T00:00:00.000Z");
    scene.aws.fail_next("RunInstances", unanswered("RunInstances"));
    scene.pass().await;
    publish(&scene, "ami-0000000b", "f-2", "2026-02-01T00:00:00.000Z");
    scene.restart();
    for _ in 0..5 {
        scene.pass().await;
    }
    let launched = images(&scene);
    assert!(
        !launched.is_empty() && launched.iter().all(|image| image == "ami-0000000a"),
        "{launched:?}"
    );
}

#[tokio::test]
async fn an_image_that_is_not_found_is_named_and_waited_for() {
    let scene = scene(&spec(""));
    let waiting = scene.pass().await;
    assert_eq!(waiting.says(INSTANCE_READY), "False/NotFound");
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
        assert_eq!(waiting.says(INSTANCE_READY), format!("False/{reason}"), "{spec}");
        let message = waiting.message(INSTANCE_READY);
        assert!(message.contains(part), "{message}");
        assert!(images(&scene).is_empty());
    }
}
