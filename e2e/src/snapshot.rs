//! Interruptions of a world's control plane: restored to an earlier state, or without its API for a while.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

use crate::{api_server::DATA_FLAG, cluster_api, local_world::LocalWorld, supervised::Supervised};

const API_SERVER: &str = "kube-apiserver";

/// The programs that depend on the content of etcd, in the order of their starts.
const CONTROL_PLANE: [&str; 4] = ["etcd", API_SERVER, "kube-controller-manager", "cluster-api-core"];

/// The data of etcd at one moment.
#[derive(Debug)]
pub struct Snapshot {
    data: tempfile::TempDir,
}

impl LocalWorld {
    /// Copies etcd's data of one moment, like a snapshot of its disk.
    pub fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let data = tempfile::tempdir_in(self.directory.path())?;
        self.with(|processes| {
            let etcd = named(processes, "etcd")?;
            // A paused etcd changes no data. It repairs an unfinished write from its log at the next start.
            etcd.pause()?;
            let copied = copy(&data_of(etcd)?, data.path());
            etcd.resume()?;
            copied
        })?;
        Ok(Snapshot { data })
    }

    /// Kills the control plane, replaces etcd's data by the snapshot, and starts all programs again, as in the recovery
    /// of a management cluster. Other clients of the API, such as the manager under test, should end before.
    pub async fn restore(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let programs = self.with(|processes| {
            let (programs, others) = std::mem::take(processes)
                .into_iter()
                .partition::<Vec<_>, _>(|process| CONTROL_PLANE.contains(&process.name()));
            *processes = others;
            Ok(programs)
        })?;
        ensure!(programs.iter().map(Supervised::name).eq(CONTROL_PLANE), "the control plane does not run");
        let data = data_of(named(&programs, "etcd")?)?;
        let mut stopped = Vec::new();
        for program in programs.into_iter().rev() {
            stopped.push(program.kill_to_restart().await?);
        }
        fs::remove_dir_all(&data)?;
        copy(snapshot.data.path(), &data)?;
        let mut started = Vec::new();
        for program in stopped.into_iter().rev() {
            let mut process = program.start()?;
            match process.name() {
                API_SERVER => self.server.ready(&mut process).await?,
                "cluster-api-core" => cluster_api::ready(&mut process).await?,
                _ => {}
            }
            started.push(process);
        }
        self.with(|processes| {
            // Programs are stopped in the reverse order of their starts, and moto depends on no other program.
            processes.extend(started);
            Ok(())
        })
    }

    /// Kills kube-apiserver, runs `meanwhile`, and starts kube-apiserver again; returns when it serves.
    pub async fn without_api_server<T>(&self, meanwhile: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let (place, api_server) = self.with(|processes| {
            let mut names = processes.iter().map(Supervised::name);
            let place = names.position(|name| name == API_SERVER).context("kube-apiserver does not run")?;
            Ok((place, processes.remove(place)))
        })?;
        let stopped = api_server.kill_to_restart().await?;
        let done = meanwhile.await;
        let mut started = stopped.start()?;
        self.server.ready(&mut started).await?;
        self.with(|processes| {
            processes.insert(place, started);
            Ok(())
        })?;
        done
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Supervised>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut processes = self.processes.lock();
        work(&mut processes)
    }
}

fn named<'a>(processes: &'a [Supervised], name: &str) -> anyhow::Result<&'a Supervised> {
    let mut processes = processes.iter();
    processes.find(|process| process.name() == name).with_context(|| format!("{name} does not run"))
}

fn data_of(etcd: &Supervised) -> anyhow::Result<PathBuf> {
    let data = etcd.argument(DATA_FLAG).context("etcd has no data directory")?;
    Ok(PathBuf::from(data))
}

/// Copies the content of a folder, subfolders included.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("copy to {}", target.display()))?;
        }
    }
    Ok(())
}
