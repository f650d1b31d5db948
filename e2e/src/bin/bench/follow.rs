//! Follows the AWSMachines by a watch: reading them again and again would be work for the kube-apiserver, which is
//! measured.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use capa_e2e::objects;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};

use crate::progress;

/// The time between two lines about the progress.
const REPORT_EVERY: Duration = Duration::from_secs(15);

/// The AWSMachines, as a watch shows them.
pub(crate) struct Follow {
    events: BoxStream<'static, watcher::Result<Event<DynamicObject>>>,
    /// Whether each machine is Ready.
    machines: BTreeMap<String, bool>,
    /// The machines of a listing that is not complete yet. A watch that begins again lists all machines.
    listed: BTreeMap<String, bool>,
}

/// How many machines there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) all: usize,
    pub(crate) ready: usize,
}

impl Follow {
    pub(crate) fn new(api: &Api<DynamicObject>) -> Self {
        let events = watcher(api.clone(), watcher::Config::default()).default_backoff();
        Self { events: events.boxed(), machines: BTreeMap::new(), listed: BTreeMap::new() }
    }

    /// Waits until the machines are as wanted. `what` completes the sentence "waited for …".
    pub(crate) async fn until(
        &mut self,
        what: &str,
        within: Duration,
        wanted: impl Fn(Count) -> bool,
    ) -> anyhow::Result<()> {
        let (began, mut reported) = (Instant::now(), Instant::now());
        while !wanted(self.count()) {
            if began.elapsed() > within {
                bail!("waited {} s for {what}, in vain: {:?}", within.as_secs(), self.count());
            }
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                let Count { all, ready } = self.count();
                let seconds = began.elapsed().as_secs();
                progress(&format!("  {seconds} s of waiting for {what}: {ready} of {all} machines are ready"));
            }
            let Ok(event) = tokio::time::timeout(Duration::from_secs(1), self.events.next()).await else {
                continue;
            };
            match event.context("the watch has ended")? {
                Ok(event) => self.apply(event),
                Err(error) => progress(&format!("  the watch begins again: {error}")),
            }
        }
        Ok(())
    }

    fn count(&self) -> Count {
        Count { all: self.machines.len(), ready: self.machines.values().filter(|ready| **ready).count() }
    }

    fn apply(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(machine) => {
                self.listed.insert(machine.name_any(), objects::is_ready(&machine));
            }
            Event::InitDone => self.machines = std::mem::take(&mut self.listed),
            Event::Apply(machine) => {
                self.machines.insert(machine.name_any(), objects::is_ready(&machine));
            }
            Event::Delete(machine) => {
                self.machines.remove(&machine.name_any());
            }
        }
    }
}
