//! The network of a managed cluster, created and deleted while the calls of each action that changes AWS fail.

mod long_stories {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use anyhow::ensure;
    use capa_e2e::aws_proxy::{Fault, InjectedFault};
    use capa_e2e::inventory::Fact;
    use capa_e2e::{ManagerBuilder, Story, eventually, mostly_waits};

    use crate::stories::managed_network::{is_complete, managed};
    use crate::stories::scenario::{CORE, FASTER, OURS, Scenario, WITHIN, run_story};

    /// How long an answer is held back that the manager does not live to see.
    const HELD: Duration = Duration::from_mins(1);

    /// The attempts that the SDK makes of a call that can be repeated.
    const ATTEMPTS: usize = 3;
    /// The most calls of one cluster at a time.
    const AT_ONCE: usize = 8;

    /// Creates and deletes the cluster. Returns what AWS had between.
    async fn life(s: &Scenario) -> anyhow::Result<BTreeSet<Fact>> {
        let before = s.user.dump().await?;
        s.owned("dev", &managed()).await?;
        is_complete(s).await?;
        let built = s.content().await?;
        s.delete(CORE, "Cluster", "dev").await?;
        s.gone(OURS, "AWSCluster", &["dev"]).await?;
        s.has_left_nothing(&before).await?;
        Ok(built)
    }

    /// Kills and starts the manager each time that further faults are met, until each is.
    async fn kills(
        s: &Scenario,
        builder: &ManagerBuilder<'_>,
        faults: &[(String, InjectedFault)],
    ) -> anyhow::Result<()> {
        let mut met = 0;
        while met < faults.len() {
            met = eventually(WITHIN, "the next action to be called", async || {
                let now = faults.iter().filter(|(_, fault)| fault.hits() > 0).count();
                ensure!(now > met, "{met} of {} were called", faults.len());
                Ok(now)
            })
            .await?;
            s.manager().kill().await?;
            builder.start().await?;
        }
        Ok(())
    }

    /// What happens to the calls of each action.
    #[derive(Clone, Copy)]
    enum Trouble {
        /// As many calls meet the fault as it takes for one to meet it in each attempt of the SDK.
        EachAttempt,
        /// One call meets the fault.
        Once,
        /// One call meets the fault, and the manager is killed meanwhile.
        Kill,
    }

    /// The cluster becomes the same, and leaves as little, if the calls of each action meet this fault.
    fn survives(story: &'static str, trouble: Trouble, fault: impl Fn(&str) -> Fault) -> anyhow::Result<()> {
        mostly_waits();
        run_story(Story::new(story), async |s| {
            let builder = s.new_manager().flag(FASTER);
            builder.start().await?;
            let undisturbed = life(s).await?;
            let actions = s.aws().manager_journal().mutating().counts().into_iter();
            let faults = actions.map(|(action, calls)| {
                let times = match trouble {
                    Trouble::EachAttempt => calls.min(AT_ONCE) * ATTEMPTS,
                    Trouble::Once | Trouble::Kill => 1,
                };
                let injected = s.aws().fault(fault(&action).times(times as u64));
                (action, injected)
            });
            let faults: Vec<(String, InjectedFault)> = faults.collect();
            let killed = async || match trouble {
                Trouble::Kill => kills(s, &builder, &faults).await,
                Trouble::EachAttempt | Trouble::Once => Ok(()),
            };
            let (disturbed, ()) = tokio::try_join!(life(s), killed())?;
            let spared = faults.iter().filter(|(_, fault)| fault.hits() == 0);
            let spared: Vec<&String> = spared.map(|(action, _)| action).collect();
            ensure!(spared.is_empty(), "these actions met no fault: {spared:?}");
            let lost: Vec<&Fact> = undisturbed.difference(&disturbed).collect();
            let more: Vec<&Fact> = disturbed.difference(&undisturbed).collect();
            ensure!(lost.is_empty() && more.is_empty(), "lost: {lost:#?}\nmore: {more:#?}");
            Ok(())
        })
    }

    #[test]
    fn a_network_survives_answers_lost_by_each_action() -> anyhow::Result<()> {
        survives("faults-answer", Trouble::EachAttempt, |action| Fault::on(action).dropped_after_effect())
    }

    #[test]
    fn a_network_survives_requests_lost_by_each_action() -> anyhow::Result<()> {
        survives("faults-request", Trouble::EachAttempt, |action| Fault::on(action).dropped_before_effect())
    }

    #[test]
    fn a_network_survives_a_throttle_of_each_action() -> anyhow::Result<()> {
        survives("faults-throttle", Trouble::Once, |action| Fault::on(action).error("RequestLimitExceeded"))
    }

    #[test]
    fn a_network_survives_a_refusal_of_each_action() -> anyhow::Result<()> {
        survives("faults-refusal", Trouble::Once, |action| Fault::on(action).error("UnauthorizedOperation"))
    }

    #[test]
    fn a_network_survives_a_crash_after_each_action() -> anyhow::Result<()> {
        survives("faults-crash-after", Trouble::Kill, |action| Fault::on(action).delay(HELD))
    }

    #[test]
    fn a_network_survives_a_crash_before_each_action() -> anyhow::Result<()> {
        survives("faults-crash-before", Trouble::Kill, |action| Fault::on(action).delay(HELD).dropped_before_effect())
    }
}
