//! Doubles of the reconcilers' traits: Kubernetes and AWS in memory. A test sets their objects and failures, and one
//! journal records all calls of a pass.

pub(crate) mod absent;
mod aws;
pub(crate) mod fields;
mod kubernetes;
mod source;

use std::sync::Arc;

use parking_lot::Mutex;

use capa_api::conditions::{ConditionType, find};
use capa_api::machine::{AWSMachine, InstanceState, RecordedRequest};
use capa_api::meta;
use capa_cloud::Instance;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::de::DeserializeOwned;

pub(crate) use aws::{DRAINS_FOR, FakeAws, refused, unanswered};
pub(crate) use kubernetes::{FakeKubernetes, MANAGEMENT_CLUSTER};
pub(crate) use source::{FakeSource, unreadable};

/// Calls to Kubernetes and AWS in their order.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    entries: Arc<Mutex<Vec<String>>>,
}

impl Journal {
    fn note(&self, entry: impl Into<String>) {
        self.entries.lock().push(entry.into());
    }

    /// Returns the calls since the last use of this function.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.entries.lock())
    }
}

/// Status and reason of a condition, for example `False/Pending`.
pub(crate) fn status_and_reason(conditions: &[Condition], condition: ConditionType) -> String {
    let found = find(conditions, condition);
    found.map_or_else(|| "absent".to_owned(), |found| format!("{}/{}", found.status, found.reason))
}

/// An instance in an answer of AWS, with the tags that identify its machine.
pub(crate) fn instance(id: &str, state: InstanceState, cluster: &str, machine_name_tag: &str) -> Instance {
    Instance {
        id: id.into(),
        state,
        state_reason: None,
        instance_type: "t3.large".into(),
        availability_zone: "eu-west-1a".into(),
        subnet_id: Some("subnet-0000000a".into()),
        vpc_id: None,
        primary_interface: None,
        volume_ids: vec![],
        metadata_options: None,
        client_token: None,
        launch_time: None,
        addresses: vec![],
        tags: [
            (meta::cluster_tag(cluster), meta::OWNED_TAG_VALUE.to_owned()),
            (meta::MACHINE_NAME_TAG.to_owned(), machine_name_tag.to_owned()),
        ]
        .into(),
    }
}

/// The recorded call of the attempt with this number, recorded at the Unix epoch.
pub(crate) fn recorded_request(attempt: u32) -> RecordedRequest {
    RecordedRequest {
        client_token: format!("uid-{attempt}"),
        subnet_id: "subnet-1".into(),
        image_id: Some("ami-1".into()),
        instance_type: "t3.large".into(),
        security_group_ids: vec!["sg-1".into()],
        parameters_hash: Some("h".into()),
        requested_at: Time(Timestamp::UNIX_EPOCH),
    }
}

/// AWSMachine `m` in `team-a` with an image, a type and these fields in its spec, as YAML in flow style.
pub(crate) fn plain_machine(spec: &str) -> AWSMachine {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
          metadata: {{name: m, namespace: team-a}}, \
          spec: {{instanceType: t3.large, ami: {{id: ami-00000001}}, {spec}}}}}"
    ))
}

/// Reads an object from YAML.
pub(crate) fn read<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error} in:\n{yaml}"))
}
