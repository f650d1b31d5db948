//! CAPA's own manifests, offered to the API server as their users would apply them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use capa_e2e::{Story, TestEnvironment, capa_manifests, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, TypeMeta};
use serde_json::Value;

use super::scenario::OURS;

/// The group of CAPA's kinds, and of ours.
const GROUP: &str = "infrastructure.cluster.x-k8s.io/";

/// CAPA's kinds that this provider serves.
const KINDS: [&str; 7] = [
    "AWSCluster",
    "AWSClusterTemplate",
    "AWSMachine",
    "AWSMachineTemplate",
    "AWSClusterControllerIdentity",
    "AWSClusterRoleIdentity",
    "AWSClusterStaticIdentity",
];

/// The manifests of CAPA v2.13.0 that have an object of these kinds, and the objects.
const FILES: usize = 40;
const OBJECTS: usize = 117;

/// The values of the variables.
const VALUES: [(&str, &str); 31] = [
    ("AWS_AVAILABILITY_ZONE", "eu-west-1a"),
    ("AWS_AVAILABILITY_ZONE_1", "eu-west-1a"),
    ("AWS_AVAILABILITY_ZONE_2", "eu-west-1b"),
    ("AWS_CONTROL_PLANE_MACHINE_TYPE", "t3.large"),
    ("AWS_NODE_MACHINE_TYPE", "t3.large"),
    ("AWS_REGION", "eu-west-1"),
    ("AWS_S3_BUCKET_NAME", "bootstrap"),
    ("AWS_SSH_KEY_NAME", "operator"),
    ("CAPI_IMAGES_REGISTRY", "images.example.org"),
    ("CLUSTER_CLASS_NAME", "small"),
    ("CLUSTER_NAME", "dev"),
    ("CNI_RESOURCES", "{}"),
    ("CONTROL_PLANE_MACHINE_COUNT", "3"),
    ("COREOS_EC2_HOSTNAME", "node"),
    ("E2E_IMAGE_TAG", "e2e"),
    ("IMAGE_ID", "ami-00000001"),
    ("KUBERNETES_VERSION", "v1.36.3"),
    ("MGMT_CLUSTER_NAME", "management"),
    ("MGMT_PRIVATE_SUBNET_ID", "subnet-00000001"),
    ("MGMT_PUBLIC_SUBNET_ID", "subnet-00000002"),
    ("MGMT_VPC_ID", "vpc-00000001"),
    ("MULTI_TENANCY_JUMP_IDENTITY_NAME", "jump"),
    ("MULTI_TENANCY_JUMP_ROLE_ARN", "arn:aws:iam::111122223333:role/jump"),
    ("MULTI_TENANCY_NESTED_IDENTITY_NAME", "nested"),
    ("MULTI_TENANCY_NESTED_ROLE_ARN", "arn:aws:iam::111122223333:role/nested"),
    ("MULTI_TENANCY_SIMPLE_IDENTITY_NAME", "simple"),
    ("MULTI_TENANCY_SIMPLE_ROLE_ARN", "arn:aws:iam::111122223333:role/simple"),
    ("SG_ID", "sg-00000001"),
    ("WL_PRIVATE_SUBNET_ID", "subnet-00000003"),
    ("WL_VPC_ID", "vpc-00000002"),
    ("WORKER_MACHINE_COUNT", "1"),
];

/// A field of four of the templates that CAPA's schema of this version lacks as well: its users lose the field.
const UNKNOWN: (&str, &str) = ("/spec/template/spec", "failureDomain");

#[test]
fn the_api_server_accepts_the_manifests_of_capa() -> anyhow::Result<()> {
    Story::new("capa-manifests").run(async |environment| {
        let manifests = manifests(&capa_manifests()?)?;
        let files: BTreeSet<&str> = manifests.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!((files.len(), manifests.len()), (FILES, OBJECTS), "{files:#?}");

        let mut refused = BTreeMap::new();
        for (file, object) in manifests {
            let types = object.types.as_ref().context("a kind")?;
            let name = format!("{file}: {} {}", types.kind, object.name_any());
            if let Err(error) = offer(environment, object).await {
                refused.insert(name, format!("{error:#}"));
            }
        }
        ensure!(refused.is_empty(), "{} of {OBJECTS} objects are refused: {refused:#?}", refused.len());
        Ok(())
    })
}

/// The objects of our kinds in all files below a folder, each with the name of its file. Variables are replaced.
fn manifests(folder: &Path) -> anyhow::Result<Vec<(String, DynamicObject)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(&below).with_context(|| format!("read {}", below.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder)?.display().to_string();
            let text = fs::read_to_string(&path).with_context(|| name.clone())?;
            if path.extension().is_none_or(|extension| extension != "yaml") || !text.lines().any(names_our_kind) {
                continue;
            }
            let all = objects::parse(&substituted(&text)?).with_context(|| name.clone())?;
            let ours = all.into_iter().filter(|object| object.types.as_ref().is_some_and(is_ours));
            found.extend(ours.map(|object| (name.clone(), object)));
        }
    }
    Ok(found)
}

fn names_our_kind(line: &str) -> bool {
    line.strip_prefix("kind: ").is_some_and(|kind| KINDS.contains(&kind.trim()))
}

fn is_ours(types: &TypeMeta) -> bool {
    types.api_version.starts_with(GROUP) && KINDS.contains(&types.kind.as_str())
}

/// The text with values for `${NAME}`, `${NAME:-default}` and `${NAME:=default}`, as `clusterctl generate` writes it.
fn substituted(text: &str) -> anyhow::Result<String> {
    let values = BTreeMap::from(VALUES);
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, after) = after.split_once('}').context("${ without }")?;
        let with_default = variable.split_once(":-").or_else(|| variable.split_once(":="));
        let (name, default) = with_default.map_or((variable, None), |(name, default)| (name, Some(default)));
        let value = values.get(name).copied().or(default);
        result.push_str(before);
        result.push_str(value.with_context(|| format!("variable {name} has no value"))?);
        rest = after;
    }
    Ok(result + rest)
}

/// Applies an object in a dry run, in which the schema and the policies evaluate it. An object of an older version is
/// offered in ours: CAPA serves both, and the objects of its manifests are the same in both.
async fn offer(environment: &TestEnvironment, mut object: DynamicObject) -> anyhow::Result<()> {
    let (parent, unknown) = UNKNOWN;
    if let Some(fields) = object.data.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(unknown);
    }
    let types = object.types.as_mut().context("a kind")?;
    OURS.clone_into(&mut types.api_version);
    environment.apply_strictly(&object).await
}
