//! Clusters that are published as ClusterProfiles.

use anyhow::{Context, ensure};
use capa_e2e::{eventually, eventually_by_polling, fixtures};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::machines::at;
use super::scenario::{CORE, Scenario, WITHIN, story};

pub(super) const INVENTORY: &str = "multicluster.x-k8s.io/v1alpha1";
/// The flag with which the fleet process reads each Cluster once a second.
pub(super) const OFTEN: &str = "--sync-period=1s";

#[test]
fn a_cluster_of_any_provider_is_published() -> anyhow::Result<()> {
    story("profiles", async |s| {
        let fleet = s.environment.new_fleet().flag(OFTEN);
        let fleet = fleet.flag("--propagate-label-prefix=segment.example.org/").start().await?;
        initialized_cluster(s, "dev", "rack-7").await?;
        let label = json!({"metadata": {"labels": {"segment.example.org/tier": "gold"}}});
        s.patch(CORE, "Cluster", "dev", label).await?;
        let kubeconfig = std::fs::read_to_string(s.environment.world().admin_kubeconfig())?;
        keep_kubeconfig(s, "dev", &kubeconfig).await?;
        let profile = published(s, "dev", "True", "Healthy").await?;
        assert_eq!(profile.labels()["segment.example.org/tier"], "gold");
        assert_eq!(at(&profile, "/spec/clusterManager/name"), "capa-rs");
        let system = s.environment.api("v1", "Namespace").await?.get("kube-system").await?;
        let expected = [
            ("cluster.clusterset.k8s.io", system.uid().context("a UID")?),
            ("fleet.infrastructure.cluster.x-k8s.io/provider", "metal".to_owned()),
            ("fleet.infrastructure.cluster.x-k8s.io/region", "rack-7".to_owned()),
            ("fleet.infrastructure.cluster.x-k8s.io/zones", "row-a,row-b".to_owned()),
        ];
        for (name, value) in expected {
            assert_eq!(property(&profile, name).as_deref(), Some(value.as_str()), "{name}");
        }
        let version = at(&profile, "/status/version/kubernetes").as_str().unwrap_or_default();
        assert!(version.starts_with('v'), "{version}");
        let access = at(&profile, "/status/accessProviders/0/cluster");
        let secret = &access["extensions"][0]["extension"];
        assert_eq!(secret, &json!({"name": "dev-kubeconfig", "namespace": s.namespace(), "key": "value"}));
        let text = serde_json::to_string(&profile)?;
        ensure!(!text.contains("client-key") && !text.contains("token"), "{text}");

        // A fleet that looks every second writes nothing while nothing changes.
        let before = profile.resource_version();
        let passes = fleet.passes("clusterprofile").await?;
        eventually_by_polling(WITHIN, "three more passes", async || {
            ensure!(fleet.passes("clusterprofile").await? >= passes + 3.0, "not yet");
            Ok(())
        })
        .await?;
        let after = s.get(INVENTORY, "ClusterProfile", "dev").await?;
        assert_eq!(after.resource_version(), before);

        s.delete(CORE, "Cluster", "dev").await?;
        let profiles = s.api(INVENTORY, "ClusterProfile").await?;
        eventually_by_polling(WITHIN, "the profile to go with its cluster", async || {
            ensure!(profiles.get_opt("dev").await?.is_none(), "it is still there");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_profile_says_why_its_cluster_cannot_be_reached() -> anyhow::Result<()> {
    story("unreachable", async |s| {
        initialized_cluster(s, "dev", "rack-7").await?;
        let taken = json!({
            "apiVersion": INVENTORY, "kind": "ClusterProfile", "metadata": {"name": "taken"},
            "spec": {"clusterManager": {"name": "another"}},
        });
        s.environment.new_fleet().flag(OFTEN).start().await?;
        let kubeconfig = std::fs::read_to_string(s.environment.world().admin_kubeconfig())?;
        keep_kubeconfig(s, "dev", &kubeconfig).await?;
        published(s, "dev", "True", "Healthy").await?;

        let trace = s.environment.new_evidence("exec")?.join("started");
        let mut exec: Value = serde_json::from_str(&kubeconfig)?;
        exec["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [trace.clone()],
            "interactiveMode": "Never",
        }});
        keep_kubeconfig(s, "dev", &exec.to_string()).await?;
        let refused = published(s, "dev", "Unknown", "KubeconfigInvalid").await?;
        ensure!(message(&refused).contains("exec"), "{}", message(&refused));
        ensure!(!trace.exists(), "the program of a kubeconfig was started");
        std::fs::remove_dir_all(trace.parent().context("a folder")?)?;

        let mut nowhere: Value = serde_json::from_str(&kubeconfig)?;
        nowhere["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
        keep_kubeconfig(s, "dev", &nowhere.to_string()).await?;
        let unreachable = published(s, "dev", "False", "Unreachable").await?;
        let region = property(&unreachable, "fleet.infrastructure.cluster.x-k8s.io/region");
        assert_eq!(region.as_deref(), Some("rack-7"), "what was known stays");

        let mut stranger: Value = serde_json::from_str(&kubeconfig)?;
        stranger["users"][0]["user"] = json!({"token": "of-nobody"});
        keep_kubeconfig(s, "dev", &stranger.to_string()).await?;
        published(s, "dev", "False", "CredentialsRefused").await?;
        keep_kubeconfig(s, "dev", &kubeconfig).await?;
        published(s, "dev", "True", "Healthy").await?;

        // The profile of another manager is left as it is.
        s.apply(&taken.to_string()).await?;
        let before = s.get(INVENTORY, "ClusterProfile", "taken").await?;
        initialized_cluster(s, "taken", "rack-7").await?;
        keep_kubeconfig(s, "taken", &kubeconfig).await?;
        s.event("Cluster", "taken", "ClusterProfileTaken").await?;
        let theirs = s.get(INVENTORY, "ClusterProfile", "taken").await?;
        assert_eq!(theirs.resource_version(), before.resource_version(), "{}", theirs.data);
        Ok(())
    })
}

/// A Cluster whose infrastructure and control plane are objects of somebody else's providers, with its milestones
/// reached.
pub(super) async fn initialized_cluster(s: &Scenario, name: &str, region: &str) -> anyhow::Result<()> {
    s.apply(&fixtures::definition("infrastructure.cluster.x-k8s.io", "MetalCluster", "")).await?;
    s.apply(&fixtures::control_plane(name)).await?;
    s.apply(&format!(
        "
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: MetalCluster
metadata: {{name: {name}}}
spec: {{region: {region}, controlPlaneEndpoint: {{host: 127.0.0.1, port: 6443}}}}
---
apiVersion: {CORE}
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: StandIn, name: {name}}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MetalCluster, name: {name}}}
"
    ))
    .await?;
    let infrastructure = json!({"status": {
        "initialization": {"provisioned": true},
        "failureDomains": [{"name": "row-b", "controlPlane": true}, {"name": "row-a", "controlPlane": true}],
    }});
    let control_plane = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
    for (api_version, kind, status) in [
        ("infrastructure.cluster.x-k8s.io/v1alpha1", "MetalCluster", infrastructure),
        ("controlplane.cluster.x-k8s.io/v1alpha1", "StandIn", control_plane),
    ] {
        let api = s.api(api_version, kind).await?;
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

/// Writes the kubeconfig of a Cluster, as Cluster API does.
pub(super) async fn keep_kubeconfig(s: &Scenario, cluster: &str, kubeconfig: &str) -> anyhow::Result<()> {
    s.apply(&fixtures::kubeconfig_secret(cluster, kubeconfig)).await
}

/// The ClusterProfile once its cluster is found to be in this state.
async fn published(s: &Scenario, name: &str, status: &str, reason: &str) -> anyhow::Result<DynamicObject> {
    let profiles = s.api(INVENTORY, "ClusterProfile").await?;
    let what = format!("ClusterProfile {name} to say {status}/{reason}");
    eventually(WITHIN, &what, async || {
        let profile = profiles.get(name).await?;
        let found = at(&profile, "/status/conditions/0");
        let says = (found["status"].as_str(), found["reason"].as_str());
        ensure!(says == (Some(status), Some(reason)), "{}", profile.data);
        Ok(profile)
    })
    .await
}

fn message(profile: &DynamicObject) -> String {
    let message = at(profile, "/status/conditions/0/message");
    message.as_str().unwrap_or_default().to_owned()
}

fn property(profile: &DynamicObject, name: &str) -> Option<String> {
    let properties = at(profile, "/status/properties").as_array()?;
    let property = properties.iter().find(|property| property["name"] == name)?;
    Some(property["value"].as_str()?.to_owned())
}

mod long_stories {
    use std::process::Command;
    use std::time::Duration;

    use capa_e2e::{consumer_of_profiles, karmada::BareCluster};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::PostParams;
    use serde_json::json;

    use super::{OFTEN, initialized_cluster, keep_kubeconfig, published};
    use crate::stories::scenario::story;

    /// The consumer that cluster-inventory-api shows lists the pods of a cluster by nothing but its ClusterProfile.
    #[test]
    fn the_consumer_of_the_api_reaches_a_cluster_by_its_profile() -> anyhow::Result<()> {
        story("consumer", async |s| {
            let spoke = BareCluster::start(&s.environment, "spoke").await?;
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "seen-from-afar"},
                "spec": {"containers": [{"name": "web", "image": "example.org/web"}]},
            }))?;
            let pods: Api<Pod> = Api::namespaced(spoke.client().await?, "default");
            pods.create(&PostParams::default(), &pod).await?;
            s.environment.new_fleet().flag(OFTEN).start().await?;
            initialized_cluster(s, "dev", "rack-7").await?;
            keep_kubeconfig(s, "dev", &spoke.kubeconfig()?).await?;
            published(s, "dev", "True", "Healthy").await?;

            let (consumer, plugin) = consumer_of_profiles()?;
            let providers = json!({"providers": [{
                "name": "kubeconfig-secretreader",
                "execConfig": {
                    "apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "provideClusterInfo": true,
                    "interactiveMode": "Never",
                },
            }]});
            let file = tempfile::NamedTempFile::new()?;
            std::fs::write(file.path(), providers.to_string())?;
            let mut command = Command::new(consumer);
            command
                .arg(format!("-clusterprofile-provider-file={}", file.path().display()))
                .args(["-namespace", s.namespace(), "-clusterprofile", "dev"])
                .env("KUBECONFIG", s.environment.world().admin_kubeconfig());
            let log = s.environment.run("consumer", &command, Duration::from_mins(2)).await?;
            for client in ["client-go", "controller-runtime"] {
                let line = format!("[{client}] pod: default/seen-from-afar");
                assert!(log.contains(&line), "{log}");
            }
            Ok(())
        })
    }
}
