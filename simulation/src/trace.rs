//! The trace of a history, line by line.

use capa_api::machine::{AWSMachine, LaunchRecord};
use jiff::Timestamp;

use crate::management_cluster::ManagementCluster;
use crate::server::{Change, Object};
use crate::time::since_start;

/// Lines with their simulated time. No line is made unless the trace is kept.
#[derive(Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(kept: bool) -> Self {
        Self { lines: kept.then(Vec::new) }
    }

    /// Adds a line that is made only if somebody reads.
    pub(crate) fn note(&mut self, now: Timestamp, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let time = since_start(now);
            let (seconds, millis) = (time.as_secs(), time.subsec_millis());
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            lines.push(format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03} {}", line()));
        }
    }

    /// Adds a line about a change of an object.
    pub(crate) fn change(&mut self, now: Timestamp, of: ManagementCluster, change: &Change) {
        self.note(now, || {
            let what = match change {
                Change::Deleted(object) => format!("{:?} {} is gone", object.kind(), object.name()),
                Change::Applied(Object::AwsMachine(machine)) => describe(machine),
                Change::Applied(object) => format!("{:?} {} changed", object.kind(), object.name()),
            };
            format!("    {of:?}: {what}")
        });
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

fn describe(machine: &AWSMachine) -> String {
    let metadata = &machine.metadata;
    let status = machine.status.clone().unwrap_or_default();
    let launch = status.launch.as_ref().map(|launch| {
        let request = launch.request();
        let token = request.map(|request| request.client_token.as_str()).unwrap_or_default();
        let subnet = request.map(|request| request.subnet_id.as_str()).unwrap_or_default();
        let instance = launch.instance_id().unwrap_or("-");
        let phase = match launch {
            LaunchRecord::Planned => "Planned",
            LaunchRecord::Requested(_) => "Requested",
            LaunchRecord::Refused(_) => "Refused",
            LaunchRecord::Answered { .. } => "Answered",
            LaunchRecord::Unreadable(_) => "unreadable",
        };
        format!("{phase} {} {token} {subnet} instance {instance}", launch.attempt_number())
    });
    let conditions = status.conditions.iter().filter(|condition| condition.status != "True");
    let conditions =
        conditions.map(|condition| format!("{}={}: {}", condition.type_, condition.reason, condition.message));
    let conditions: Vec<String> = conditions.collect();
    format!(
        "AWSMachine {}@{}{}{} launch: {}; network {}; {}",
        metadata.name.as_deref().unwrap_or_default(),
        metadata.resource_version.as_deref().unwrap_or_default(),
        if metadata.deletion_timestamp.is_some() { " deleted" } else { "" },
        if metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()) { " held" } else { "" },
        launch.as_deref().unwrap_or("none"),
        if status.network.is_some() { "frozen" } else { "none" },
        conditions.join("; ")
    )
}
