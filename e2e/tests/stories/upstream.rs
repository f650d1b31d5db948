//! Cluster API's own end-to-end specs, one story each: each runs in a management cluster that clusterctl has installed,
//! with our manager and simulated nodes. docs/contributing/upstream.md lists the specs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::Journal;
use capa_e2e::clusterctl::ManagementCluster;
use capa_e2e::user::LoadBalancer;
use capa_e2e::{mostly_waits, moto, upstream_folder, upstream_specs};
use serde_json::Value;

use super::clusterctl::installed::{DRAINING_SECONDS, in_management_cluster};
use super::clusters::whole::{instances_of, network, only_machines_were_written, targets_of};
use super::scenario::{FASTER, REGION, Scenario};

/// A story for each spec, with its label in `e2e/upstream/specs_test.go`.
macro_rules! specs {
    ($($story:ident: $label:literal,)*) => {
        const SPECS: &[&str] = &[$($label),*];

        mod long_stories {
            $(
                #[test]
                fn $story() -> anyhow::Result<()> {
                    super::passes($label)
                }
            )*
        }
    };
}

specs! {
    quick_start: "quick-start",
    quick_start_topology: "quick-start-topology",
    quick_start_no_workers: "quick-start-no-workers",
    md_scale: "md-scale",
    kcp_md_rollout: "kcp-md-rollout",
    md_remediation: "md-remediation",
    cluster_deletion: "cluster-deletion",
    clusterclass_changes: "clusterclass-changes",
    clusterclass_rollout: "clusterclass-rollout",
    upgrade: "upgrade",
    upgrade_ha: "upgrade-ha",
    upgrade_scale_in: "upgrade-scale-in",
    kcp_adoption: "kcp-adoption",
    kcp_infra_adoption: "kcp-infra-adoption",
    scale: "scale",
}

/// The templates that single specs ask for, and the folders of `e2e/upstream/data` with their parts.
const TEMPLATES: [(&str, &[&str]); 11] = [
    ("cluster-template-kcp-md-taints.yaml", &["kcp-md-taints"]),
    ("cluster-template-md-remediation.yaml", &["md-remediation"]),
    ("cluster-template-topology-taints.yaml", &["topology-taints"]),
    ("cluster-template-topology-no-workers.yaml", &["topology-no-workers/cluster"]),
    ("clusterclass-no-workers.yaml", &["topology-no-workers/class"]),
    ("cluster-template-topology-upgrade.yaml", &["topology-upgrade/cluster"]),
    ("clusterclass-upgrade.yaml", &["topology-upgrade/class"]),
    ("cluster-template-topology-scale-in.yaml", &["topology-scale-in/cluster"]),
    ("clusterclass-scale-in.yaml", &["topology-scale-in/class"]),
    ("cluster-template-topology-scale.yaml", &["topology-scale"]),
    ("cluster-template-kcp-adoption.yaml", &["kcp-adoption/step1", "kcp-adoption/step2"]),
];

/// The limits for one spec, on a busy computer with two cores: for its steps, and for the program, which writes
/// evidence and a report when the steps take too long.
const STEPS_WITHIN: Duration = Duration::from_mins(30);
const WITHIN: Duration = Duration::from_mins(45);

#[test]
fn each_spec_of_the_suite_has_a_story_and_a_row() -> anyhow::Result<()> {
    let folder = upstream_folder();
    let suite = fs::read_to_string(folder.join("specs_test.go"))?;
    let labels = suite.split("Label(\"").skip(1).filter_map(|rest| rest.split('"').next());
    assert_eq!(labels.collect::<Vec<_>>(), SPECS);
    let page = fs::read_to_string(folder.join("../../docs/contributing/upstream.md"))?;
    let section = page.split("\n## ").find(|section| section.starts_with("Specs that run"));
    let rows = section.unwrap_or_default().lines();
    let labels = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    assert_eq!(labels.collect::<Vec<_>>(), SPECS);
    Ok(())
}

/// Runs the spec with this label. At its end nothing is left in AWS, the user's network is as it was, and the only
/// writes were one launch and one termination for each machine, and registrations of what was launched.
fn passes(label: &str) -> anyhow::Result<()> {
    mostly_waits();
    in_management_cluster("upstream", async |cluster, environment| {
        cluster.world().start_nodes()?;
        let s = Scenario::new(environment.clone(), "upstream").await?;
        s.user.create_instance_profiles().await?;
        s.aws().set_nodes_report(true);
        // The specs choose the names of their namespaces.
        s.new_manager().flag(FASTER).flag("--namespace=").start().await?;
        let load_balancer = s.user.create_network_load_balancer(&s.network, label).await?;
        let group = &load_balancer.target_group_arn;
        s.user.set_deregistration_delay(group, DRAINING_SECONDS).await?;
        let variables = variables()?;
        let old_image = install_images(&s, &variables).await?;
        let before = network(&s).await?;

        let artifacts = environment.new_evidence(&format!("upstream-{label}"))?;
        add_templates(cluster)?;
        let mut command = command(label, cluster, &artifacts)?;
        command.envs(variables).env("AWS_AMI_ID_UPGRADE_FROM", old_image).envs(network_variables(&s, &load_balancer)?);
        environment.run("upstream-specs", &command, WITHIN).await?;

        let left = s.user.live_instances().await?;
        ensure!(left.is_empty(), "instances are left: {left:?}");
        let targets = s.user.targets(group).await?;
        ensure!(targets.is_empty(), "targets are left: {targets:?}");
        let after = network(&s).await?;
        ensure!(after == before, "the user's network was {before:#} and is {after:#}");
        only_launched_was_written(&s.aws().manager_journal(), group)?;
        fs::remove_dir_all(&artifacts)?;
        Ok(())
    })
}

