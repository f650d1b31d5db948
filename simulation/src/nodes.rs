//! The nodes: when an instance becomes one, and the rule that its bootstrap data is there until then.

use std::collections::BTreeSet;
use std::time::Duration;

use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_cloud::StoredSecret;
use capa_fake_aws::machines::LaunchedInstance;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::management_cluster::ManagementCluster;
use crate::outside::Outside;
use crate::time::after;

/// The time after its launch at which an instance fetches its bootstrap data and becomes a node.
pub(crate) const BOOT: Duration = Duration::from_secs(180);

/// The names of the provisioned machines whose instances have become nodes.
pub(crate) fn joined(of: ManagementCluster, outside: &Outside) -> Vec<String> {
    let machines = outside.server(of).stored.aws_machines.values();
    let provisioned = machines.filter(|machine| machine.status.as_ref().is_some_and(AWSMachineStatus::provisioned));
    let nodes = provisioned.filter(|machine| is_node(machine, outside));
    nodes.map(|machine| machine.name_any()).collect()
}

fn is_node(machine: &AWSMachine, outside: &Outside) -> bool {
    let instance = machine.spec.instance_id.as_deref();
    let instance = instance.and_then(|id| outside.aws.instance(id));
    instance.is_some_and(|instance| after(instance.launched_at, BOOT) <= outside.now)
}

/// The bootstrap data that was looked at.
#[derive(Default)]
pub(crate) struct DataRules {
    seen: BTreeSet<String>,
}

impl DataRules {
    /// Names the data that was deleted since the last look, although an instance may still fetch it.
    pub(crate) fn broken<'a>(
        &mut self,
        stored: &[StoredSecret],
        live: impl Iterator<Item = &'a LaunchedInstance>,
        now: Timestamp,
    ) -> Vec<String> {
        let is_stored = |name: &String| stored.iter().any(|data| data.name == *name);
        let deleted: Vec<String> = self.seen.iter().filter(|name| !is_stored(name)).cloned().collect();
        self.seen = stored.iter().map(|data| data.name.clone()).collect();
        if deleted.is_empty() {
            return Vec::new();
        }
        let booting = live.filter(|instance| now < after(instance.launched_at, BOOT));
        let uids = booting.filter_map(|instance| Some((instance, instance.request.client_token.rsplit_once('-')?.0)));
        uids.flat_map(|(instance, uid)| {
            let of_instance = deleted.iter().filter(move |name| name.contains(uid));
            of_instance.map(|name| format!("{name} was deleted before {} has fetched it", instance.id))
        })
        .collect()
    }
}
