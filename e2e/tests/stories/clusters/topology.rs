//! A cluster of a ClusterClass, all of whose objects Cluster API creates and owns.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::{Story, eventually, moto};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use super::whole::{KubeadmCluster, NODES_WITHIN, PORT, VERSION, tell_of_whole_clusters};
use crate::stories::scenario::{CORE, FASTER, OURS, REGION, Scenario, run_story, settled};

/// The ClusterClasses of this provider, as they are released.
const CLASS: &str = include_str!("../../../../templates/clusterclass-unmanaged.yaml");
const MANAGED_CLASS: &str = include_str!("../../../../templates/clusterclass-managed.yaml");

/// The kinds of this provider that the topology controller creates.
const MADE_KINDS: [&str; 2] = ["AWSCluster", "AWSMachineTemplate"];

/// The field managers that may set fields of specs: Cluster API's topology controller, and the user in the objects that
/// the class refers to.
const WRITERS: [&str; 2] = ["capi-topology", "capa-e2e"];

/// The interval at which core and this provider's manager reconcile all objects.
const SYNC: &str = "--sync-period=10s";
const PERIOD: Duration = Duration::from_secs(10);

/// The objects of this provider that the topology controller creates. Unless the user changes something, neither their
/// versions nor the names of templates may change.
async fn made_objects(s: &Scenario) -> anyhow::Result<BTreeMap<String, DynamicObject>> {
    let mut objects = BTreeMap::new();
    for kind in MADE_KINDS {
        let api = s.api(OURS, kind).await?;
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

/// Fails if any object of this provider changes within three sync periods of core and the manager, and until both have
/// reconciled all objects three times.
async fn stays_for_three_periods(s: &Scenario) -> anyhow::Result<()> {
    let world = s.environment.world();
    let passes = async || {
        let core = world.core_metrics().await?;
        let core = core.sum("controller_runtime_reconcile_total", &[("controller", "topology/cluster")]);
        anyhow::Ok((core.unwrap_or_default(), s.manager().passes("awscluster").await?))
    };
    let before = made_objects(s).await?;
    let (began, (core, ours)) = (Instant::now(), passes().await?);
    loop {
        let now = made_objects(s).await?;
        ensure!(versions(&now) == versions(&before), "objects changed without a change by the user");
        let (core_now, ours_now) = passes().await?;
        if began.elapsed() >= 3 * PERIOD && core_now >= core + 3.0 && ours_now >= ours + 3.0 {
            return Ok(());
        }
        ensure!(began.elapsed() < NODES_WITHIN, "core or the manager did not reconcile again");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The field managers besides these that have set fields of the spec, by object.
fn other_writers(objects: &BTreeMap<String, DynamicObject>) -> Vec<String> {
    let writers = objects.iter().flat_map(|(name, object)| {
        let entries = object.metadata.managed_fields.iter().flatten();
        let specs = entries.filter(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            fields.is_some_and(|fields| fields.get("f:spec").is_some())
        });
        let others =
            specs.filter_map(|entry| entry.manager.clone()).filter(|manager| !WRITERS.contains(&manager.as_str()));
        others.map(move |manager| format!("{manager} wrote the spec of {name}"))
    });
    writers.collect()
}

/// A Cluster on the network of the story.
fn cluster(scenario: &Scenario, of_class: &KubeadmCluster<'_>) -> String {
    let network = &scenario.network;
    let variables = [
        ("vpcID", json!(network.vpc_id)),
        ("subnetIDs", json!(network.private_subnet_ids())),
        (
            "securityGroupIDs",
            json!({"controlPlane": network.control_plane_security_group_id, "node": network.node_security_group_id}),
        ),
        ("controlPlaneTargetGroupARN", json!(of_class.target_group)),
    ];
    let endpoint = json!({"host": of_class.host, "port": PORT});
    of_class_named("unmanaged", &of_class.name, Some(endpoint), &variables)
}

/// A Cluster of a class with one machine of each role.
fn of_class_named(class: &str, name: &str, endpoint: Option<Value>, variables: &[(&str, Value)]) -> String {
    let common = [("region", json!(REGION)), ("imageID", json!(moto::IMAGE_ID))];
    let variables = common.iter().chain(variables);
    let variables: Vec<Value> = variables.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let mut cluster = json!({
        "apiVersion": CORE,
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
            "topology": {
                "classRef": {"name": class},
                "version": VERSION,
                "controlPlane": {"replicas": 1},
                "workers": {"machineDeployments": [{"class": "default-worker", "name": "md-0", "replicas": 1}]},
                "variables": variables,
            },
        },
    });
    if let Some(endpoint) = endpoint {
        cluster["spec"]["controlPlaneEndpoint"] = endpoint;
    }
    cluster.to_string()
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_of_the_managed_class_has_a_network_of_its_own() -> anyhow::Result<()> {
        run_story(Story::new("managed-class"), async |s| {
            s.begin_whole_clusters(&[FASTER]).await?;
            let cluster = s.kubeadm_cluster_without_load_balancer("dev");
            s.user.create_instance_profiles().await?;
            let before = s.user.dump().await?;
            s.apply(MANAGED_CLASS).await?;
            // The names of load balancers do not resolve where the tests run.
            let variables = [("dnsResolutionCheck", json!("None")), ("zoneCount", json!(1))];
            s.apply(&of_class_named("managed", &cluster.name, None, &variables)).await?;
            cluster.ready(1, 1).await?;
            let made = made_objects(s).await?;
            let cluster_of_aws = made.values().find(|object| object.data.pointer("/spec/network").is_some());
            let vpc = cluster_of_aws.and_then(|object| object.data.pointer("/status/network/vpc/id"));
            ensure!(vpc.is_some(), "no VPC: {cluster_of_aws:?}");
            let look = async || Ok(versions(&made_objects(s).await?));
            settled("the objects", Duration::from_secs(5), NODES_WITHIN, look).await?;
            cluster.delete().await?;
            s.has_left_nothing(&before).await
        })
    }

    #[test]
    fn a_topology_rotates_a_template_for_a_changed_variable_only() -> anyhow::Result<()> {
        tell_of_whole_clusters(Story::new("topology").in_its_own_world(&[SYNC]), &[FASTER, SYNC], async |s| {
            let cluster_of_class = s.kubeadm_cluster("dev").await?;
            s.user.create_instance_profiles().await?;
            s.apply(CLASS).await?;
            s.apply(&cluster(s, &cluster_of_class)).await?;
            cluster_of_class.ready(1, 1).await?;

            // The writes after the objects became ready are over.
            let look = async || Ok(versions(&made_objects(s).await?));
            settled("the objects", Duration::from_secs(5), NODES_WITHIN, look).await?;
            stays_for_three_periods(s).await?;
            let after = made_objects(s).await?;
            assert_eq!(other_writers(&after), Vec::<String>::new());

            let clusters = s.api(CORE, "Cluster").await?;
            let mut changed = clusters.get("dev").await?;
            if let Some(variables) = changed.data.pointer_mut("/spec/topology/variables").and_then(Value::as_array_mut)
            {
                variables.retain(|variable| variable["name"] != "workerMachineType");
                variables.push(json!({"name": "workerMachineType", "value": "t3.xlarge"}));
            }
            clusters.replace("dev", &kube::api::PostParams::default(), &changed).await?;
            eventually(NODES_WITHIN, "a larger worker to be launched", async || {
                let launches = s.launches();
                let large = launches.matching(|call| call.parameter("InstanceType") == Some("t3.xlarge"));
                ensure!(large.len() == 1, "{launches}");
                Ok(())
            })
            .await?;
            cluster_of_class.ready(1, 1).await?;
            assert_eq!(s.launches().len(), 3, "only the worker was replaced");
            assert_eq!(other_writers(&made_objects(s).await?), Vec::<String>::new());

            cluster_of_class.delete().await?;
            Ok(())
        })
    }
}
