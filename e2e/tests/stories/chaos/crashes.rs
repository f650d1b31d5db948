//! A manager that is killed at critical moments. The bootstrap data of its machines is in Secrets Manager, and no
//! instance fetches it.

use capa_e2e::aws_proxy::Fault;
use capa_e2e::fixtures;

use super::super::scenario::{tell, template};
use super::{ALL_WITHIN, ANSWER, Chaos, HIDDEN, all_seeds, seed};
use capa_e2e::Story;

const MACHINES: u32 = 50;
const KILLS: usize = 8;

#[test]
fn a_manager_killed_eight_times_doubles_and_leaves_nothing() -> anyhow::Result<()> {
    crashes(seed()?)
}

mod long_stories {
    #[test]
    fn a_manager_killed_in_mid_launch_never_doubles_an_instance() -> anyhow::Result<()> {
        super::all_seeds(super::crashes)
    }
}

fn crashes(seed: u64) -> anyhow::Result<()> {
    let mut chaos = Chaos::new("crashes", seed);
    tell(Story::new("crashes"), async |s| {
        let aws = s.aws();
        aws.set_hidden(HIDDEN);
        for action in ["CreateSecret", "RunInstances", "DeleteSecret"] {
            aws.fault(Fault::on(action).delay(ANSWER));
        }
        let builder = s.new_manager();
        let mut manager = builder.start().await?;
        s.cluster("dev").await?;
        let of_service = template("workers", "").replace("insecureSkipSecretsManager: true", "");
        s.bootstrap_secret("workers").await?;
        s.apply(&of_service).await?;
        s.apply(&fixtures::machine_deployment("workers", "dev", MACHINES))
            .await?;
        let mut unanswered = Vec::new();
        for _ in 0..KILLS {
            let at_least = chaos.moments.usize(1..=3);
            unanswered.push(s.pause_in_mid_launch(&manager, at_least).await?);
            manager.kill().await?;
            manager = builder.start().await?;
        }
        s.machines_ready_within(MACHINES as usize, ALL_WITHIN).await?;
        let live = s.ensure_one_instance_each().await?;
        let (launched, machines) = (s.ever_launched().len(), s.machines_ever_launched().len());
        s.delete_all_machines().await?;
        let left = s.user.live_instances().await?.len();
        let secrets = s.user.secrets().await?.len();
        let stored = s.aws().manager_journal().of("CreateSecret").len();
        let calls = s.calls();
        chaos.report(&format!(
            "{MACHINES} machines, {KILLS} kills with {unanswered:?} launches unanswered, {} RunInstances \
         sent, {launched} instances launched for {machines} AWSMachines, {live} live, {left} left after \
         deletion; {stored} CreateSecret sent, {secrets} secrets left; calls: {calls:?}",
            s.launches().len(),
        ))?;
        assert_eq!((launched, live, left), (machines, MACHINES as usize, 0));
        assert!(stored >= machines, "{stored} secrets for {machines} machines");
        assert_eq!(secrets, 0, "secrets are left");
        Ok(())
    })
}
