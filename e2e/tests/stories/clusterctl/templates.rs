//! The output of `clusterctl generate cluster` for this provider's templates.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use capa_e2e::clusterctl::Clusterctl;
use capa_e2e::{TestEnvironment, eventually, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use super::super::scenario::{CORE, OURS, WITHIN};
use super::installed::in_management_cluster;

/// Each flavor with its letters in docs/templates.md, and the variables of subnets that it lacks. The other flavors for
/// fewer subnets differ by these subnets alone, which a test of `templates/` shows.
const FLAVORS: [(&str, &str, &[&str]); 15] = [
    ("managed", "G", &[]),
    ("managed-clusterclass", "G", &[]),
    ("unmanaged", "U", &[]),
    ("unmanaged-two-subnets", "U", &["AWS_SUBNET_ID_C"]),
    ("unmanaged-one-subnet", "U", &["AWS_SUBNET_ID_B", "AWS_SUBNET_ID_C"]),
    ("unmanaged-external-endpoint", "E", &[]),
    ("unmanaged-machine-health-check", "UH", &[]),
    ("unmanaged-clusterclass", "T", &[]),
    ("unmanaged-external-control-plane", "W", &[]),
    ("unmanaged-discovery", "D", &[]),
    ("no-infrastructure-object", "N", &[]),
    ("terraform", "F", &[]),
    ("crossplane", "X", &[]),
    ("ack", "K", &[]),
    ("managed-by", "M", &[]),
];

/// The values of all variables without a default, as a user sets them.
const VALUES: [(&str, &str); 14] = [
    ("AWS_REGION", "eu-west-1"),
    ("AWS_VPC_ID", "vpc-0a1b2c3d"),
    ("AWS_SUBNET_ID_A", "subnet-0000000a"),
    ("AWS_SUBNET_ID_B", "subnet-0000000b"),
    ("AWS_SUBNET_ID_C", "subnet-0000000c"),
    ("AWS_CONTROL_PLANE_SECURITY_GROUP_ID", "sg-0000000a"),
    ("AWS_NODE_SECURITY_GROUP_ID", "sg-0000000b"),
    (
        "AWS_CONTROL_PLANE_TARGET_GROUP_ARN",
        "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/dev/0123456789abcdef",
    ),
    ("AWS_AMI_ID", "ami-0123456789abcdef0"),
    ("CONTROL_PLANE_ENDPOINT_HOST", "api.dev.example.org"),
    ("CONTROL_PLANE_KIND", "KamajiControlPlane"),
    ("INFRASTRUCTURE_KIND", "StackCluster"),
    ("AWS_CLUSTER_MANAGED_BY", "my-controller"),
    ("KUBERNETES_VERSION", "v1.36.3"),
];

/// The kind of the composite that the flavor `crossplane` makes.
const COMPOSITE: &str = include_str!("../../../../config/samples/crossplane-v2-composite/kind.yaml");

async fn generate(clusterctl: &Clusterctl, namespace: &str, more: &[&str]) -> anyhow::Result<String> {
    let arguments = ["generate", "cluster", "dev", "--infrastructure=aws-rs", "--target-namespace", namespace];
    clusterctl.run(&[&arguments, more].concat()).await
}

/// The names in the output of `--list-variables`.
fn variables(listed: &str) -> BTreeSet<String> {
    let entries = listed.lines().filter_map(|line| line.trim().strip_prefix("- "));
    entries.filter_map(|entry| entry.split_whitespace().next().map(str::to_owned)).collect()
}

/// The variables in docs/templates.md with one of these letters.
fn documented(letters: &str) -> anyhow::Result<BTreeSet<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/templates.md");
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (names, flavors) = (cells.next()?, cells.next()?);
        let concerned = flavors.split(' ').any(|flavor| flavor.len() == 1 && letters.contains(flavor));
        concerned.then(|| names.split(", ").map(|name| name.trim_matches('`').to_owned()))
    });
    let names: BTreeSet<String> = rows.flatten().collect();
    ensure!(!names.is_empty(), "no variable of {letters} in {path}");
    Ok(names)
}

