//! The page about the network contract suffices for a kind of one's own: its example is applied as it is printed.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use capa_e2e::{Story, objects};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};

use super::machines::{INLINE, text};
use super::scenario::{REGION, Scenario, run_story};

const PAGE: &str = include_str!("../../../docs/network-contract.md");
/// The heading above the example.
const HEADING: &str = "## Publishing a network from your own kind";
/// The line of the example by which the provider reads objects of the kind.
const LABEL: &str = "    infrastructure.cluster.x-k8s.io/machine-network: v1\n";
/// The ids in the example, which stand for those of the reader's network.
const SUBNET: &str = "subnet-0123456789abcdef0";
const SECURITY_GROUP: &str = "sg-0123456789abcdef0";
/// The ClusterRoles of the example.
const ROLES: [&str; 2] = ["cluster-api-manages-landscapes", "capa-rs-reads-landscapes"];

/// The longest time from the application of the label to the launch: a minute, and what busy computers need on top.
const ABOUT_A_MINUTE: Duration = Duration::from_secs(90);

/// The YAML of the kind, the object and the Cluster, with the ids of the scenario's network in place of those on the
/// page.
fn example(scenario: &Scenario) -> anyhow::Result<[String; 3]> {
    let (_, section) = PAGE.split_once(HEADING).context("the heading")?;
    let blocks = section.split("```yaml\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    let [kind, object, cluster] = blocks.as_slice() else {
        anyhow::bail!("the example has {} blocks", blocks.len());
    };
    let zone = scenario.network.zones.first().context("a zone")?;
    for stands_for in [SUBNET, SECURITY_GROUP, REGION, zone.name.as_str()] {
        ensure!(object.contains(stands_for), "{stands_for} is not in the example");
    }
    let object = object
        .replace(SUBNET, &zone.private_subnet_id)
        .replace(SECURITY_GROUP, &scenario.network.node_security_group_id);
    Ok([(*kind).to_owned(), object, (*cluster).to_owned()])
}

/// Applies an object, and then its status, as the commands on the page do.
async fn publish(scenario: &Scenario, yaml: &str) -> anyhow::Result<()> {
    scenario.apply(yaml).await?;
    let object = objects::parse(yaml)?.pop().context("one object")?;
    let types = object.types.clone().context("a kind")?;
    let api = scenario.api(&types.api_version, &types.kind).await?;
    let apply = PatchParams::apply("a-user").force();
    api.patch_status(&object.name_any(), &apply, &Patch::Apply(&object)).await?;
    Ok(())
}

async fn forget_roles(scenario: &Scenario) -> anyhow::Result<()> {
    let roles: Api<ClusterRole> = Api::all(scenario.environment.client());
    for role in ROLES {
        roles.delete(role, &DeleteParams::default()).await?;
    }
    Ok(())
}

mod timed_stories {
    use super::*;

    #[test]
    fn the_example_of_the_contract_page_launches_a_machine() -> anyhow::Result<()> {
        run_story(Story::new("contract-page"), async |s| {
            // The periods are those of a release: the time until the launch is the subject.
            s.new_manager().start().await?;
            let [kind, object, cluster] = example(s)?;
            ensure!(kind.contains(LABEL), "the example has no label");
            s.apply(&kind.replace(LABEL, "")).await?;
            publish(s, &object).await?;
            s.apply(&cluster).await?;
            s.infrastructure_provisioned("demo").await?;
            s.machine("abroad", "demo", INLINE).await?;
            let message = s.machine_condition_false("abroad", "NetworkReady", "MissingField").await?;
            for part in ["Landscape", "infrastructure.cluster.x-k8s.io/machine-network: v1"] {
                ensure!(message.contains(part), "{part} is not in: {message}");
            }
            ensure!(s.launches().is_empty(), "nothing is launched without the label");

            let labelled = Instant::now();
            s.apply(&kind).await?;
            let instance = s.launched("abroad").await?;
            let waited = labelled.elapsed();
            ensure!(waited <= ABOUT_A_MINUTE, "the launch took {waited:?}");
            let ready = s.machine_ready("abroad").await?;
            assert_eq!(text(&ready, "/spec/instanceID"), instance);
            for field in ["region", "subnets", "securityGroups.all"] {
                let sources = &ready.data["status"]["network"]["sources"];
                assert_eq!(sources[field], "Landscape/demo", "source of {field}");
            }
            s.assert_mutating(&[("RunInstances", 1)]);
            forget_roles(s).await
        })
    }
}
