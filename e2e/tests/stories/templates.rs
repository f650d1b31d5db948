//! Objects that are created from this provider's templates equal the templates: Cluster API copies them unhindered.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use capa_e2e::{Story, eventually, eventually_by_polling, fixtures, moto, objects};
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use super::scenario::{OURS, REGION, Scenario, WITHIN, run_story, story};

#[test]
fn machines_are_made_as_their_template_says() -> anyhow::Result<()> {
    run_story(Story::new("machine-template"), async |s| {
        s.owned("dev", &s.unmanaged("dev", "")).await?;
        let template = parsed(
            "
kind: AWSMachineTemplate
metadata: {name: workers}
spec:
  template:
    metadata:
      labels: {example.org/pool: blue}
      annotations: {example.org/note: kept}
    spec:
      instanceType: m7i.large
      ami: {id: ami-00000001}
      additionalTags: {team: a}
      rootVolume: {size: 40, type: gp3}
      instanceMetadataOptions: {httpPutResponseHopLimit: 3}
",
        )?;
        s.apply(&serde_json::to_string(&template)?).await?;
        s.bootstrap_secret("workers").await?;
        s.apply(&fixtures::machine_deployment("workers", "dev", 1)).await?;
        let paths = ["template.spec", "template.metadata.labels{}", "template.metadata.annotations{}"];
        assert_made(s, "AWSMachine", &template, paths).await?;
        Ok(())
    })
}

#[test]
fn a_cluster_is_made_as_its_template_says() -> anyhow::Result<()> {
    run_story(Story::new("cluster-template"), async |s| {
        let template = parsed(&format!(
            "
kind: AWSClusterTemplate
metadata: {{name: brought}}
spec:
  template:
    metadata:
      labels: {{example.org/stage: prod}}
      annotations: {{example.org/note: kept}}
    spec:
      region: {REGION}
      unmanaged: true
      additionalTags: {{team: a}}
      network:
        vpc: {{id: vpc-00000001}}
        subnets: [{{id: subnet-00000001, availabilityZone: eu-west-1a}}]
        securityGroupOverrides: {{node: sg-00000001}}
"
        ))?;
        s.apply(&serde_json::to_string(&template)?).await?;
        s.apply(&class_and_cluster("brought", "dev")).await?;
        let paths = ["template.spec", "template.metadata.labels{}", "template.metadata.annotations{}"];
        assert_made(s, "AWSCluster", &template, paths).await?;
        Ok(())
    })
}

/// Three groups that the cluster autoscaler could scale from zero, a template without a user, and a template with
/// an unsuitable instance type.
#[test]
fn templates_show_the_capacity_of_their_nodes() -> anyhow::Result<()> {
    story("template-capacity", async |s| {
        s.cluster("dev").await?;
        for (name, instance_type, more) in [
            ("workers", "t3.large", ""),
            ("storage", "t3.large", "rootVolume: {size: 100}"),
            ("gpus", "g4dn.xlarge", ""),
            ("wrong", "m6g.large", ""),
            ("alone", "t3.xlarge", ""),
        ] {
            s.apply(&template(name, instance_type, more)).await?;
        }
        s.bootstrap_secret("workers").await?;
        for name in ["workers", "storage", "gpus", "wrong"] {
            let group = fixtures::machine_deployment(name, "dev", 0);
            s.apply(&group).await?;
        }
        let node = json!({"architecture": "amd64", "operatingSystem": "linux"});
        for (name, capacity) in [
            ("workers", json!({"cpu": "2", "memory": "8192Mi"})),
            ("storage", json!({"cpu": "2", "memory": "8192Mi", "ephemeral-storage": "100Gi"})),
            ("gpus", json!({"cpu": "4", "memory": "16384Mi", "nvidia.com/gpu": "1"})),
        ] {
            s.condition(KIND, name, CAPACITY, "True", "Ready").await?;
            let status = &s.get(OURS, KIND, name).await?.data["status"];
            assert_eq!((&status["capacity"], &status["nodeInfo"]), (&capacity, &node), "{name}");
        }
        let mismatch = s.condition(KIND, "wrong", CAPACITY, "False", "InvalidSpec").await?;
        assert!(mismatch.message.contains("m6g.large"), "{}", mismatch.message);
        s.condition(KIND, "alone", CAPACITY, "Unknown", "WaitingForOwnerCluster").await?;

        // AWS is asked about the type of each template with a user, and later passes change nothing.
        let asked = s.aws().manager_journal().of("DescribeInstanceTypes");
        let types = asked.calls().iter().filter_map(|call| call.parameter("Filter.1.Value.1"));
        let types: BTreeSet<_> = types.collect();
        assert_eq!(types, BTreeSet::from(["g4dn.xlarge", "m6g.large", "t3.large"]), "{asked}");
        let before = s.get(OURS, KIND, "workers").await?;
        let passes = s.manager().passes("awsmachinetemplate").await?;
        let touch = json!({"metadata": {"labels": {"touched": "true"}}});
        s.patch(OURS, KIND, "workers", touch).await?;
        eventually_by_polling(WITHIN, "a pass over the touched template", async || {
            let now = s.manager().passes("awsmachinetemplate").await?;
            ensure!(now > passes, "there were {now} passes, as before");
            Ok(())
        })
        .await?;
        let after = s.get(OURS, KIND, "workers").await?;
        assert_eq!(after.data["status"], before.data["status"]);
        Ok(())
    })
}

