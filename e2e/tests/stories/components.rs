//! The release files that `make release-manifests` writes for clusterctl.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};
use capa_e2e::clusterctl::Release;
use capa_e2e::objects;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

/// The variables of an installation, and whether they have a default. The credentials have none: clusterctl renders
/// their Secret anew with every upgrade, and a default would empty the Secret when a user forgets the variable.
const VARIABLES: [(&str, bool); 8] = [
    ("AUTO_CONTROLLER_IDENTITY_CREATOR", true),
    ("AWS_B64ENCODED_CREDENTIALS", false),
    ("CAPA_AWS_LAUNCH_RATE_SHARE", true),
    ("CAPA_AWS_RATE_SHARE", true),
    ("CAPA_CONTROL_PLANE_TARGETS", true),
    ("CAPA_DIAGNOSTICS_ADDRESS", true),
    ("CAPA_INSECURE_DIAGNOSTICS", true),
    ("CAPA_WATCH_FILTER", true),
];

#[test]
fn the_components_are_what_clusterctl_expects_of_a_provider() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let release = Release::render(folder.path(), "v0.1.7")?;
    let text = std::fs::read_to_string(release.folder().join("infrastructure-components.yaml"))?;
    let components = objects::parse(&text)?;

    let namespaces = of_kind(&components, "Namespace");
    assert_eq!(names(&namespaces), BTreeSet::from(["capa-rs-system".to_owned()]));
    for object in &components {
        let label = object.labels().get("cluster.x-k8s.io/provider");
        assert_eq!(
            label.map(String::as_str),
            Some("infrastructure-aws-rs"),
            "{:?} {}",
            object.types,
            object.name_any()
        );
        let home = object.metadata.namespace.as_deref();
        assert!(home.is_none_or(|home| home == "capa-rs-system"), "{}", object.name_any());
    }
    let kinds: BTreeSet<String> = of_kind(&components, "CustomResourceDefinition")
        .iter()
        .filter_map(|definition| definition.data["spec"]["names"]["kind"].as_str().map(str::to_owned))
        .collect();
    assert!(kinds.contains("AWSCluster") && kinds.contains("AWSMachine"), "{kinds:?}");

    let deployments = of_kind(&components, "Deployment");
    let [deployment] = deployments.as_slice() else {
        anyhow::bail!("{} Deployments", deployments.len());
    };
    let pod = &deployment.data["spec"]["template"]["spec"];
    let containers = pod["containers"].as_array().context("containers")?;
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["name"], "manager");
    assert_eq!(containers[0]["image"], "localhost/capa-rs:v0.1.7");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(containers[0]["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["serviceAccountName"], "capa-controller-manager");
    assert_eq!(names(&of_kind(&components, "ServiceAccount")), BTreeSet::from(["capa-controller-manager".to_owned()]));
    let expected = VARIABLES.map(|(name, default)| (name.to_owned(), default));
    assert_eq!(variables(&text)?, BTreeSet::from(expected));
    assert_eq!(
        std::fs::read_to_string(release.folder().join("metadata.yaml"))?,
        std::fs::read_to_string(repository().join("metadata.yaml"))?
    );
    Ok(())
}

#[test]
fn the_add_on_has_a_namespace_of_its_own_and_no_credentials() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let text = Release::render(folder.path(), "v0.1.7")?.addon_components()?;
    for object in objects::parse(&text)? {
        let label = object.labels().get("cluster.x-k8s.io/provider");
        assert_eq!(label.map(String::as_str), Some("addon-aws-rs-fleet"), "{:?}", object.types);
        let home = object.metadata.namespace.as_deref();
        assert!(home.is_none_or(|home| home == "capa-rs-fleet-system"), "{}", object.name_any());
    }
    assert!(text.contains("image: localhost/capa-rs:v0.1.7"), "{text}");
    assert!(!text.contains("AWS_") && !text.contains("kind: Secret"), "{text}");
    let expected = [
        "CAPA_DIAGNOSTICS_ADDRESS",
        "CAPA_FLEET_CLUSTER_MANAGER",
        "CAPA_FLEET_KARMADA_TOKEN_LIFETIME",
        "CAPA_FLEET_LABEL_PREFIX",
        "CAPA_INSECURE_DIAGNOSTICS",
    ];
    let expected = expected.map(|name| (name.to_owned(), true));
    assert_eq!(variables(&text)?, BTreeSet::from(expected));
    Ok(())
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn of_kind<'a>(objects: &'a [DynamicObject], kind: &str) -> Vec<&'a DynamicObject> {
    let is_kind = |object: &&DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == kind);
    objects.iter().filter(is_kind).collect()
}

fn names(objects: &[&DynamicObject]) -> BTreeSet<String> {
    objects.iter().map(|object| object.name_any()).collect()
}

/// The variables in a text, each with whether it has a default. clusterctl takes an empty default for none.
fn variables(text: &str) -> anyhow::Result<BTreeSet<(String, bool)>> {
    let uses = text.split("${").skip(1);
    uses.map(|rest| {
        let (variable, _) = rest.split_once('}').context("a variable without an end")?;
        let (name, default) =
            variable.split_once(":=").map_or((variable, false), |(name, default)| (name, !default.is_empty()));
        ensure!(
            name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_' || letter.is_ascii_digit()),
            "{name:?} is no name of a variable"
        );
        Ok((name.to_owned(), default))
    })
    .collect()
}
