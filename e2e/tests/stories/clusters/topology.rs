//! A cluster of a ClusterClass: Cluster API makes and owns all its objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::ensure;
use capa_e2e::{World, eventually, moto};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use super::whole::{KubeadmCluster, NODES_WITHIN, PORT, Story, VERSION};
use crate::stories::scenario::{CORE, FASTER, OURS, REGION, Scenario};

/// Our ClusterClass, as it is released.
const CLASS: &str = include_str!("../../../../templates/clusterclass-unmanaged.yaml");

/// Kinds of ours that the topology controller makes.
const MADE_KINDS: [&str; 2] = ["AWSCluster", "AWSMachineTemplate"];

/// Who may set fields of specs: Cluster API's topology controller, and the user in what the class refers to.
const WRITERS: [&str; 2] = ["capi-topology", "capa-e2e"];

/// How often core and our manager look at everything again here.
const SYNC: &str = "--sync-period=20s";

/// What of an object of ours must not change unless the user changes something: version, and names of templates.
async fn made_objects(story: &Story) -> anyhow::Result<BTreeMap<String, DynamicObject>> {
    let mut objects = BTreeMap::new();
    for kind in MADE_KINDS {
        let api = story.scenario.environment.api(OURS, kind).await?;
        for object in api.list(&ListParams::default()).await?.items {
            objects.insert(format!("{kind}/{}", object.name_any()), object);
        }
    }
    Ok(objects)
}

fn versions(objects: &BTreeMap<String, DynamicObject>) -> BTreeMap<String, String> {
    let version = |object: &DynamicObject| object.resource_version().unwrap_or_default();
    let versions = objects.iter().map(|(name, object)| (name.clone(), version(object)));
    versions.collect()
}

/// Waits until core's topology controller has gone over the cluster so often again.
async fn looks_again(story: &Story, times: f64) -> anyhow::Result<()> {
    let world = story.scenario.environment.world();
    let looks = async || {
        let metrics = world.core_metrics().await?;
        let passes = metrics.sum(
            "controller_runtime_reconcile_total",
            &[("controller", "topology/cluster")],
        );
        anyhow::Ok(passes.unwrap_or_default())
    };
    let goal = looks().await? + times;
    eventually(NODES_WITHIN, "core to look at the topology again", async || {
        let done = looks().await?;
        ensure!(done >= goal, "{done} of {goal}");
        Ok(())
    })
    .await
}

/// Who else than these has set fields of the spec, by object.
fn other_writers(objects: &BTreeMap<String, DynamicObject>) -> Vec<String> {
    let writers = objects.iter().flat_map(|(name, object)| {
        let entries = object.metadata.managed_fields.iter().flatten();
        let specs = entries.filter(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            fields.is_some_and(|fields| fields.get("f:spec").is_some())
        });
        let others = specs
            .filter_map(|entry| entry.manager.clone())
            .filter(|manager| !WRITERS.contains(&manager.as_str()));
        others.map(move |manager| format!("{manager} wrote the spec of {name}"))
    });
    writers.collect()
}

fn cluster(scenario: &Scenario, of_class: &KubeadmCluster<'_>) -> String {
    let network = &scenario.network;
    let variables: Vec<Value> = [
        ("region", json!(REGION)),
        ("vpcID", json!(network.vpc_id)),
        ("subnetIDs", json!(network.private_subnet_ids())),
        (
            "securityGroupIDs",
            json!({"controlPlane": network.control_plane_security_group_id, "node": network.node_security_group_id}),
        ),
        ("imageID", json!(moto::IMAGE_ID)),
        ("controlPlaneTargetGroupARN", json!(of_class.target_group)),
    ]
    .into_iter()
    .map(|(name, value)| json!({"name": name, "value": value}))
    .collect();
    json!({
        "apiVersion": CORE,
        "kind": "Cluster",
        "metadata": {"name": of_class.name},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
            "controlPlaneEndpoint": {"host": of_class.host, "port": PORT},
            "topology": {
                "classRef": {"name": "unmanaged"},
                "version": VERSION,
                "controlPlane": {"replicas": 1},
                "workers": {"machineDeployments": [{"class": "default-worker", "name": "md-0", "replicas": 1}]},
                "variables": variables,
            },
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_topology_rotates_a_template_for_a_changed_variable_and_for_nothing_else() -> anyhow::Result<()> {
    let world = Arc::new(World::start_with(&[SYNC]).await?);
    let story = Story::with_manager_flags(Scenario::in_world(&world, "topology").await?, &[FASTER, SYNC]).await?;
    let scenario = &story.scenario;
    let cluster_of_class = story.cluster("dev").await?;
    scenario.user.create_instance_profiles().await?;
    scenario.environment.apply(CLASS).await?;
    scenario
        .environment
        .apply(&cluster(scenario, &cluster_of_class))
        .await?;
    cluster_of_class.ready(1, 1).await?;

    let before = made_objects(&story).await?;
    looks_again(&story, 3.0).await?;
    let after = made_objects(&story).await?;
    assert_eq!(versions(&after), versions(&before), "nothing has changed");
    assert_eq!(other_writers(&after), Vec::<String>::new());

    let clusters = scenario.environment.api(CORE, "Cluster").await?;
    let mut changed = clusters.get("dev").await?;
    if let Some(variables) = changed
        .data
        .pointer_mut("/spec/topology/variables")
        .and_then(Value::as_array_mut)
    {
        variables.retain(|variable| variable["name"] != "workerMachineType");
        variables.push(json!({"name": "workerMachineType", "value": "t3.xlarge"}));
    }
    clusters
        .replace("dev", &kube::api::PostParams::default(), &changed)
        .await?;
    eventually(NODES_WITHIN, "a larger worker to be launched", async || {
        let launches = story.aws().manager_journal().of("RunInstances");
        let large = launches.matching(|call| call.parameter("InstanceType") == Some("t3.xlarge"));
        ensure!(large.len() == 1, "{launches}");
        Ok(())
    })
    .await?;
    cluster_of_class.ready(1, 1).await?;
    assert_eq!(
        story.aws().manager_journal().of("RunInstances").len(),
        3,
        "only the worker was replaced"
    );
    assert_eq!(other_writers(&made_objects(&story).await?), Vec::<String>::new());

    cluster_of_class.delete().await?;
    story.end().await?;
    world.stop().await
}
