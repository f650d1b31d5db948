//! The main job, live: a cluster with three control plane machines and workers comes up on a VPC that the user brought,
//! grows, heals, and goes again without a trace. Exits 0 only if everything held.
//!
//! `KEEP=1` stops before the deletion and leaves everything running.

mod news;
mod plan;
mod report;
mod screen;
mod stage;
mod watch;

use std::{io::Write as _, process::ExitCode, time::Duration};

use capa_e2e::{
    clusterctl::ManagementCluster,
    detached::{self, Detached, Part},
};

use crate::{screen::Screen, stage::Stage};

const REGION: &str = "eu-west-1";

/// Machines that the cluster begins with, and workers that it grows to.
const CONTROL_PLANE: usize = 3;
const WORKERS: usize = 2;
const MORE_WORKERS: usize = 4;

/// Longest wait for machines, on a busy machine with two cores.
const WITHIN: Duration = Duration::from_secs(600);

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
        "A cluster on a VPC that you bring: the real Cluster API, kubeadm's providers, clusterctl and our manager, \
         with \
         moto, a simulator of AWS's APIs, in place of AWS, and simulated nodes. Nothing leaves this host.",
    )?;

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

    let mut stage = Stage::set(&mut screen, &management).await?;
    stage.bring_up(&mut screen).await?;
    stage.grow(&mut screen).await?;
    stage.heal(&mut screen).await?;
    stage.look_around(&mut screen).await?;
    if let Some(detached) = detached {
        return stage.keep(&mut screen, &detached).await;
    }
    stage.take_down(&mut screen).await?;
    management.world().stop().await?;
    screen.say(&format!("Everything held. It took {:.0} s.", screen.seconds()))?;
    screen.say("`KEEP=1 make quickstart` stops before the deletion and leaves everything running to look around in.")
}
