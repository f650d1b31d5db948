//! Managed clusters beside CAPA: its own manager and this provider get the same specs, and what they build in AWS is
//! compared, with `docs/comparison.md` for what may differ.

mod specs;
mod table;

mod long_stories {
    use std::collections::BTreeSet;
    use std::fmt;
    use std::io::{Write as _, stderr};
    use std::sync::Arc;
    use std::time::Duration;

    use anyhow::ensure;
    use capa_e2e::aws_proxy::Journal;
    use capa_e2e::inventory::Fact;
    use capa_e2e::user::NetworkPlan;
    use capa_e2e::{LocalWorld, Story, TestEnvironment, eventually, mostly_waits};
    use serde_json::{Value, json};

    use super::specs::{CLUSTER, POOL, aws_clusters};
    use super::table::{Difference, differences, rows};
    use crate::stories::scenario::{CORE, OURS, REGION, Scenario, WITHIN, run_story, settled};

    /// The time in which a manager makes no call once it has nothing to do.
    const QUIET: Duration = Duration::from_secs(4);

    /// Calls of a manager.
    struct Calls {
        all: usize,
        writes: usize,
    }

    impl fmt::Display for Calls {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "{} calls, {} of them writes", self.all, self.writes)
        }
    }

    /// A provider's account, while it has a cluster of a spec.
    struct Side<'a> {
        scenario: &'a Scenario,
        before: BTreeSet<Fact>,
        /// The same with ids.
        dumped: Value,
        built: BTreeSet<Fact>,
        /// The calls to build it, in a pass over it once it is there, and to delete it.
        calls: Vec<Calls>,
    }

    async fn quiet(s: &Scenario) -> anyhow::Result<usize> {
        settled("the calls of the manager", QUIET, WITHIN, async || Ok(s.aws().manager_journal().len())).await
    }

    /// The calls since the first `from` ones.
    fn calls_since(s: &Scenario, from: usize) -> Calls {
        let journal: Journal = s.aws().manager_journal();
        let calls = journal.calls().iter().skip(from);
        let writes = calls.clone().filter(|call| call.is_mutating());
        Calls { writes: writes.count(), all: calls.count() }
    }

    impl<'a> Side<'a> {
        async fn builds(scenario: &'a Scenario, aws_cluster: &str) -> anyhow::Result<Self> {
            let before = scenario.content().await?;
            let dumped = scenario.user.dump().await?;
            let from = scenario.aws().manager_journal().len();
            scenario.owned(CLUSTER, aws_cluster).await?;
            scenario.infrastructure_provisioned(CLUSTER).await?;
            quiet(scenario).await?;
            let built = scenario.content().await?;
            ensure!(built.len() > before.len(), "nothing was built");
            let calls = vec![calls_since(scenario, from)];
            Ok(Self { scenario, before, dumped, built, calls })
        }

        /// Changes an annotation of the AWSCluster, which makes both providers look at all that they have built, and
        /// change nothing about it.
        async fn is_looked_at(&mut self) -> anyhow::Result<()> {
            let s = self.scenario;
            let from = s.aws().manager_journal().len();
            s.change(CLUSTER, json!({"metadata": {"annotations": {"example.org/look": "again"}}})).await?;
            eventually(WITHIN, "a call", async || {
                ensure!(s.aws().manager_journal().len() > from, "there is none");
                Ok(())
            })
            .await?;
            quiet(s).await?;
            self.calls.push(calls_since(s, from));
            ensure!(s.content().await? == self.built, "a pass over what is complete has changed it");
            Ok(())
        }

        /// Deletes the cluster; returns what is left.
        async fn deletes(&mut self) -> anyhow::Result<BTreeSet<Fact>> {
            let s = self.scenario;
            let from = s.aws().manager_journal().len();
            s.delete(CORE, "Cluster", CLUSTER).await?;
            s.gone(OURS, "AWSCluster", &[CLUSTER]).await?;
            self.calls.push(calls_since(s, from));
            s.content().await
        }
    }

    /// What differs while both have the cluster, and afterwards.
    async fn compare(what: &str, capa: (&Scenario, &str), here: (&Scenario, &str)) -> anyhow::Result<Vec<Difference>> {
        let (mut theirs, mut ours) = tokio::try_join!(Side::builds(capa.0, capa.1), Side::builds(here.0, here.1))?;
        // CAPA has left something of an earlier cluster.
        let before = differences(what, &theirs.before, &ours.before);
        let mut found = differences(what, &theirs.built, &ours.built);
        found.retain(|difference| !before.contains(difference));
        tokio::try_join!(theirs.is_looked_at(), ours.is_looked_at())?;
        ensure!(ours.calls[1].writes == 0, "{what}: this provider has written again");
        let (left_by_capa, _) = tokio::try_join!(theirs.deletes(), ours.deletes())?;
        here.0.has_left_nothing(&ours.dumped).await?;
        found.extend(differences(&format!("{what}, deleted"), &left_by_capa, &theirs.before));
        for (name, calls) in [("CAPA", &theirs.calls), ("here", &ours.calls)] {
            let calls: Vec<String> = calls.iter().map(Calls::to_string).collect();
            writeln!(stderr(), "compared: {what}: {name}: {}", calls.join("; "))?;
        }
        Ok(found)
    }

    /// Fails if a difference is in no row of the table, or a row explains none.
    fn are_explained(found: &[Difference]) -> anyhow::Result<()> {
        let rows = rows(include_str!("../../../../docs/comparison.md"));
        let is_new = |difference: &&Difference| !rows.iter().any(|row| row.explains(difference));
        let unexplained: Vec<String> = found.iter().filter(is_new).map(Difference::to_string).collect();
        ensure!(unexplained.is_empty(), "docs/comparison.md has no row for\n{}", unexplained.join("\n"));
        let unused = rows.iter().find(|row| !found.iter().any(|difference| row.explains(difference)));
        ensure!(unused.is_none(), "nothing is like this row of docs/comparison.md: {unused:?}");
        Ok(())
    }

    #[test]
    fn capa_builds_the_same_from_the_same_spec() -> anyhow::Result<()> {
        mostly_waits();
        run_story(Story::new("compared"), async |s| {
            let world = Arc::new(LocalWorld::start_beside(s.environment.world()).await?);
            let capa =
                Scenario::new(Arc::new(TestEnvironment::new(world.clone(), "compared").await?), "compared").await?;
            world.start_capa(capa.aws()).await?;
            s.new_manager().start().await?;
            // One address for each of three NAT gateways, and as many for the load balancer.
            for account in [s.aws(), capa.aws()] {
                account.add_address_pool(POOL, 6);
            }
            let second = NetworkPlan::new("second", REGION, 3);
            let (of_capa, ours) = tokio::try_join!(capa.user.create_network(&second), s.user.create_network(&second))?;
            let of_capa = aws_clusters([&capa.network, &of_capa]);
            let specs = of_capa.into_iter().zip(aws_clusters([&s.network, &ours]));
            let mut found = Vec::new();
            for ((what, theirs), (_, ours)) in specs {
                found.extend(compare(what, (&capa, &theirs), (s, &ours)).await?);
            }
            are_explained(&found)?;
            capa.environment.finish().await?;
            world.stop().await
        })
    }
}
