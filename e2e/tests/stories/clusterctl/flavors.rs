//! Whole clusters of the flavors whose infrastructure other tools make: `clusterctl generate cluster`, nodes that run,
//! and the end of the cluster.

use anyhow::ensure;
use capa_e2e::{Brought, Flavor, eventually, objects};
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::super::clusters::whole::{NODES_WITHIN, only_machines_were_written};
use super::super::scenario::CORE;
use super::installed::{NAME, installed};

/// Brings a cluster of a flavor up and deletes it. AWS is as before then.
fn lives_and_dies(flavor: Flavor) -> anyhow::Result<()> {
    installed(&format!("flavor-{}", flavor.name()), async |installed| {
        let s = &installed.scenario;
        let load_balancer = installed.load_balancer().await?;
        let brought = Brought {
            environment: &s.environment,
            user: &s.user,
            network: &s.network,
            load_balancer: &load_balancer,
            cluster: NAME,
        };
        flavor.prepare(&brought).await?;
        let before = s.user.details().await?;
        s.apply(&installed.generated(&load_balancer, Some(flavor)).await?).await?;
        flavor.publish(&brought).await?;

        let machines = s.api(CORE, "Machine").await?;
        eventually(NODES_WITHIN, "two nodes to be ready", async || {
            let machines = machines.list(&ListParams::default()).await?.items;
            ensure!(machines.len() == 2, "there are {} machines", machines.len());
            for machine in &machines {
                let ready = objects::condition(machine, "Ready");
                ensure!(
                    ready.as_ref().is_some_and(|ready| ready.status == "True"),
                    "{}: {ready:?}",
                    machine.name_any()
                );
            }
            Ok(())
        })
        .await?;
        let registered = s.user.targets(&load_balancer.target_group_arn).await?;
        assert_eq!(registered.len(), 1, "{registered:?}");

        s.environment.delete(CORE, "Cluster", NAME, NODES_WITHIN).await?;
        assert_eq!(s.user.live_instances().await?, []);
        assert_eq!(s.user.details().await?, before, "the user's network is as it was");
        only_machines_were_written(&s.aws().manager_journal())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_of_the_flavor_crossplane_lives() -> anyhow::Result<()> {
        lives_and_dies(Flavor::Crossplane)
    }

    #[test]
    fn a_cluster_of_the_flavor_terraform_lives() -> anyhow::Result<()> {
        lives_and_dies(Flavor::Terraform)
    }

    #[test]
    fn a_cluster_of_the_flavor_ack_lives() -> anyhow::Result<()> {
        lives_and_dies(Flavor::Ack)
    }

    #[test]
    fn a_cluster_of_the_flavor_managed_by_lives() -> anyhow::Result<()> {
        lives_and_dies(Flavor::ManagedBy)
    }

    #[test]
    fn a_cluster_of_the_flavor_no_infrastructure_object_lives() -> anyhow::Result<()> {
        lives_and_dies(Flavor::NoInfrastructureObject)
    }

    #[test]
    fn a_cluster_of_the_flavor_unmanaged_discovery_lives() -> anyhow::Result<()> {
        lives_and_dies(Flavor::UnmanagedDiscovery)
    }
}
