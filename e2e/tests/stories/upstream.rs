//! Cluster API's own end-to-end specs, one story each: each runs in a management cluster that clusterctl has installed,
//! with our manager and simulated nodes. docs/contributing/upstream.md lists the specs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use capa_e2e::aws_proxy::Journal;
use capa_e2e::clusterctl::ManagementCluster;
use capa_e2e::user::LoadBalancer;
use capa_e2e::{mostly_waits, moto, upstream_folder, upstream_specs};

use super::clusterctl::installed::{DRAINING_SECONDS, in_management_cluster};
use super::clusters::whole::{instances_of, network, only_machines_were_written, targets_of};
use super::scenario::{FASTER, REGION, Scenario};

/// The specs by their labels in `e2e/upstream/specs_test.go`.
const SPECS: [&str; 13] = [
    "quick-start",
    "quick-start-topology",
    "md-scale",
    "kcp-md-rollout",
    "md-remediation",
    "cluster-deletion",
    "clusterclass-changes",
    "clusterclass-rollout",
    "upgrade",
    "upgrade-scale-in",
    "kcp-adoption",
    "kcp-infra-adoption",
    "scale",
];

/// The templates that single specs ask for, and the folders of `e2e/upstream/data` with their parts.
const TEMPLATES: [(&str, &[&str]); 9] = [
    ("cluster-template-kcp-md-taints.yaml", &["kcp-md-taints"]),
    ("cluster-template-md-remediation.yaml", &["md-remediation"]),
    ("cluster-template-topology-taints.yaml", &["topology-taints"]),
    ("cluster-template-topology-upgrade.yaml", &["topology-upgrade/cluster"]),
    ("clusterclass-upgrade.yaml", &["topology-upgrade/class"]),
    (
        "cluster-template-topology-scale-in.yaml",
        &["topology-scale-in/cluster"],
    ),
    ("clusterclass-scale-in.yaml", &["topology-scale-in/class"]),
    ("cluster-template-topology-scale.yaml", &["topology-scale"]),
    (
        "cluster-template-kcp-adoption.yaml",
        &["kcp-adoption/step1", "kcp-adoption/step2"],
    ),
];

/// The limit for one spec, on a busy computer with two cores.
const WITHIN: Duration = Duration::from_mins(40);

#[test]
fn each_spec_of_the_suite_has_a_story_and_a_row() -> anyhow::Result<()> {
    let folder = upstream_folder();
    let suite = fs::read_to_string(folder.join("specs_test.go"))?;
    let labels = suite
        .split("Label(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    assert_eq!(labels.collect::<Vec<_>>(), SPECS);
    let page = fs::read_to_string(folder.join("../../docs/contributing/upstream.md"))?;
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("Specs that run"));
    let rows = section.unwrap_or_default().lines();
    let labels = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    assert_eq!(labels.collect::<Vec<_>>(), SPECS);
    Ok(())
}

mod long_stories {
    use super::passes;

    #[test]
    fn quick_start() -> anyhow::Result<()> {
        passes("quick-start")
    }

    #[test]
    fn quick_start_topology() -> anyhow::Result<()> {
        passes("quick-start-topology")
    }

    #[test]
    fn md_scale() -> anyhow::Result<()> {
        passes("md-scale")
    }

    #[test]
    fn kcp_md_rollout() -> anyhow::Result<()> {
        passes("kcp-md-rollout")
    }

    #[test]
    fn md_remediation() -> anyhow::Result<()> {
        passes("md-remediation")
    }

    #[test]
    fn cluster_deletion() -> anyhow::Result<()> {
        passes("cluster-deletion")
    }

    #[test]
    fn clusterclass_changes() -> anyhow::Result<()> {
        passes("clusterclass-changes")
    }

    #[test]
    fn clusterclass_rollout() -> anyhow::Result<()> {
        passes("clusterclass-rollout")
    }

    #[test]
    fn upgrade() -> anyhow::Result<()> {
        passes("upgrade")
    }

    #[test]
    fn upgrade_scale_in() -> anyhow::Result<()> {
        passes("upgrade-scale-in")
    }

    #[test]
    fn kcp_adoption() -> anyhow::Result<()> {
        passes("kcp-adoption")
    }