/// Tests that the topology makes the same objects from the ClusterClass as the flavor without a ClusterClass contains.
async fn a_cluster_of_the_class_is_the_same(environment: &TestEnvironment, plain: &str) -> anyhow::Result<()> {
    let plain = objects::parse(plain)?;
    let spec = |kind: &str, name: &str| -> anyhow::Result<Value> {
        let of_kind = |object: &&DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == kind);
        let mut found = plain.iter().filter(of_kind).filter(|object| object.name_any() == name);
        Ok(found.next().with_context(|| format!("{kind} {name}"))?.data["spec"].clone())
    };
    let mut aws_cluster = spec("AWSCluster", "dev")?;
    let endpoint = aws_cluster.as_object_mut().and_then(|spec| spec.remove("controlPlaneEndpoint"));
    let cluster = environment.api(CORE, "Cluster").await?.get("dev").await?;
    assert_eq!(Some(&cluster.data["spec"]["controlPlaneEndpoint"]), endpoint.as_ref());
    one_is_like(environment, "AWSCluster", &aws_cluster).await?;
    one_is_like(environment, "AWSMachineTemplate", &spec("AWSMachineTemplate", "dev-control-plane")?).await?;
    one_is_like(environment, "AWSMachineTemplate", &spec("AWSMachineTemplate", "dev-md-0")?).await
}

/// Waits for an object of the kind that belongs to the cluster and has all wanted fields.
async fn one_is_like(environment: &TestEnvironment, kind: &str, wanted: &Value) -> anyhow::Result<()> {
    let api = environment.api(OURS, kind).await?;
    let of_the_cluster = ListParams::default().labels("topology.cluster.x-k8s.io/owned");
    eventually(WITHIN, &format!("an {kind} like {wanted}"), async || {
        let found = api.list(&of_the_cluster).await?.items;
        let like = found.iter().any(|object| within(wanted, &object.data["spec"]));
        ensure!(like, "there are {found:#?}");
        Ok(())
    })
    .await
}

/// Whether `whole` contains all fields of `part`; `whole` may have further fields, such as defaults.
fn within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            let mut fields = part.iter();
            fields.all(|(name, value)| whole.get(name).is_some_and(|other| within(value, other)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(one, other)| within(one, other))
        }
        (part, whole) => part == whole,
    }
}

mod long_stories {
    use super::*;

    #[test]
    fn a_generated_cluster_is_accepted_and_its_variables_documented() -> anyhow::Result<()> {
        in_management_cluster("generate", async |cluster, environment| {
            environment.apply(COMPOSITE).await?;
            let namespace = environment.namespace();
            let clusterctl = VALUES
                .iter()
                .fold(cluster.clusterctl().clone(), |clusterctl, (name, value)| clusterctl.variable(name, value));

            let mut generated = BTreeMap::new();
            for (flavor, letters, lacks) in FLAVORS {
                let asked =
                    variables(&generate(&clusterctl, namespace, &["--flavor", flavor, "--list-variables"]).await?);
                let mut expected = documented(letters)?;
                expected.retain(|variable| !lacks.contains(&variable.as_str()));
                assert_eq!(asked, expected, "{flavor}");
                let counts = ["--flavor", flavor, "--control-plane-machine-count=3", "--worker-machine-count=2"];
                let yaml = generate(&clusterctl, namespace, &counts).await?;
                assert!(!yaml.contains("${") && !yaml.contains("$$"), "{yaml}");
                for object in objects::parse(&yaml)? {
                    environment.apply_strictly(&object).await.with_context(|| flavor.to_owned())?;
                }
                generated.insert(flavor, yaml);
            }
            let counts = ["--control-plane-machine-count=3", "--worker-machine-count=2"];
            let default = generate(&clusterctl, namespace, &counts).await?;
            assert_eq!(default, generated["managed"], "the flavor without a name");

            environment.apply(&generated["unmanaged-clusterclass"]).await?;
            a_cluster_of_the_class_is_the_same(environment, &generated["unmanaged"]).await
        })
    }
}
