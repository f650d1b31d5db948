//! Machines on Dedicated Hosts that are allocated for them.

use anyhow::{Context, bail, ensure};
use aws_sdk_ec2::types::{AllocationState, Host};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{Story, eventually};

use super::machines::{INLINE, at, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, run_story, story};

/// The options of a machine with a host of its own.
const ALLOCATES: &str = "tenancy: host, hostAffinity: host, dynamicHostAllocation: {tags: {licence: windows}}";

/// All hosts that were ever allocated in the story's account.
async fn hosts(s: &Scenario) -> anyhow::Result<Vec<Host>> {
    let described = s.user.ec2().describe_hosts().send().await?;
    Ok(described.hosts().to_vec())
}

async fn live_hosts(s: &Scenario) -> anyhow::Result<Vec<String>> {
    let hosts = hosts(s).await?.into_iter();
    let live = hosts.filter(|host| host.state() == Some(&AllocationState::Available));
    Ok(live.filter_map(|host| host.host_id).collect())
}

#[test]
fn a_host_is_allocated_for_a_machine_and_released_with_it() -> anyhow::Result<()> {
    story("hosts", async |s| {
        s.cluster("dev").await?;
        s.machine("one", "dev", &format!("{INLINE}, {ALLOCATES}")).await?;
        let ready = s.machine_ready("one").await?;
        let host = text(&ready, "/status/dedicatedHost/id").to_owned();
        let uid = ready.metadata.uid.clone().context("no uid")?;
        let allocated = s.aws().manager_journal().of("AllocateHosts");
        let allocated = allocated.calls().first().context("no host was allocated")?;
        assert_eq!(allocated.parameter("ClientToken"), Some(format!("{uid}-host-1").as_str()));
        assert_eq!(allocated.parameter("AutoPlacement"), Some("off"));
        let tags = allocated.tags("dedicated-host");
        assert_eq!(tags.get("licence"), Some(&"windows"));
        assert!(tags.contains_key("MachineName"), "{tags:?}");
        let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
        for (parameter, value) in
            [("Placement.HostId", host.as_str()), ("Placement.Affinity", "host"), ("Placement.Tenancy", "host")]
        {
            assert_eq!(launch.parameter(parameter), Some(value), "{parameter}");
        }
        assert_eq!(text(&ready, "/status/dedicatedHost/availabilityZone"), text(&ready, "/status/failureDomain"));
        s.event("AWSMachine", "one", "SuccessfulAllocateDedicatedHost").await?;

        s.aws().keep_host(&host, true);
        s.begin_deletion(CORE, "Machine", "one").await?;
        s.deletion_says("one", "minimum allocation period").await?;
        s.deletion_says("one", &host).await?;
        assert!(s.user.live_instances().await?.is_empty());
        s.aws().keep_host(&host, false);
        s.gone(OURS, "AWSMachine", &["one"]).await?;
        assert_eq!(live_hosts(s).await?, [""; 0]);
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn without_the_permission_a_zone_is_found_by_trying() -> anyhow::Result<()> {
        // With the usual periods: the lack of capacity in one zone has to be remembered until all others are tried.
        run_story(Story::new("zone-by-trying"), async |s| {
            s.new_manager().start().await?;
            s.cluster("dev").await?;
            s.aws().fault(Fault::on("DescribeCapacityReservations").error("UnauthorizedOperation"));
            let [others @ .., last] = s.network.zones.as_slice() else {
                bail!("the network has no zone");
            };
            for zone in others {
                let refused = Fault::on("RunInstances").in_zone(&zone.name);
                s.aws().fault(refused.error("ReservationCapacityExceeded"));
            }
            let reserved = format!("{INLINE}, capacityReservationId: cr-0123456789abcdef0");
            s.machine("one", "dev", &reserved).await?;
            let ready = s.machine_ready("one").await?;
            assert_eq!(text(&ready, "/status/failureDomain"), last.name);
            Ok(())
        })
    }

    #[test]
    fn a_machine_goes_to_the_zone_of_its_reservation_or_host() -> anyhow::Result<()> {
        story("capacity-zones", async |s| {
            s.cluster("dev").await?;
            let zones: Vec<&str> = s.network.zones.iter().map(|zone| zone.name.as_str()).collect();
            let [_, of_host, of_reservation] = zones[..] else {
                bail!("the network has the zones {zones:?}");
            };
            let allocate = s.user.ec2().allocate_hosts().instance_type("t3.large").quantity(1);
            let allocated = allocate.availability_zone(of_host).send().await?;
            let host = allocated.host_ids().first().context("no host was allocated")?;
            let reservation = "cr-0123456789abcdef0";
            s.aws().reserve_capacity(reservation, of_reservation);
            for (name, zone, capacity) in [
                ("host", of_host, format!("tenancy: host, hostID: {host}")),
                ("reservation", of_reservation, format!("capacityReservationId: {reservation}")),
            ] {
                s.machine(name, "dev", &format!("{INLINE}, {capacity}")).await?;
                let ready = s.machine_ready(name).await?;
                assert_eq!(text(&ready, "/status/failureDomain"), zone, "{name}");
            }

            let elsewhere = "cr-0123456789abcdef1";
            s.aws().reserve_capacity(elsewhere, "eu-west-1x");
            s.machine("nowhere", "dev", &format!("{INLINE}, capacityReservationId: {elsewhere}")).await?;
            let network = "NetworkReady";
            let said = s.condition("AWSMachine", "nowhere", network, "False", "NoSubnetInFailureDomain");
            let said = said.await?.message;
            let expected = format!("is in eu-west-1x, the zone of capacity reservation {elsewhere}");
            assert!(said.contains(&expected), "{said}");
            Ok(())
        })
    }

    #[test]
    fn a_lost_answer_allocates_no_second_host() -> anyhow::Result<()> {
        story("lost-host", async |s| {
            s.cluster("dev").await?;
            let lost = s.aws().fault(Fault::on("AllocateHosts").dropped_after_effect());
            s.machine("one", "dev", &format!("{INLINE}, {ALLOCATES}")).await?;
            eventually(WITHIN, "the record of a host", async || {
                let machine = s.get(OURS, "AWSMachine", "one").await?;
                let phase = at(&machine, "/status/dedicatedHost/phase");
                ensure!(phase == "Requested", "the phase is {phase}");
                ensure!(hosts(s).await?.len() == 1, "no call has reached EC2");
                Ok(())
            })
            .await?;
            s.manager().kill().await?;
            lost.lift();
            s.start_manager().await?;
            let ready = s.machine_ready("one").await?;
            let allocated = hosts(s).await?;
            assert_eq!(allocated.len(), 1, "{allocated:?}");
            assert_eq!(allocated[0].host_id(), Some(text(&ready, "/status/dedicatedHost/id")));
            s.delete(CORE, "Machine", "one").await?;
            s.gone(OURS, "AWSMachine", &["one"]).await?;
            assert_eq!(live_hosts(s).await?, [""; 0]);
            Ok(())
        })
    }
}