    #[test]
    fn kcp_infra_adoption() -> anyhow::Result<()> {
        passes("kcp-infra-adoption")
    }

    #[test]
    fn scale() -> anyhow::Result<()> {
        passes("scale")
    }
}

/// Runs the spec with this label. At its end nothing is left in AWS, the user's network is as it was, and the only writes
/// were those for machines and their registrations.
fn passes(label: &str) -> anyhow::Result<()> {
    ensure!(SPECS.contains(&label), "{label} is not among the specs");
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
        let before = network(&s).await?;

        let artifacts = environment.new_evidence(&format!("upstream-{label}"))?;
        add_templates(cluster)?;
        let command = command(label, cluster, &s, &load_balancer, &artifacts)?;
        environment.run("upstream-specs", &command, WITHIN).await?;

        let left = s.user.live_instances().await?;
        ensure!(left.is_empty(), "instances are left: {left:?}");
        let targets = s.user.targets(group).await?;
        ensure!(targets.is_empty(), "targets are left: {targets:?}");
        let after = network(&s).await?;
        ensure!(after == before, "the user's network was {before:#} and is {after:#}");
        only_launched_was_written(&s.aws().manager_journal())?;
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

/// The command that runs one spec with the templates' variables in its environment.
fn command(
    label: &str,
    cluster: &ManagementCluster,
    s: &Scenario,
    load_balancer: &LoadBalancer,
    artifacts: &Path,
) -> anyhow::Result<Command> {
    let subnets = s.network.private_subnet_ids();
    let [first, second, third] = subnets.as_slice() else {
        anyhow::bail!("{} zones", subnets.len());
    };
    let mut command = Command::new(upstream_specs()?);
    command
        .arg(format!("--ginkgo.label-filter={label}"))
        .args(["--ginkgo.v", "--ginkgo.no-color", "--ginkgo.fail-on-empty"])
        .arg(format!("--ginkgo.timeout={}s", WITHIN.as_secs()))
        .arg(format!("--test.timeout={}s", WITHIN.as_secs()))
        .arg(format!(
            "--e2e.config={}",
            upstream_folder().join("config.yaml").display()
        ))
        .arg(format!(
            "--e2e.clusterctl-config={}",
            cluster.clusterctl().configuration().display()
        ))
        .arg(format!("--e2e.artifacts-folder={}", artifacts.display()))
        .env("KUBECONFIG", cluster.world().admin_kubeconfig())
        .env("HOME", artifacts)
        .env("XDG_CONFIG_HOME", artifacts)
        .env("HTTPS_PROXY", cluster.world().endpoint_proxy())
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .env("AWS_REGION", REGION)
        .env("AWS_VPC_ID", &s.network.vpc_id)
        .env("AWS_SUBNET_ID_A", first)
        .env("AWS_SUBNET_ID_B", second)
        .env("AWS_SUBNET_ID_C", third)
        .env("AWS_NODE_SECURITY_GROUP_ID", &s.network.node_security_group_id)
        .env(
            "AWS_CONTROL_PLANE_SECURITY_GROUP_ID",
            &s.network.control_plane_security_group_id,
        )
        .env("AWS_AMI_ID", moto::IMAGE_ID)
        .env("AWS_CONTROL_PLANE_TARGET_GROUP_ARN", &load_balancer.target_group_arn)
        .env("CONTROL_PLANE_ENDPOINT_HOST", &load_balancer.dns_name)
        // ScaleSpec's own variables, such as CAPI_SCALE_CLUSTER_COUNT.
        .envs(std::env::vars().filter(|(name, _)| name.starts_with("CAPI_SCALE_")));
    Ok(command)
}

/// Fails unless the manager wrote for instances that it had launched, and for nothing else.
fn only_launched_was_written(journal: &Journal) -> anyhow::Result<()> {
    only_machines_were_written(journal)?;
    let launched = instances_of(journal, "RunInstances");
    for action in ["RegisterTargets", "DeregisterTargets"] {
        for call in journal.of(action).calls() {
            let are_ours = targets_of(call).iter().all(|target| launched.contains(target));
            ensure!(are_ours, "a foreign registration was written: {call}");
        }
    }
    Ok(())
}
