//! Machines whose instances get Elastic IPs.

use anyhow::{Context as _, ensure};
use aws_sdk_ec2::types::Address;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::eventually;

use super::machines::{INLINE, at, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

const POOL: &str = "ipv4pool-ec2-0123456789abcdef0";

/// The addresses of machines in the story's account.
async fn addresses(s: &Scenario) -> anyhow::Result<Vec<Address>> {
    let described = s.user.ec2().describe_addresses().send().await?;
    let of_machine = |address: &Address| address.tags().iter().any(|tag| tag.key() == Some("MachineName"));
    Ok(described.addresses.unwrap_or_default().into_iter().filter(of_machine).collect())
}

/// A machine in a public subnet, with an address from the pool, or from Amazon's if the pool has none.
async fn machine(s: &Scenario, name: &str) -> anyhow::Result<()> {
    let subnet = &s.network.zones[0].public_subnet_id;
    let pool = format!("{{publicIpv4Pool: {POOL}, publicIpv4PoolFallbackOrder: amazon-pool}}");
    let spec = format!("{INLINE}, publicIP: true, subnet: {{id: {subnet}}}, elasticIpPool: {pool}");
    s.machine(name, "dev", &spec).await
}

async fn has_address(s: &Scenario, name: &str) -> anyhow::Result<()> {
    s.condition("AWSMachine", name, "ElasticIPReady", "True", "Ready").await?;
    Ok(())
}

#[test]
fn a_machine_has_an_elastic_ip_for_as_long_as_it_lives() -> anyhow::Result<()> {
    story("elastic-ips", async |s| {
        s.cluster("dev").await?;
        s.aws().add_address_pool(POOL, 1);
        for name in ["one", "two"] {
            machine(s, name).await?;
            has_address(s, name).await?;
        }
        let allocations = s.aws().manager_journal().of("AllocateAddress");
        let pools: Vec<_> = allocations.calls().iter().map(|call| call.parameter("PublicIpv4Pool")).collect();
        assert_eq!(pools, [Some(POOL), None], "the second finds the pool exhausted");

        let ready = s.get(OURS, "AWSMachine", "one").await?;
        let public_ip = text(&ready, "/status/elasticIP/publicIP").to_owned();
        let mut found = addresses(s).await?.into_iter();
        let own = found.find(|address| address.public_ip() == Some(&public_ip)).context("no such address")?;
        assert_eq!(own.instance_id(), Some(text(&ready, "/spec/instanceID")));
        eventually(WITHIN, "the address in the status", async || {
            let shown = at(&s.get(OURS, "AWSMachine", "one").await?, "/status/addresses").to_string();
            ensure!(shown.contains(&public_ip), "the addresses are {shown}");
            Ok(())
        })
        .await?;

        s.delete(CORE, "Machine", "one").await?;
        s.gone(OURS, "AWSMachine", &["one"]).await?;
        let left = addresses(s).await?;
        assert_eq!(left.len(), 1, "{left:?}");
        assert_ne!(left[0].public_ip(), Some(public_ip.as_str()));
        s.lose_status("two").await?;
        s.delete(CORE, "Machine", "two").await?;
        s.gone(OURS, "AWSMachine", &["two"]).await?;
        assert_eq!(addresses(s).await?, []);
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_lost_answer_allocates_no_second_address() -> anyhow::Result<()> {
        story("lost-address", async |s| {
            s.cluster("dev").await?;
            s.aws().add_address_pool(POOL, 5);
            let lost = s.aws().fault(Fault::on("AllocateAddress").dropped_after_effect());
            machine(s, "one").await?;
            eventually(WITHIN, "the address of the lost answer", async || {
                ensure!(addresses(s).await?.len() == 1, "no call has reached EC2");
                Ok(())
            })
            .await?;
            s.manager().kill().await?;
            lost.lift();
            s.start_manager().await?;
            has_address(s, "one").await?;
            assert_eq!(addresses(s).await?.len(), 1);
            s.delete(CORE, "Machine", "one").await?;
            s.gone(OURS, "AWSMachine", &["one"]).await?;
            assert_eq!(addresses(s).await?, []);
            Ok(())
        })
    }
}
