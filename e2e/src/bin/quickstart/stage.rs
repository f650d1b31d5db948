//! The steps of the quickstart. Each step checks its result.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context, ensure};
use capa_api::meta::CONTROL_PLANE_LABEL;
use capa_e2e::{
    Brought, Flavor, Manager, TestEnvironment,
    clusterctl::{Clusterctl, ManagementCluster},
    detached::Detached,
    objects::{self, condition},
    user::{LoadBalancer, Network, NetworkPlan, User},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    CONTROL_PLANE, INSTANCE_TAKES, MORE_WORKERS, REGION, WITHIN, WORKERS, check,
    keep::Kept,
    plan, repair, report,
    screen::{self, Screen},
    watch::{CORE, Seen, Watch},
};

/// The name of the cluster.
const CLUSTER: &str = "demo";

/// The MachineDeployment of the template.
const DEPLOYMENT: &str = "demo-md-0";

/// The deregistration delay of the load balancer's targets in seconds: AWS's default is 300.
const DRAINING_SECONDS: u32 = 5;

/// What the user brings.
struct Brings {
    network: Network,
    load_balancer: LoadBalancer,
}

/// The manager under test, and what it works on.
pub(crate) struct Stage<'a> {
    flavor: Flavor,
    management: &'a ManagementCluster,
    environment: TestEnvironment,
    user: User,
    /// `None` if the manager creates the network.
    brings: Option<Brings>,
    /// The dump of what is in AWS before the cluster was created; null until then.
    before: Value,
    manager: Manager,
    watch: Watch,
}

impl<'a> Stage<'a> {
    pub(crate) async fn set(
        screen: &mut Screen,
        management: &'a ManagementCluster,
        flavor: Flavor,
    ) -> anyhow::Result<Self> {
        let environment = TestEnvironment::new(management.world().clone(), "quickstart").await?;
        let account = environment.aws();
        account.set_pending(INSTANCE_TAKES);
        account.set_shutting_down(INSTANCE_TAKES);
        account.set_nodes_report(true);
        let user = User::new(account, REGION).announcing(announce);

        let brings = if flavor.is_brought() {
            screen.section("Your part: a VPC and a load balancer, made with plain AWS calls and your own key")?;
            screen.say("Any tool would do, Terraform for one. The Name tags of these calls are left out here.")?;
            Some(bring(flavor, &user).await?)
        } else {
            screen.section("Your part: the instance profiles, made with plain AWS calls and your own key")?;
            None
        };
        user.create_instance_profiles().await?;

        screen.section("Our manager starts")?;
        screen.show(&format!("$ capa-rs manager --namespace={} …", environment.namespace()))?;
        let manager = environment.new_manager().start().await?;
        screen.say(
            "clusterctl has installed it. In place of a pod it runs as a process of this host, with the permissions \
             of its \
             ServiceAccount.",
        )?;
        let watch = Watch::new(&environment).await?;
        Ok(Self { flavor, management, environment, user, brings, before: Value::Null, manager, watch })
    }

    pub(crate) async fn bring_up(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        screen.section("You generate a cluster")?;
        let clusterctl = self.management.clusterctl();
        let (flavor, brought) = (self.flavor, self.brought());
        let with_variables = plan::with_variables(clusterctl, flavor, brought.as_ref(), screen).await?;
        let arguments = plan::generate(flavor);
        screen::command(&format!("$ clusterctl {} > .quickstart/demo.yaml", arguments.join(" ")));
        let namespace = format!("--target-namespace={}", self.environment.namespace());
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.push(&namespace);
        let manifest = with_variables.run(&arguments).await?;
        let path = plan::keep("demo.yaml", &manifest)?;

        if let (Some(prepared), Some(brought)) = (flavor.prepared(), &brought) {
            screen.section("What describes your infrastructure")?;
            flavor.prepare(brought).await?;
            screen.say(prepared)?;
        }
        if let Some(brings) = self.brings.as_ref().filter(|_| flavor.has_network_in_manifest()) {
            screen.section("You check what you have made, before anything depends on it")?;
            check::find_and_mend(screen, self.environment.aws(), &self.user, &brings.network, &path).await?;
        }
        if !flavor.is_brought() {
            screen.section("You look at what would be created, before anything is")?;
            check::show_plan(screen, self.environment.aws(), &path)?;
        }
        let before = self.user.dump().await?;

        screen.section("You apply the cluster")?;
        screen.show(&format!("$ kubectl apply -f {path}"))?;
        if let Some(infrastructure) = plan::excerpt(&manifest, flavor.describes()) {
            let what = if flavor.is_brought() { "you bring" } else { "is created" };
            screen.say(&format!("In it is the {}, which says what {what}:", flavor.describes()))?;
            screen.show("")?;
            screen.show(infrastructure)?;
        }
        self.environment.apply(&manifest).await?;
        if let Some(brought) = &brought {
            flavor.publish(brought).await?;
        }
        if let Some(published) = flavor.published() {
            screen.say(published)?;
        }
        self.before = before;

        screen.section("What is waited for, as the conditions say it")?;
        self.until(screen, "all nodes to be ready", |seen| is_up(seen, WORKERS)).await?;
        let zones = zones(&self.watch.look(screen).await?);
        ensure!(zones.len() == CONTROL_PLANE, "the control plane is in {zones:?} alone");
        report::kubectl_get(screen, &self.environment, &["machine", "awsmachine"])?;
        self.check_calls(CONTROL_PLANE + WORKERS)
    }

