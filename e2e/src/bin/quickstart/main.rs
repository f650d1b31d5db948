//! The quickstart: a cluster with three control plane machines and workers comes up in a VPC that the user provides, or
//! that the provider creates, scales, replaces an unhealthy machine, and is deleted without leftovers. Exits 0 only if
//! every check succeeded.
//!
//! `KEEP=1` stops before the deletion and leaves everything running. `FLAVOR` chooses what describes the
//! infrastructure.

mod check;
mod keep;
mod news;
mod plan;
mod repair;
mod report;
mod screen;
mod stage;
mod watch;

use std::{io::Write as _, process::ExitCode, time::Duration};

use capa_e2e::{
    Flavor,
    clusterctl::ManagementCluster,
    detached::{self, Detached, Part},
};

use crate::{screen::Screen, stage::Stage};

const REGION: &str = "eu-west-1";

/// The control plane machines of the cluster, and the workers before and after scaling.
const CONTROL_PLANE: usize = 3;
const WORKERS: usize = 2;
const MORE_WORKERS: usize = 4;

/// The longest wait for machines, for a busy computer with two cores.
const WITHIN: Duration = Duration::from_secs(600);

/// The time that an instance takes to start and to terminate: long enough to show that the controllers wait for it.
const INSTANCE_TAKES: Duration = Duration::from_secs(4);

fn main() -> anyhow::Result<ExitCode> {
    let keep = std::env::var_os("KEEP").is_some_and(|keep| !keep.is_empty() && keep != "0");
    let flavor = match std::env::var("FLAVOR") {
        Ok(name) if !name.is_empty() => Flavor::parse(&name)?,
        _ => Flavor::UnmanagedMachineHealthCheck,
    };
    let detached = match keep.then(detached::run).transpose()? {
        Some(Part::First(code)) => return Ok(code),
        Some(Part::Second(detached)) => Some(detached),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(flavor, detached));
    if let Err(error) = &outcome {
        // Printed here rather than returned: with a backtrace the reason would scroll off the screen.
        writeln!(std::io::stderr(), "\nThe quickstart failed: {error:#}")?;
    }
    Ok(ExitCode::from(u8::from(outcome.is_err())))
}

async fn run(flavor: Flavor, detached: Option<Detached>) -> anyhow::Result<()> {
    let mut screen = Screen::new();
    let network = if flavor.is_brought() { "a VPC that you bring" } else { "a network that our manager creates" };
    screen.introduce(&format!(
        "A cluster on {network}: the real Cluster API, kubeadm's providers, clusterctl and our manager, with moto, a \
         simulator of AWS's APIs, in place of AWS, and simulated nodes. Nothing leaves this host."
    ))?;

    screen.section("A management cluster starts")?;
    let management = ManagementCluster::start().await?;
    screen.say("etcd, kube-apiserver, kube-controller-manager, and moto beside them")?;
    screen.show("$ export AWS_B64ENCODED_CREDENTIALS=Cg==")?;
    screen.show("$ clusterctl init --infrastructure aws-rs")?;
    management.init().await?;
    screen.say(
        "Cluster API core, the bootstrap and control plane providers of kubeadm, and ours, from a repository on disk",
    )?;
    management.world().start_nodes()?;

    let mut stage = Stage::set(&mut screen, &management, flavor).await?;
    stage.bring_up(&mut screen).await?;
    stage.grow(&mut screen).await?;
    if flavor.has_health_checks() {
        stage.heal(&mut screen).await?;
    }
    if !flavor.is_brought() {
        stage.repair(&mut screen).await?;
    }
    stage.look_around(&mut screen).await?;
    if let Some(detached) = detached {
        return stage.keep(&mut screen, &detached).await;
    }
    stage.take_down(&mut screen).await?;
    management.world().stop().await?;
    screen.say(&format!("Everything held. It took {:.0} s.", screen.seconds()))?;
    screen.say("`KEEP=1 make quickstart` stops before the deletion and leaves everything running to look around in.")
}
