//! Credentials that are replaced by those of another account.

use anyhow::ensure;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{Story, eventually, objects};
use kube::ResourceExt as _;

use super::super::machines::{INLINE, condition_of, text};
use super::super::scenario::{CORE, OURS, WITHIN, run_story};
use super::{ANSWER, Chaos};

/// The divisor of the real periods.
const DIVISOR: u32 = 60;

mod long_stories {
    #[test]
    fn credentials_of_another_account_never_do_harm() -> anyhow::Result<()> {
        super::switched()
    }
}

fn switched() -> anyhow::Result<()> {
    let mut chaos = Chaos::new("switched account")?;
    run_story(Story::new("switched"), async |s| {
        let (aws, other) = (s.aws(), s.environment.world().aws().account());
        let manager = s.new_manager().flag(format!("--timing-divisor={DIVISOR}"));
        // The Secret is not watched: the manager notices a rotation at the next pass over a machine.
        let manager = manager.flag("--sync-period=1s").start().await?;
        let identity = s.namespace();
        s.static_identity(identity, "{}", aws.key()).await?;
        s.owned_with_identity("dev", "AWSClusterStaticIdentity", identity).await?;
        s.infrastructure_provisioned("dev").await?;
        let steady = chaos.moments.usize(2..=4);
        for number in 0..steady {
            s.machine(&format!("steady-{number}"), "dev", INLINE).await?;
        }
        s.machine("doomed", "dev", INLINE).await?;
        s.machines_ready(steady + 1).await?;

        // One launch is under way when the credentials change, and one deletion follows immediately.
        let held = aws.fault(Fault::on("RunInstances").delay(ANSWER));
        s.machine("fresh", "dev", INLINE).await?;
        aws.some_unanswered_launches(1, WITHIN).await?;
        s.identity_secret(identity, other.key()).await?;
        s.begin_deletion(CORE, "Machine", "doomed").await?;
        let (all, before) = (steady + 2, s.ever_launched());
        eventually(WITHIN, "every machine to say that its account is another", async || {
            for machine in s.machines().await? {
                let identity = condition_of(&machine, "IdentityReady")?;
                ensure!(
                    identity.status == "False" && identity.reason == "AccountMismatch",
                    "{} says {identity:?}",
                    machine.name_any()
                );
            }
            Ok(())
        })
        .await?;
        let looks = manager.passes("awsmachine").await?;
        eventually(WITHIN, "looks at instances that AWS does not show", async || {
            ensure!(manager.passes("awsmachine").await? > looks + 10.0, "not looked at often enough");
            Ok(())
        })
        .await?;
        let machines = s.machines().await?;
        assert_eq!(machines.len(), all, "no machine is gone, not even the deleted one");
        for machine in &machines {
            let instance = objects::condition(machine, "InstanceReady");
            let reason = instance.map(|condition| condition.reason).unwrap_or_default();
            ensure!(
                !["Terminated", "NotFound", "Terminating"].contains(&reason.as_str()),
                "{} says {reason}",
                machine.name_any()
            );
        }
        assert_eq!(s.user.live_instances().await?.len(), all);
        let elsewhere = other.manager_journal();
        assert!(elsewhere.mutating().is_empty(), "{elsewhere}");
        assert!(!elsewhere.is_empty(), "no call used the other account's key");

        held.lift();
        s.identity_secret(identity, aws.key()).await?;
        s.gone(OURS, "AWSMachine", &["doomed"]).await?;
        let machines = s.machines_ready(all - 1).await?;
        assert!(machines.iter().all(|machine| before.contains(text(machine, "/status/launch/instanceID"))));
        let live = s.ensure_one_instance_each().await?;
        chaos.report(&format!(
            "{all} machines, {} instances launched, {} calls in the other account ({} that \
         change something), {live} live after the credentials came back and one machine was deleted",
            s.ever_launched().len(),
            elsewhere.len(),
            elsewhere.mutating().len(),
        ))?;
        assert_eq!((s.ever_launched().len(), live), (all, all - 1));
        Ok(())
    })
}