/// Adds the templates that single specs ask for to the release in the repository of clusterctl.
fn add_templates(cluster: &ManagementCluster) -> anyhow::Result<()> {
    let data = upstream_folder().join("data");
    for (file, parts) in TEMPLATES {
        let parts: Vec<_> = parts.iter().map(|part| data.join(part)).collect();
        cluster.release().add_templates(file, &parts)?;
    }
    Ok(())
}

/// The variables of the suite's configuration, for templates.
fn variables() -> anyhow::Result<BTreeMap<String, String>> {
    let configuration = fs::read_to_string(upstream_folder().join("config.yaml"))?;
    let configuration: Value = serde_saphyr::from_str(&configuration)?;
    Ok(serde_json::from_value(configuration["variables"].clone())?)
}

/// Installs the version of Kubernetes from which clusters are upgraded on an image of its own, whose id is returned,
/// and the version of all other clusters on the image that exists.
async fn install_images(s: &Scenario, variables: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let version = |name: &str| variables.get(name).with_context(|| format!("the configuration has no {name}"));
    ensure!(
        version("KUBERNETES_VERSION")? == version("KUBERNETES_VERSION_UPGRADE_TO")?,
        "both are versions of one image"
    );
    let old_image = s.user.register_image("upgrade-from").await?;
    s.aws().set_image_version(&old_image, version("KUBERNETES_VERSION_UPGRADE_FROM")?);
    s.aws().set_image_version(moto::IMAGE_ID, version("KUBERNETES_VERSION")?);
    Ok(old_image)
}

/// The command that runs one spec.
fn command(label: &str, cluster: &ManagementCluster, artifacts: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(upstream_specs()?);
    command
        .arg(format!("--ginkgo.label-filter={label}"))
        .args(["--ginkgo.v", "--ginkgo.no-color", "--ginkgo.fail-on-empty"])
        .arg(format!("--ginkgo.timeout={}s", STEPS_WITHIN.as_secs()))
        .arg(format!("--test.timeout={}s", WITHIN.as_secs()))
        .arg(format!("--e2e.config={}", upstream_folder().join("config.yaml").display()))
        .arg(format!("--e2e.clusterctl-config={}", cluster.clusterctl().configuration().display()))
        .arg(format!("--e2e.artifacts-folder={}", artifacts.display()))
        .env("KUBECONFIG", cluster.world().admin_kubeconfig())
        .env("HOME", artifacts)
        .env("XDG_CONFIG_HOME", artifacts)
        .envs(cluster.world().endpoint_variables())
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        // ScaleSpec's own variables, such as CAPI_SCALE_CLUSTER_COUNT.
        .envs(std::env::vars().filter(|(name, _)| name.starts_with("CAPI_SCALE_")));
    Ok(command)
}

/// The variables of the released templates.
fn network_variables(s: &Scenario, load_balancer: &LoadBalancer) -> anyhow::Result<[(&'static str, String); 10]> {
    let subnets = s.network.private_subnet_ids();
    let [first, second, third] = subnets.as_slice() else {
        anyhow::bail!("{} zones", subnets.len());
    };
    let network = &s.network;
    Ok([
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_VPC_ID", network.vpc_id.clone()),
        ("AWS_SUBNET_ID_A", (*first).to_owned()),
        ("AWS_SUBNET_ID_B", (*second).to_owned()),
        ("AWS_SUBNET_ID_C", (*third).to_owned()),
        ("AWS_NODE_SECURITY_GROUP_ID", network.node_security_group_id.clone()),
        ("AWS_CONTROL_PLANE_SECURITY_GROUP_ID", network.control_plane_security_group_id.clone()),
        ("AWS_AMI_ID", moto::IMAGE_ID.to_owned()),
        ("AWS_CONTROL_PLANE_TARGET_GROUP_ARN", load_balancer.target_group_arn.clone()),
        ("CONTROL_PLANE_ENDPOINT_HOST", load_balancer.dns_name.clone()),
    ])
}

/// Fails unless the manager launched one instance for each machine, and registered these in this target group only.
fn only_launched_was_written(journal: &Journal, group: &str) -> anyhow::Result<()> {
    only_machines_were_written(journal)?;
    let calls = journal.of("RunInstances");
    let tags = calls.calls().iter().map(|launch| launch.tags("instance"));
    let machines: BTreeSet<_> = tags.filter_map(|mut tags| tags.remove("MachineName")).collect();
    let launched = instances_of(journal, "RunInstances");
    ensure!(launched.len() == machines.len(), "{} instances were launched for {machines:?}", launched.len());
    for action in ["RegisterTargets", "DeregisterTargets"] {
        for call in journal.of(action).calls() {
            let are_ours = targets_of(call).iter().all(|target| launched.contains(target));
            let is_ours = call.parameter("TargetGroupArn") == Some(group);
            ensure!(are_ours && is_ours, "a foreign registration was written: {call}");
        }
    }
    Ok(())
}