const KIND: &str = "AWSMachineTemplate";
const CAPACITY: &str = "CapacityReady";

fn template(name: &str, instance_type: &str, more: &str) -> String {
    format!(
        "
apiVersion: {OURS}
kind: {KIND}
metadata: {{name: {name}}}
spec:
  template:
    spec:
      instanceType: {instance_type}
      ami: {{id: {}}}
      cloudInit: {{insecureSkipSecretsManager: true}}
      {more}
",
        moto::IMAGE_ID
    )
}

fn parsed(yaml: &str) -> anyhow::Result<DynamicObject> {
    let mut objects = objects::parse(&format!("apiVersion: {OURS}{yaml}"))?;
    objects.pop().context("one object")
}

/// Waits until Cluster API has created an object from the template, with the template's values at these paths.
async fn assert_made(
    scenario: &Scenario,
    kind: &str,
    template: &DynamicObject,
    paths: [&str; 3],
) -> anyhow::Result<()> {
    let api = scenario.api(OURS, kind).await?;
    let made = eventually(WITHIN, &format!("an {kind} to be made"), async || {
        let made = api.list(&ListParams::default()).await?.items.pop();
        made.context("no object was created yet")
    })
    .await?;
    let made = serde_json::to_value(&made)?;
    for path in paths {
        let pointer = format!("/{}", path.trim_end_matches("{}").replace('.', "/"));
        let wants = template.data["spec"].pointer(&pointer).context("the template is silent")?;
        let has = pointer.strip_prefix("/template").and_then(|pointer| made.pointer(pointer));
        let lacks = lacks(has.unwrap_or(&Value::Null), wants);
        assert_eq!(lacks, None, "{path}: {has:?}");
    }
    Ok(())
}

/// A wanted value that an object lacks; the object may have further values, such as defaults.
fn lacks<'a>(has: &Value, wants: &'a Value) -> Option<&'a Value> {
    match (has, wants) {
        (Value::Object(has), Value::Object(wants)) => {
            wants.iter().find_map(|(key, wants)| lacks(has.get(key).unwrap_or(&Value::Null), wants))
        }
        (Value::Array(has), Value::Array(wants)) if has.len() == wants.len() => {
            has.iter().zip(wants).find_map(|(has, wants)| lacks(has, wants))
        }
        _ => (has != wants).then_some(wants),
    }
}

/// A ClusterClass of the AWSClusterTemplate `class` and a control plane kind of the tests, and a Cluster of it.
fn class_and_cluster(class: &str, cluster: &str) -> String {
    format!(
        "{}
---
{}
---
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: StandInTemplate
metadata: {{name: {class}}}
spec: {{template: {{spec: {{}}}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {{name: {class}}}
spec:
  infrastructure:
    templateRef: {{apiVersion: {OURS}, kind: AWSClusterTemplate, name: {class}}}
  controlPlane:
    templateRef: {{apiVersion: controlplane.cluster.x-k8s.io/v1alpha1, kind: StandInTemplate, name: {class}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {cluster}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  topology: {{classRef: {{name: {class}}}, version: v1.36.3}}
",
        fixtures::control_plane(class),
        fixtures::definition("controlplane.cluster.x-k8s.io", "StandInTemplate", "")
    )
}
