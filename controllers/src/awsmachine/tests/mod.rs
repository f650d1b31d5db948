//! Tests of the AWSMachine reconciler with doubles of Kubernetes and AWS.

mod abandonment;
mod absent;
mod capacity;
mod clocks;
mod controller;
mod deletion;
mod elastic_ip;
mod events;
mod fields;
mod groups;
mod holders;
mod hosts;
mod images;
mod input;
mod launches;
mod managed_cluster;
mod messages;
mod moves;
mod objects;
mod observation;
mod options;
mod ownership;
mod pending_deaths;
mod recovery;
mod references;
mod refusals;
mod restored_records;
mod secrets;
mod sources;
mod target_access;
mod targets;
mod turns;
mod unknown_targets;
mod unread_secrets;
mod updates;
mod waits;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::{ConditionType, find};
use capa_api::machine::{AWSMachine, AWSMachineStatus, InstanceState, LaunchAttempt, LaunchRecord};
use capa_api::meta::CONTROL_PLANE_LABEL;
use capa_cloud::Timing;
use capa_cloud::targets::TargetPolicy;
use capa_runtime::reconcile::{EventDraft, Next, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::awsmachine::instance::observation::LOOKS_UP;
use crate::awsmachine::{MachineContext, reconcile};
use crate::kubernetes_api::MachineKubernetes;
use crate::launch_memory::LaunchMemory;
use crate::testing::{DRAINS_FOR, FakeAws, FakeKubernetes, Journal, read, refused, status_and_reason, unanswered};

const CLUSTER: &str = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: dev, namespace: team-a}, \
    spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: dev}}, \
    status: {initialization: {infrastructureProvisioned: true}}}";
const NETWORK: &str = "{region: eu-west-1, clusterTag: dev, securityGroups: {all: [sg-0000000a]}, subnets: [\
    {id: subnet-0000000a, availabilityZone: eu-west-1a}, {id: subnet-0000000b, availabilityZone: eu-west-1b}]}";
const SPEC: &str = "instanceType: t3.large, ami: {id: ami-00000001}, cloudInit: {insecureSkipSecretsManager: true}";

/// The calls of a first launch. The planned record precedes the finalizer, the record of the attempt precedes the call
/// to EC2, and the answer is recorded immediately, with the conditions of the pass. Meanwhile the object must not be
/// moved.
const LAUNCH: [&str; 9] = [
    "write_status",
    "add_finalizer",
    "GetCallerIdentity",
    "DescribeInstances",
    "block_move",
    "write_status",
    "RunInstances",
    "write_status",
    "allow_move",
];
/// The time between the first refusal of a call and its repetition.
const RETRY: Duration = Duration::from_secs(15);
/// The id of the first instance that is launched.
const FIRST: &str = "i-00000000000000001";

/// The Machine `m` of the Cluster `dev`, its AWSMachine, and the objects and AWS resources that they need.
struct Scene {
    journal: Journal,
    kubernetes: Arc<FakeKubernetes>,
    aws: FakeAws,
    context: MachineContext,
}

