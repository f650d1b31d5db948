//! The main job, live: three machines of a MachineDeployment come up on a VPC that the user brought, and go again
//! without a trace. Exits 0 only if everything held.
//!
//! `KEEP=1` stops half way, with everything up, and leaves it running.

mod manifest;
mod news;
mod report;
mod screen;
mod watch;

use std::{io::Write as _, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use capa_e2e::{
    Manager, TestEnvironment, World,
    detached::{self, Detached, Part},
    user::{NetworkPlan, User},
};
use kube::api::DeleteParams;

use crate::{
    screen::Screen,
    watch::{CORE, Seen, Watch},
};

const REGION: &str = "eu-west-1";

/// Machines of the MachineDeployment in the template.
const MACHINES: usize = 3;

/// Longest wait for machines, on a busy machine with two cores.
const WITHIN: Duration = Duration::from_secs(180);

/// How long an instance takes to start and to end here: long enough to see that it is waited for.
const INSTANCE_TAKES: Duration = Duration::from_secs(4);

fn main() -> anyhow::Result<ExitCode> {
    let keep = std::env::var_os("KEEP").is_some_and(|keep| !keep.is_empty() && keep != "0");
    let detached = match keep.then(detached::run).transpose()? {
        Some(Part::First(code)) => return Ok(code),
        Some(Part::Second(detached)) => Some(detached),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(detached));
    if let Err(error) = &outcome {
        // Not by returning it: with a backtrace the reason would scroll away.
        writeln!(std::io::stderr(), "\nThe quickstart failed: {error:#}")?;
    }
    Ok(ExitCode::from(u8::from(outcome.is_err())))
}

async fn run(detached: Option<Detached>) -> anyhow::Result<()> {
    let mut screen = Screen::new();
    screen.introduce(
        "Three machines on a VPC that you bring: the real Cluster API core and our manager, with moto, a simulator \
         of the EC2 API, in place of AWS. Nothing leaves this host.",
    )?;

    screen.section("The local world starts")?;
    let world = Arc::new(World::start().await?);
    let environment = world.test("quickstart").await?;
    screen.say("etcd, kube-apiserver, kube-controller-manager, Cluster API core, moto")?;

    let stage = Stage::set(&mut screen, environment).await?;
    let mut watch = Watch::new(&stage.environment).await?;
    stage.bring_up(&mut screen, &mut watch).await?;
    if let Some(detached) = detached {
        return stage.keep(&mut screen, &world, &detached).await;
    }
    stage.take_down(&mut screen, &mut watch).await?;
    world.stop().await?;
    screen.say(&format!("Everything held. It took {:.0} s.", screen.seconds()))?;
    screen.say("`KEEP=1 make quickstart` stops before the deletion and leaves everything running to look around in.")
}

/// The user's network and our manager, ready for a cluster.
struct Stage {
    environment: TestEnvironment,
    user: User,
    manifest: String,
    /// The user's network, as it was before we came.
    before: serde_json::Value,
    manager: Manager,
}

impl Stage {
    async fn set(screen: &mut Screen, environment: TestEnvironment) -> anyhow::Result<Self> {
        let account = environment.aws();
        account.set_pending(INSTANCE_TAKES);
        account.set_shutting_down(INSTANCE_TAKES);
        let user = User::new(account, REGION).announcing(announce);

        screen.section("Your part: a VPC, made with plain AWS calls and your own key")?;
        screen.say("Any tool would do, Terraform for one. The Name tags of these calls are left out here.")?;
        let network = user.create_network(&NetworkPlan::new("yours", REGION, 3)).await?;
        let before = user.dump().await?;
        let manifest = manifest::write(&user, &network)?;

        screen.section("Our manager starts")?;
        environment.world().install_provider().await?;
        screen.say(
            "Installed from config/default: the CustomResourceDefinitions, a ServiceAccount and its permissions.",
        )?;
        screen.show(&format!("$ capa-rs manager --namespace={} …", environment.namespace()))?;
        let manager = environment.manager().start().await?;
        screen.say("It runs as a process of this host, with the permissions of that ServiceAccount, and is ready.")?;
        Ok(Self {
            environment,
            user,
            manifest,
            before,
            manager,
        })
    }

    async fn bring_up(&self, screen: &mut Screen, watch: &mut Watch) -> anyhow::Result<()> {
        screen.section("You apply a cluster and three machines")?;
        screen.show(&format!("$ kubectl apply -f {}", manifest::FILLED_IN))?;
        screen.say(&format!(
            "This is {} with the ids of your VPC: a Cluster, a MachineDeployment, its bootstrap Secret and \
             AWSMachineTemplate, and the AWSCluster, which says what you bring:",
            manifest::TEMPLATE
        ))?;
        screen.show("")?;
        screen.show(&manifest::excerpt(&self.manifest, "AWSCluster"))?;
        self.environment.apply(&self.manifest).await?;

        screen.section("What is waited for, as the conditions say it")?;
        watch
            .until(screen, WITHIN, machines_provisioned)
            .await
            .context("wait for the machines to be Provisioned")?;
        screen.say(
            "All three Machines are Provisioned. That is as far as it goes here: there is no computer behind an \
             instance of moto, so no node joins, and what looks at nodes stays Unknown below.",
        )?;

        screen.section("What kubectl shows, without the columns that are empty")?;
        report::kubectl_get(
            screen,
            &self.environment,
            &["cluster", "awscluster", "machinedeployment", "machine", "awsmachine"],
        )?;
        report::check_calls(self.environment.aws(), MACHINES, false)
    }

    async fn take_down(self, screen: &mut Screen, watch: &mut Watch) -> anyhow::Result<()> {
        let Self {
            environment,
            user,
            before,
            manager,
            ..
        } = self;
        screen.section("You delete the cluster")?;
        screen.show("$ kubectl delete cluster demo")?;
        let clusters = environment.api(CORE, "Cluster").await?;
        clusters.delete("demo", &DeleteParams::default()).await?;
        watch
            .until(screen, WITHIN, |seen| seen.values().all(Vec::is_empty))
            .await
            .context("wait for all objects to be gone")?;

        screen.section("What is left")?;
        let instances = user.live_instances().await?;
        ensure!(instances.is_empty(), "instances are left: {instances:?}");
        screen.say("Instances: none.")?;
        let after = user.dump().await?;
        report::check_untouched(&before, &after)?;
        screen.say(&format!(
            "Your network: all {} parts of it (VPC, subnets, route tables, security groups and so on), with all their \
             fields and tags, are as they were before our manager started.",
            report::size(&before)
        ))?;

        screen.section("What was asked of AWS")?;
        report::show_calls(screen, environment.aws())?;
        report::check_calls(environment.aws(), MACHINES, true)?;
        screen.show("")?;
        screen.say("The manager launched and terminated its instances and changed nothing else.")?;
        screen.say(&format!("Its memory: {} MiB at most.", manager.memory()?.peak >> 20))?;
        let status = manager.stop().await?;
        ensure!(status.success(), "the manager ended with {status}");
        environment.finish().await
    }

    async fn keep(self, screen: &mut Screen, world: &World, detached: &Detached) -> anyhow::Result<()> {
        let kubeconfig = world.admin_kubeconfig();
        let folder = kubeconfig.parent().context("the kubeconfig lies in a folder")?;
        let stop = folder.join("stop");
        let namespace = self.environment.namespace();
        report::kubectl(
            kubeconfig,
            &["config", "set-context", "--current", "--namespace", namespace],
        )?;
        screen.section("It keeps running")?;
        let account = self.environment.aws();
        let key = account.user_key();
        screen.show(&format!(
            "Look around, in this folder:
  export KUBECONFIG={}
  {kubectl} get cluster,awscluster,machinedeployment,machine,awsmachine
  {kubectl} describe awsmachine
  {kubectl} scale machinedeployment md --replicas=5
  {kubectl} explain awscluster.spec

AWS, if you have its command line:
  export AWS_ENDPOINT_URL={} AWS_REGION={REGION}
  export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={}
  aws ec2 describe-instances

Logs:
  {}

The manager watches the namespace {namespace} alone. Stop everything:
  touch {}
",
            kubeconfig.display(),
            account.url(),
            key.access_key_id,
            key.secret_access_key,
            folder.join(namespace).join("manager-1.log").display(),
            stop.display(),
            kubectl = report::KUBECTL,
        ))?;
        detached.settle(&folder.join("quickstart.log"))?;
        detached.until_stopped(&stop).await?;
        self.manager.stop().await?;
        self.environment.finish().await?;
        world.stop().await
    }
}

/// Prints a change that the user makes, without the tags that only give names.
fn announce(line: &str) {
    let named = line.split(" --tag-specifications").next().unwrap_or(line);
    screen::command(&format!("$ {named}"));
}

fn machines_provisioned(seen: &Seen) -> bool {
    let machines = seen.get("Machine").map(Vec::as_slice).unwrap_or_default();
    machines.len() == MACHINES
        && machines.iter().all(|machine| {
            machine
                .data
                .pointer("/status/phase")
                .is_some_and(|phase| phase == "Provisioned")
        })
}