    fn brought(&self) -> Option<Brought<'_>> {
        let Brings { network, load_balancer } = self.brings.as_ref()?;
        Some(Brought { environment: &self.environment, user: &self.user, network, load_balancer, cluster: CLUSTER })
    }

    fn check_calls(&self, machines: usize) -> anyhow::Result<()> {
        report::check_calls(self.environment.aws(), self.flavor.is_brought(), machines)
    }

    pub(crate) async fn grow(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        screen.section("Two workers more")?;
        screen.show(&format!("$ kubectl scale machinedeployment {DEPLOYMENT} --replicas={MORE_WORKERS}"))?;
        let deployments = self.environment.api(CORE, "MachineDeployment").await?;
        let replicas = json!({"spec": {"replicas": MORE_WORKERS}});
        deployments.patch(DEPLOYMENT, &PatchParams::default(), &Patch::Merge(replicas)).await?;
        self.until(screen, "four workers to be ready", |seen| is_up(seen, MORE_WORKERS)).await?;
        self.check_calls(CONTROL_PLANE + MORE_WORKERS)
    }

    pub(crate) async fn heal(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        screen.section("An instance is killed, and a MachineHealthCheck replaces its machine")?;
        let machines = self.watch.look(screen).await?;
        let victim = workers(&machines).next().context("a worker")?.clone();
        let provider_id = victim.data.pointer("/spec/providerID").and_then(Value::as_str);
        let instance = provider_id.and_then(|id| id.rsplit('/').next()).context("an instance")?;
        self.user.terminate(instance).await?;
        let name = victim.name_any();
        self.until(screen, "another machine in its place", |seen| {
            is_up(seen, MORE_WORKERS) && workers(seen).all(|machine| machine.name_any() != name) && is_available(seen)
        })
        .await?;
        self.check_calls(CONTROL_PLANE + MORE_WORKERS + 1)
    }

    pub(crate) async fn repair(&self, screen: &mut Screen) -> anyhow::Result<()> {
        repair::route(screen, &self.environment, &self.user, CLUSTER).await
    }

    pub(crate) async fn look_around(&self, screen: &mut Screen) -> anyhow::Result<()> {
        screen.section("What clusterctl and the nodes show")?;
        let namespace = format!("--namespace={}", self.environment.namespace());
        let clusterctl: &Clusterctl = self.management.clusterctl();
        screen.show("$ clusterctl describe cluster demo")?;
        screen.show(clusterctl.run(&["describe", "cluster", "demo", &namespace]).await?.trim_end())?;
        let kubeconfig = self.kubeconfig().await?;
        let endpoints = self.management.world().endpoint_proxy();
        screen.show("\n$ clusterctl get kubeconfig demo > .quickstart/demo.kubeconfig")?;
        screen.show("$ kubectl --kubeconfig .quickstart/demo.kubeconfig get nodes")?;
        let nodes = report::kubectl_through(Some(&endpoints), &kubeconfig, &["get", "nodes"])?;
        screen.show(nodes.trim_end())?;
        let listed = nodes.lines().skip(1).count();
        ensure!(listed == CONTROL_PLANE + MORE_WORKERS, "there are {listed} nodes");
        Ok(())
    }

    /// A kubeconfig of the cluster, in a file for the reader.
    async fn kubeconfig(&self) -> anyhow::Result<PathBuf> {
        let namespace = format!("--namespace={}", self.environment.namespace());
        let clusterctl = self.management.clusterctl();
        let kubeconfig = clusterctl.run(&["get", "kubeconfig", "demo", &namespace]).await?;
        Ok(plan::repository().join(plan::keep("demo.kubeconfig", &kubeconfig)?))
    }

    pub(crate) async fn take_down(mut self, screen: &mut Screen) -> anyhow::Result<()> {
        screen.section("You delete the cluster")?;
        screen.show("$ kubectl delete cluster demo")?;
        let clusters = self.environment.api(CORE, "Cluster").await?;
        clusters.delete("demo", &DeleteParams::default()).await?;
        self.until(screen, "all objects to be gone", |seen| seen.values().all(Vec::is_empty)).await?;

        screen.section("What is left")?;
        let instances = self.user.live_instances().await?;
        ensure!(instances.is_empty(), "instances are left: {instances:?}");
        screen.say("Instances: none.")?;
        if let Some(brings) = &self.brings {
            let targets = self.user.targets(&brings.load_balancer.target_group_arn).await?;
            ensure!(targets.is_empty(), "targets are left: {targets:?}");
            screen.say("Targets of your load balancer: none.")?;
        }
        let after = self.user.dump().await?;
        report::check_untouched(&self.before, &after)?;
        let parts = report::size(&self.before);
        screen.say(&if self.flavor.is_brought() {
            format!(
                "What you own: all {parts} parts of it (VPC, subnets, route tables, security groups, load balancer and \
                 so on), with all their fields and tags, are as they were before our manager started."
            )
        } else {
            format!(
                "Of the network: nothing. The {parts} parts that were in AWS before the cluster, with all their fields \
                 and tags, are as they were."
            )
        })?;

        screen.section("What was asked of AWS")?;
        report::show_calls(screen, self.environment.aws())?;
        let machines = CONTROL_PLANE + MORE_WORKERS + usize::from(self.flavor.has_health_checks());
        self.check_calls(machines)?;
        screen.show("")?;
        if self.flavor.is_brought() {
            screen.say("The manager launched, registered, deregistered and terminated, and changed nothing else.")?;
        }
        report::show_writes(screen, &self.environment, machines)?;
        let used = self.manager.cpu_time()?;
        screen.say(&format!(
            "Its memory: {} MiB at most; its share of one core's time: {:.1} s.",
            self.manager.memory()?.peak >> 20,
            used.as_secs_f32()
        ))?;
        self.environment.finish().await
    }

    pub(crate) async fn keep(self, screen: &mut Screen, detached: &Detached) -> anyhow::Result<()> {
        let world = self.management.world();
        let kubeconfig = world.admin_kubeconfig();
        let folder = kubeconfig.parent().context("the kubeconfig lies in a folder")?;
        let stop = folder.join("stop");
        let namespace = self.environment.namespace();
        report::kubectl(kubeconfig, &["config", "set-context", "--current", "--namespace", namespace])?;
        screen.section("It keeps running")?;
        let account = self.environment.aws();
        let kept = Kept {
            folder,
            kubeconfig,
            clusterctl: self.management.clusterctl().configuration(),
            endpoints: world.endpoint_proxy(),
            namespace,
            manager: Manager::program()?,
            aws: account.url(),
            key: account.user_key(),
            manager_key: account.key(),
            stop: &stop,
            deployment: DEPLOYMENT,
        };
        screen.show(&kept.directions())?;
        detached.settle(&folder.join("quickstart.log"))?;
        detached.until_stopped(&stop).await?;
        self.environment.finish().await?;
        world.stop().await
    }

    /// Prints the changes until a condition is reached.
    async fn until(&mut self, screen: &Screen, what: &str, reached: impl Fn(&Seen) -> bool) -> anyhow::Result<()> {
        let reached = self.watch.until(screen, WITHIN, reached).await;
        reached.with_context(|| format!("wait for {what}"))
    }
}

