//! Two managers that share the objects of a management cluster and the request rates of an AWS account, as
//! docs/scale.md installs them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use capa_e2e::aws_proxy::AccessKey;
use capa_e2e::{Manager, Story, eventually_by_polling, fixtures, kustomize, mostly_waits, objects};
use futures::future::try_join_all;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::machines::INLINE;
use super::scenario::{CORE, EVERY_NAMESPACE, OURS, Scenario, WITHIN, run_story, settled};

/// The label that `--watch-filter` selects by.
const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

/// The machines of each shard.
const MACHINES: usize = 5;

/// The shares of AWS's rates that a manager uses: `--aws-rate-share` and `--aws-launch-rate-share`.
type Shares = [&'static str; 2];
/// The defaults, which fit a manager that is alone in an account.
const WHOLE: Shares = ["0.5", "1"];
/// Half of them, as docs/scale.md gives them to each of two shards.
const HALF: Shares = ["0.25", "0.5"];

/// Gives a cluster with its machines of these numbers the label of another shard: its manager continues with them, and
/// neither manager changes anything in AWS. The first manager leaves them alone from then on.
async fn moves(scenario: &Scenario, from: &Shard, to: &Shard, machines: Range<usize>) -> anyhow::Result<()> {
    let mark = scenario.aws().mark();
    let names: Vec<String> = machines.map(|number| from.machine(number)).collect();
    let machines = names.iter().map(|name| ("AWSMachine", "awsmachine", name.as_str()));
    let moved: Vec<_> = [("AWSCluster", "awscluster", from.name)].into_iter().chain(machines).collect();
    for (kind, _, name) in &moved {
        let label = json!({"metadata": {"labels": {WATCH_FILTER: to.name}}});
        scenario.patch(OURS, kind, name, label).await?;
    }
    for (_, controller, name) in &moved {
        eventually_by_polling(WITHIN, &format!("the other shard to look at {name}"), async || {
            ensure!(!to.manager.looked_at(controller, name)?.is_empty(), "it has no pass over {name}");
            Ok(())
        })
        .await?;
    }
    let changes = scenario.aws().journal_since(mark).mutating();
    ensure!(changes.is_empty(), "{changes}");

    let machine = names.first().context("no machine")?;
    let instance = scenario.launched(machine).await?;
    let version = scenario.get(OURS, "AWSMachine", machine).await?.resource_version().context("a version")?.parse()?;
    scenario.begin_deletion(CORE, "Machine", machine).await?;
    scenario.gone(OURS, "AWSMachine", &[machine]).await?;
    let changes = scenario.aws().journal_since(mark).mutating();
    let of_first = changes.by(&from.key.access_key_id);
    ensure!(of_first.is_empty(), "{of_first}");
    let changes = changes.distinct();
    let [termination] = changes.calls() else { bail!("{changes}") };
    ensure!(termination.access_key_id == to.key.access_key_id, "{changes}");
    ensure!(termination.action == "TerminateInstances" && termination.values("InstanceId") == [instance], "{changes}");
    let looked_at = from.manager.looked_at("awsmachine", machine)?;
    ensure!(looked_at.iter().all(|seen| *seen < version), "{} looked at version {version}: {looked_at:?}", from.name);
    Ok(())
}

/// A manager for the objects with one value of the label, which calls AWS with a key of its own.
struct Shard {
    name: &'static str,
    key: AccessKey,
    manager: Manager,
}

impl Shard {
    /// Starts the manager of the shard with the flags of `config/shard`, and with the permissions on its Lease there.
    async fn start(scenario: &Scenario, name: &'static str, shares: Shares) -> anyhow::Result<Self> {
        let key = scenario.aws().another_key();
        let mut builder = scenario.new_manager().flag(EVERY_NAMESPACE).leader_election().credentials(key.clone());
        for object in objects::parse(&rendered(name, shares)?)? {
            if object.types.as_ref().is_some_and(|types| types.kind == "Deployment") {
                for flag in own_flags(&object)? {
                    builder = builder.flag(flag);
                }
            } else {
                permit(scenario, object).await?;
            }
        }
        let manager = builder.start().await?;
        Ok(Self { name, key, manager })
    }

    /// Applies a cluster with the label, and waits until it is provisioned.
    async fn cluster(&self, scenario: &Scenario) -> anyhow::Result<()> {
        self.apply(scenario, &scenario.unmanaged(self.name, "")).await?;
        scenario.apply(&fixtures::cluster(self.name, Some("AWSCluster"))).await?;
        scenario.bootstrap_secret(self.name).await?;
        scenario.infrastructure_provisioned(self.name).await
    }

    /// Applies the machines of these numbers.
    async fn machines(&self, scenario: &Scenario, numbers: Range<usize>) -> anyhow::Result<()> {
        for number in numbers {
            let machine = fixtures::machine(&self.machine(number), self.name, self.name, INLINE);
            self.apply(scenario, &machine).await?;
        }
        Ok(())
    }

    fn machine(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    /// Applies objects, those of this provider with the label of the shard.
    async fn apply(&self, scenario: &Scenario, yaml: &str) -> anyhow::Result<()> {
        for mut object in objects::parse(yaml)? {
            if object.types.as_ref().is_some_and(|types| types.api_version == OURS) {
                object.labels_mut().insert(WATCH_FILTER.to_owned(), self.name.to_owned());
            }
            objects::apply(&scenario.environment.client(), &object, scenario.namespace()).await?;
        }
        Ok(())
    }

    /// Checks that the manager leads by the Lease of its shard.
    async fn leads(&self, scenario: &Scenario) -> anyhow::Result<()> {
        let name = format!("controller-leader-elect-capa-{}", self.name);
        let lease = scenario.get("coordination.k8s.io/v1", "Lease", &name).await?;
        let holder = &lease.data["spec"]["holderIdentity"];
        ensure!(holder.as_str().is_some_and(|holder| !holder.is_empty()), "{lease:?}");
        let status = self.manager.metrics().await?.sum("leader_election_master_status", &[]);
        ensure!(status == Some(1.0), "leader_election_master_status is {status:?}");
        Ok(())
    }

    /// Checks that the manager has made a pass over its own object, and none over the object of another shard.
    fn looked_only_at(&self, controller: &str, own: &str, other: &str) -> anyhow::Result<()> {
        let looked_at = |name: &str| anyhow::Ok(!self.manager.looked_at(controller, name)?.is_empty());
        ensure!(looked_at(own)?, "{} has no pass over {own}", self.name);
        ensure!(!looked_at(other)?, "{} looked at {other}", self.name);
        Ok(())
    }

    /// Checks that the key of the shard has launched exactly the machines of these numbers, and has changed nothing
    /// else.
    fn launched_only(&self, scenario: &Scenario, numbers: Range<usize>) -> anyhow::Result<()> {
        let changes = scenario.aws().journal().by(&self.key.access_key_id).mutating();
        // A call that AWS throttles changes nothing, and a launch that is repeated is the same launch.
        let changes = changes.matching(|call| call.error.is_none()).distinct();
        let named: Vec<_> = changes.calls().iter().map(|call| call.tags("instance").get("Name").copied()).collect();
        let wanted: BTreeSet<String> = numbers.map(|number| self.machine(number)).collect();
        let launched: BTreeSet<String> = named.iter().flatten().map(|name| (*name).to_owned()).collect();
        ensure!(launched == wanted && named.len() == wanted.len(), "{}: {changes}", self.name);
        Ok(())
    }
}

/// The objects of `config/shard` for one value of the label and these shares, as clusterctl writes them.
fn rendered(name: &str, [rate_share, launch_rate_share]: Shares) -> anyhow::Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/shard");
    let mut yaml = kustomize(&folder)?;
    for (variable, value) in [
        (r#"CAPA_WATCH_FILTER:="""#, name),
        ("CAPA_WATCH_FILTER", name),
        ("CAPA_AWS_RATE_SHARE:=0.5", rate_share),
        ("CAPA_AWS_LAUNCH_RATE_SHARE:=1", launch_rate_share),
    ] {
        let variable = format!("${{{variable}}}");
        ensure!(yaml.contains(&variable), "{variable} is missing in:\n{yaml}");
        yaml = yaml.replace(&variable, value);
    }
    Ok(yaml)
}

/// The flags of a shard in its Deployment; the others are about its pod.
fn own_flags(deployment: &DynamicObject) -> anyhow::Result<Vec<String>> {
    let container = deployment.data.pointer("/spec/template/spec/containers/0");
    let container = container.context("the container")?;
    let arguments = container["args"].as_array().context("the arguments")?;
    let own = ["--watch-filter=", "--aws-rate-share=", "--aws-launch-rate-share=", "--leader-elect-resource-name="];
    let flags = arguments.iter().filter_map(Value::as_str);
    let flags: Vec<String> =
        flags.filter(|flag| own.iter().any(|name| flag.starts_with(name))).map(str::to_owned).collect();
    ensure!(flags.len() == own.len(), "the flags of a shard are {flags:?}");
    Ok(flags)
}

/// Applies a Role or a RoleBinding in the namespace of the story, where its managers have their Leases.
async fn permit(scenario: &Scenario, mut object: DynamicObject) -> anyhow::Result<()> {
    object.metadata.namespace = None;
    objects::apply(&scenario.environment.client(), &object, scenario.namespace()).await?;
    Ok(())
}

#[test]
fn the_label_of_a_shard_may_be_a_number() -> anyhow::Result<()> {
    let mut objects = objects::parse(&rendered("1", HALF)?)?.into_iter();
    let deployment = objects.find(|object| object.types.as_ref().is_some_and(|types| types.kind == "Deployment"));
    let flags = own_flags(&deployment.context("a Deployment")?)?;
    ensure!(flags.contains(&"--watch-filter=1".to_owned()), "{flags:?}");
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn two_shards_touch_their_own_and_no_other_object() -> anyhow::Result<()> {
        mostly_waits();
        run_story(Story::new("shards").in_its_own_world(&[]), async |s| {
            let (blue, green) = tokio::try_join!(Shard::start(s, "blue", HALF), Shard::start(s, "green", HALF))?;
            let shards = [&blue, &green];
            try_join_all(shards.map(|shard| shard.cluster(s))).await?;
            let machines = 0..MACHINES;
            try_join_all(shards.map(|shard| shard.machines(s, machines.clone()))).await?;
            s.machines_ready(2 * MACHINES).await?;

            for (shard, other) in [(&blue, &green), (&green, &blue)] {
                shard.leads(s).await?;
                shard.launched_only(s, machines.clone())?;
                shard.looked_only_at("awscluster", shard.name, other.name)?;
                for number in machines.clone() {
                    shard.looked_only_at("awsmachine", &shard.machine(number), &other.machine(number))?;
                }
            }

            // A shard without a manager waits, and the other one works on.
            blue.manager.stop().await?;
            let more = MACHINES..MACHINES + 1;
            try_join_all(shards.map(|shard| shard.machines(s, more.clone()))).await?;
            s.machine_ready(&green.machine(MACHINES)).await?;
            let waits = s.get(OURS, "AWSMachine", &blue.machine(MACHINES)).await?;
            ensure!(waits.data["status"].is_null() && waits.metadata.finalizers.is_none(), "{waits:?}");
            let again = Shard::start(s, "blue", HALF).await?;
            s.machine_ready(&again.machine(MACHINES)).await?;
            again.launched_only(s, more)?;
            moves(s, &green, &again, 0..MACHINES + 1).await
        })
    }

    /// docs/scale.md says so of shards that overlap by mistake.
    #[test]
    fn two_managers_of_the_same_machines_do_nothing_twice() -> anyhow::Result<()> {
        mostly_waits();
        run_story(Story::new("overlap").in_its_own_world(&[]), async |s| {
            let everything = s.new_manager().flag(EVERY_NAMESPACE).leader_election();
            let (everything, blue) = tokio::try_join!(everything.start(), Shard::start(s, "blue", HALF))?;
            blue.cluster(s).await?;
            blue.machines(s, 0..2 * MACHINES).await?;
            s.machines_ready(2 * MACHINES).await?;
            let names: Vec<String> = (0..2 * MACHINES).map(|number| blue.machine(number)).collect();
            for (manager, name) in
                [&everything, &blue.manager].into_iter().flat_map(|one| names.iter().map(move |name| (one, name)))
            {
                eventually_by_polling(WITHIN, "a pass of both managers", async || {
                    ensure!(!manager.looked_at("awsmachine", name)?.is_empty(), "a manager has none over {name}");
                    Ok(())
                })
                .await?;
            }
            ensure!(s.launched_once()?.len() == 2 * MACHINES, "{}", s.launches());

            // They agree: neither writes what the other one has written differently.
            let versions = async || {
                anyhow::Ok(s.machines().await?.iter().map(kube::ResourceExt::resource_version).collect::<Vec<_>>())
            };
            settled("the AWSMachines", Duration::from_secs(10), WITHIN, versions).await?;

            try_join_all(names.iter().map(|name| s.begin_deletion(CORE, "Machine", name))).await?;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            s.gone(OURS, "AWSMachine", &names).await?;
            ensure!(s.launched_once()? == s.terminated(), "{}", s.aws().manager_journal().mutating());
            Ok(())
        })
    }
}

/// What depends on real time, because AWS's rates do.
mod timed_stories {
    use super::*;

    /// The machines of each shard. They take 20 s of EC2's bucket of RunInstances.
    const MANY: usize = 22;

    /// Lets two shards with these shares launch and terminate their machines at once. Returns the calls that EC2's
    /// buckets refuse.
    async fn throttled(s: &Scenario, shares: Shares) -> anyhow::Result<usize> {
        let (blue, green) = tokio::try_join!(Shard::start(s, "blue", shares), Shard::start(s, "green", shares))?;
        let both = [&blue, &green];
        try_join_all(both.map(|shard| shard.cluster(s))).await?;
        let aws = s.aws();
        aws.throttle(1);
        let mark = aws.mark();
        try_join_all(both.map(|shard| shard.machines(s, 0..MANY))).await?;
        s.machines_ready_within(2 * MANY, 6 * WITHIN).await?;
        for shard in both {
            shard.launched_only(s, 0..MANY)?;
        }
        let names: Vec<String> = both.iter().flat_map(|shard| (0..MANY).map(|number| shard.machine(number))).collect();
        try_join_all(names.iter().map(|name| s.begin_deletion(CORE, "Machine", name))).await?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        s.gone_within(6 * WITHIN, OURS, "AWSMachine", &names).await?;
        let calls = aws.journal_since(mark);
        Ok(calls.matching(|call| call.error.as_deref() == Some("RequestLimitExceeded")).len())
    }

    #[test]
    fn two_shards_with_half_the_rates_keep_within_those_of_an_account() -> anyhow::Result<()> {
        run_story(Story::new("shard-rates").in_its_own_world(&[]), async |s| {
            let throttled = throttled(s, HALF).await?;
            // A computer that stands still for a second bunches calls together.
            ensure!(throttled <= 2, "{throttled} calls were throttled");
            Ok(())
        })
    }

    /// The control of the story above: with the shares of a manager that is alone, EC2 refuses calls.
    #[test]
    fn two_shards_with_the_whole_rates_each_exceed_those_of_an_account() -> anyhow::Result<()> {
        run_story(Story::new("whole-rates").in_its_own_world(&[]), async |s| {
            let throttled = throttled(s, WHOLE).await?;
            ensure!(throttled > 2, "only {throttled} calls were throttled");
            Ok(())
        })
    }
}