/// The result of one pass, after the status write of the runtime and the next calls of the session.
struct Pass {
    /// The object after the pass; `None` if its last finalizer was removed.
    machine: Option<AWSMachine>,
    next: Next,
    events: Vec<EventDraft>,
    calls: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        Self::with_spec(SPEC)
    }

    fn with_spec(spec: &str) -> Self {
        let journal = Journal::default();
        let kubernetes = Arc::new(FakeKubernetes::new(&journal));
        kubernetes.put_cluster(read(CLUSTER));
        kubernetes.publish_network("dev", NETWORK);
        kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config")]);
        let aws = FakeAws::new(&journal, &kubernetes);
        let context = MachineContext {
            kubernetes: kubernetes.clone(),
            clouds: Arc::new(aws.clone()),
            memory: LaunchMemory::new("one"),
            timing: Timing::default(),
            identity_namespace: "capa-rs-system".into(),
            target_policy: TargetPolicy::Any,
        };
        let scene = Self { journal, kubernetes, aws, context };
        scene.set_up_network();
        scene.add("m", "bootstrap: {dataSecretName: boot}", spec);
        scene
    }

    /// Creates the AWS resources of a launch in the account of the credentials.
    fn set_up_network(&self) {
        self.aws.image("ami-00000001", "/dev/sda1");
        self.aws.security_group("sg-0000000a", "vpc-00000001");
        for (subnet, zone) in [("subnet-0000000a", "eu-west-1a"), ("subnet-0000000b", "eu-west-1b")] {
            self.aws.subnet(subnet, "vpc-00000001", zone);
        }
    }

    /// A scene whose machine has been launched and runs.
    async fn running() -> Self {
        Self::new().run().await
    }

    /// The same scene once its machine has been launched and runs.
    async fn run(self) -> Self {
        self.pass().await;
        self.aws.set_instance_state(FIRST, InstanceState::Running);
        self.pass().await;
        self
    }

    /// A scene whose machine uses a static identity, whose Secret is `keys`.
    fn with_static_identity() -> Self {
        let identity = "identityRef: {kind: AWSClusterStaticIdentity, name: static}";
        let scene = Self::with_spec(&format!("{SPEC}, {identity}"));
        let spec = "secretRef: keys, allowedNamespaces: {}";
        scene.kubernetes.identity_object("AWSClusterStaticIdentity", "static", spec);
        scene.put_keys();
        scene
    }

    /// Writes the Secret of the static identity. It gets a new version.
    fn put_keys(&self) {
        let keys = [("AccessKeyID", "AKIAEXAMPLE"), ("SecretAccessKey", "hunter2")];
        self.kubernetes.put_secret("capa-rs-system", "keys", &keys);
    }

    /// A launch of another process that may have made its call: there is a record, but no instance.
    async fn recorded_by_another() -> Self {
        let mut scene = Self::new();
        scene.unanswered_launch().await;
        scene.restart();
        scene
    }

    /// Adds a Machine and its AWSMachine.
    fn add(&self, name: &str, machine_spec: &str, spec: &str) {
        self.kubernetes.put_machine(read(&format!(
            "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, \
              metadata: {{name: {name}, namespace: team-a, uid: o}}, spec: {{clusterName: dev, {machine_spec}, \
              infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachine, name: '{name}'}}}}}}"
        )));
        self.kubernetes.put_aws_machine(read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: {name}, namespace: team-a, uid: uid-{name}, generation: 1, \
              labels: {{cluster.x-k8s.io/cluster-name: dev}}, \
              ownerReferences: [{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: {name}, uid: o}}]}}, \
              spec: {{{spec}}}}}"
        )));
    }

    /// Makes a Machine and its AWSMachine part of the control plane.
    fn in_control_plane(&self, name: &str) {
        let label = || (CONTROL_PLANE_LABEL.to_owned(), String::new());
        let owner = self.kubernetes.machine("team-a", name).expect("the Machine is there");
        let mut owner = Arc::unwrap_or_clone(owner);
        owner.labels_mut().extend([label()]);
        self.kubernetes.put_machine(owner);
        let mut machine = self.machine(name).expect("the machine is there");
        machine.labels_mut().extend([label()]);
        self.kubernetes.put_aws_machine(machine);
    }

    fn machine(&self, name: &str) -> Option<AWSMachine> {
        self.kubernetes.aws_machine("team-a", name)
    }

    /// Changes the stored object as a user would.
    fn edit(&self, change: impl FnOnce(&mut AWSMachine)) {
        let mut machine = self.machine("m").expect("the machine is there");
        change(&mut machine);
        self.kubernetes.put_aws_machine(machine);
    }

    /// Adds an annotation to the stored object.
    fn annotate(&self, annotation: &str, value: &str) {
        self.edit(|machine| {
            machine.annotations_mut().insert(annotation.into(), value.into());
        });
    }

    /// Changes the stored attempt, which is open.
    fn edit_attempt(&self, change: impl FnOnce(&mut LaunchAttempt)) {
        self.edit(|machine| match machine.status.as_mut().and_then(|status| status.launch.as_mut()) {
            Some(LaunchRecord::Requested(attempt)) => change(attempt),
            record => panic!("no open attempt: {record:?}"),
        });
    }

    /// Marks the machine as deleted.
    fn delete(&self) {
        self.edit(|machine| machine.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    }

    /// Deletes the machine, whose instance ends at once.
    async fn delete_with_instance(&self) -> Pass {
        self.delete();
        self.pass().await;
        self.aws.set_instance_state(FIRST, InstanceState::Terminated);
        self.pass().await
    }

    /// The same objects with a new process, whose memory is empty.
    fn restart(&mut self) {
        self.context.memory = LaunchMemory::new("another");
    }

    /// A pass in which the call of RunInstances is not answered, and has no effect.
    async fn unanswered_launch(&self) -> Pass {
        self.aws.fail_next("RunInstances", unanswered("RunInstances"));
        self.pass().await
    }

    /// A pass whose launch is refused with this code.
    async fn refused_with(&self, code: &str) -> Pass {
        self.aws.fail_next("RunInstances", refused("RunInstances", code));
        self.pass().await
    }

    async fn pass(&self) -> Pass {
        self.pass_over("m").await.unwrap()
    }

    async fn pass_over(&self, name: &str) -> Result<Pass, ReconcileError> {
        self.aws.settle().await;
        self.pass_without_a_look(name).await
    }

    /// A pass without reads of the instance informer before it.
    async fn pass_without_a_look(&self, name: &str) -> Result<Pass, ReconcileError> {
        self.journal.take();
        let mut events = Vec::new();
        let outcome = loop {
            let machine = self.machine(name).expect("the machine is there");
            // On the heap, as the runtime runs it.
            let outcome = Box::pin(reconcile(machine, &self.context)).await?;
            if outcome.why != Some(LOOKS_UP) {
                break outcome;
            }
            // The answer of the lookup wakes the machine.
            events.extend(outcome.events);
            self.aws.settle().await;
        };
        events.extend(outcome.events);
        let status = outcome.status.filter(|status| outcome.object.status.as_ref() != Some(status));
        if let Some(status) = status {
            self.kubernetes.write_status(&outcome.object, &status).await?;
        }
        self.aws.settle().await;
        Ok(Pass { machine: self.machine(name), next: outcome.next, events, calls: self.journal.take() })
    }

    async fn after(&self, later: Duration) -> Pass {
        self.kubernetes.advance(later);
        self.pass().await
    }

    fn tokens(&self) -> Vec<String> {
        let launches = self.aws.launches().into_iter();
        launches.map(|launch| launch.client_token).collect()
    }
}

impl Pass {
    fn reasons_of_events(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.reason.as_str()).collect()
    }

    fn called(&self, call: &str) -> bool {
        self.calls.iter().any(|made| made == call)
    }

    /// Asserts that the pass made all these calls, and that the first one of each kind came in this order.
    fn called_in_order(&self, calls: &[&str]) {
        let first: Vec<_> = calls.iter().map(|call| self.calls.iter().position(|made| made == call)).collect();
        assert!(first.iter().all(Option::is_some) && first.is_sorted(), "{calls:?} in {:?}", self.calls);
    }

    fn machine(&self) -> &AWSMachine {
        self.machine.as_ref().expect("the machine is there")
    }

    fn status(&self) -> &AWSMachineStatus {
        self.machine().status.as_ref().expect("a status")
    }

    fn launch(&self) -> &LaunchRecord {
        self.status().launch.as_ref().expect("a launch record")
    }

    fn condition(&self, condition: ConditionType) -> String {
        status_and_reason(&self.status().conditions, condition)
    }

    fn message(&self, condition: ConditionType) -> &str {
        &find(&self.status().conditions, condition).unwrap().message
    }
}
