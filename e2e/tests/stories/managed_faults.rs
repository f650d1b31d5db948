//! The network of a managed cluster, created and deleted while each action that changes AWS fails once.

mod long_stories {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use anyhow::ensure;
    use capa_e2e::aws_proxy::{Fault, InjectedFault};
    use capa_e2e::inventory::Fact;
    use capa_e2e::{ManagerBuilder, Story, eventually, mostly_waits};

    use crate::stories::managed_network::{is_complete, managed};
    use crate::stories::scenario::{CORE, FASTER, OURS, Scenario, WITHIN, tell};

    /// How long an answer is held back that the manager does not live to see.
    const HELD: Duration = Duration::from_mins(1);

    /// Creates and deletes the cluster. Returns what AWS had between.
    async fn life(s: &Scenario) -> anyhow::Result<BTreeSet<Fact>> {
        let before = s.content().await?;
        s.owned("dev", &managed()).await?;
        is_complete(s).await?;
        let built = s.content().await?;
        s.delete(CORE, "Cluster", "dev").await?;
        s.gone(OURS, "AWSCluster", &["dev"]).await?;
        ensure!(
            s.content().await? == before,
            "something is left, or something of the user is gone"
        );
        Ok(built)
    }

    /// Kills and starts the manager each time that further faults are met, until each is.
    async fn kills(s: &Scenario, builder: &ManagerBuilder<'_>, faults: &[InjectedFault]) -> anyhow::Result<()> {
        let mut met = 0;
        while met < faults.len() {
            met = eventually(WITHIN, "the next action to be called", async || {
                let now = faults.iter().filter(|fault| fault.hits() > 0).count();
                ensure!(now > met, "{met} of {} were called", faults.len());
                Ok(now)
            })
            .await?;
            s.manager().kill().await?;
            builder.start().await?;
        }
        Ok(())
    }

    /// The cluster becomes the same, and leaves as little, if each action meets this fault once.
    fn survives(story: &'static str, is_fatal: bool, fault: impl Fn(&str) -> Fault) -> anyhow::Result<()> {
        mostly_waits();
        tell(Story::new(story), async |s| {
            let builder = s.new_manager().flag(FASTER);
            builder.start().await?;
            let undisturbed = life(s).await?;
            let actions = s.aws().manager_journal().mutating().counts().into_keys();
            let faults: Vec<InjectedFault> = actions.map(|action| s.aws().fault(fault(&action).times(1))).collect();
            let killed = async || {
                if is_fatal {
                    kills(s, &builder, &faults).await
                } else {
                    Ok(())
                }
            };
            let (disturbed, ()) = tokio::try_join!(life(s), killed())?;
            ensure!(
                faults.iter().all(|fault| fault.hits() == 1),
                "an action was called in one life only"
            );
            let lost: Vec<&Fact> = undisturbed.difference(&disturbed).collect();
            let more: Vec<&Fact> = disturbed.difference(&undisturbed).collect();
            ensure!(lost.is_empty() && more.is_empty(), "lost: {lost:#?}\nmore: {more:#?}");
            Ok(())
        })
    }

    #[test]
    fn a_network_survives_an_answer_lost_by_each_action() -> anyhow::Result<()> {
        survives("faults-answer", false, |action| {
            Fault::on(action).dropped_after_effect()
        })
    }

    #[test]
    fn a_network_survives_a_request_lost_by_each_action() -> anyhow::Result<()> {
        survives("faults-request", false, |action| {
            Fault::on(action).dropped_before_effect()
        })
    }

    #[test]
    fn a_network_survives_a_throttle_of_each_action() -> anyhow::Result<()> {
        survives("faults-throttle", false, |action| Fault::on(action).error("Throttling"))
    }

    #[test]
    fn a_network_survives_a_refusal_of_each_action() -> anyhow::Result<()> {
        survives("faults-refusal", false, |action| {
            Fault::on(action).error("UnauthorizedOperation")
        })
    }

    #[test]
    fn a_network_survives_a_crash_after_each_action() -> anyhow::Result<()> {
        survives("faults-crash-after", true, |action| Fault::on(action).delay(HELD))
    }

    #[test]
    fn a_network_survives_a_crash_before_each_action() -> anyhow::Result<()> {
        survives("faults-crash-before", true, |action| {
            Fault::on(action).delay(HELD).dropped_before_effect()
        })
    }
}