/// Makes the network and the load balancer of the user.
async fn bring(flavor: Flavor, user: &User) -> anyhow::Result<Brings> {
    let plan = NetworkPlan::new("yours", REGION, 3);
    let network = if flavor.has_network_in_manifest() {
        user.create_incomplete_network(&plan).await?
    } else {
        user.create_network(&plan).await?
    };
    let load_balancer = user.create_network_load_balancer(&network, "yours").await?;
    let group = &load_balancer.target_group_arn;
    user.set_deregistration_delay(group, DRAINING_SECONDS).await?;
    Ok(Brings { network, load_balancer })
}

/// Prints the command line of a user's change, without options that only set name tags.
fn announce(line: &str) {
    let named = line.split(" --tag-specifications").next().unwrap_or(line);
    screen::command(&format!("$ {named}"));
}

/// Whether all machines run, `wanted` workers among them, and their nodes are ready.
fn is_up(seen: &Seen, wanted: usize) -> bool {
    let machines = seen.get("Machine").map(Vec::as_slice).unwrap_or_default();
    machines.len() == CONTROL_PLANE + wanted && workers(seen).count() == wanted && machines.iter().all(is_usable)
}

/// Whether the cluster and all its machines are available according to Cluster API.
fn is_available(seen: &Seen) -> bool {
    let clusters = seen.get("Cluster").into_iter().flatten();
    let available = |cluster| condition(cluster, "Available").is_some_and(|condition| condition.status == "True");
    clusters.into_iter().all(available)
}

fn workers(seen: &Seen) -> impl Iterator<Item = &DynamicObject> {
    let machines = seen.get("Machine").into_iter().flatten();
    machines.filter(|machine| !machine.labels().contains_key(CONTROL_PLANE_LABEL))
}

/// The availability zones of the control plane machines.
fn zones(seen: &Seen) -> BTreeSet<String> {
    let machines = seen.get("Machine").into_iter().flatten();
    let planes = machines.filter(|machine| machine.labels().contains_key(CONTROL_PLANE_LABEL));
    let zone = |machine: &DynamicObject| {
        machine.data.pointer("/status/failureDomain").and_then(Value::as_str).map(str::to_owned)
    };
    planes.filter_map(zone).collect()
}

/// Whether a machine is ready and stays.
fn is_usable(machine: &DynamicObject) -> bool {
    machine.metadata.deletion_timestamp.is_none() && objects::is_ready(machine)
}
