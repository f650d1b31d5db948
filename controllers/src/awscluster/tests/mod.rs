//! Tests of the AWSCluster reconciler with doubles of Kubernetes and AWS.

mod absent;
mod controller;
mod discovery;
mod fields;
mod identities;
mod input;
mod load_balancers;
mod lookups;
mod modes;
mod preflight;
mod properties;
mod ready;

use std::sync::Arc;
use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::conditions::{ConditionType, find};
use capa_api::network::MachineNetwork;
use capa_cloud::Timing;
use capa_fake_aws::FakeAccount;
use capa_preflight::SavedFacts;
use capa_preflight::facts::Facts;
use capa_runtime::reconcile::{EventDraft, Next};

use super::{
    CheckTimes, ClusterContext, FactsSources, KnownDetails, LookupCache, ManagedContext, WarningDedup, reconcile,
};
use crate::testing::{FakeAws, FakeKubernetes, Journal, read, status_and_reason};

/// Two subnets in two zones of one VPC, and a security group for each role. [`Scene::new`] creates all of them.
const NETWORK: &str = "region: eu-west-1, unmanaged: true, network: {vpc: {id: vpc-00000001}, \
    subnets: [{id: subnet-0000000a}, {id: subnet-0000000b}], \
    securityGroupOverrides: {node: sg-0000000a, controlplane: sg-0000000b}}";

const LOOKUP: [&str; 5] =
    ["GetCallerIdentity", "DescribeSubnets", "DescribeSecurityGroups", "DescribeVpcs", "DescribeRouteTables"];

struct Scene {
    journal: Journal,
    kubernetes: Arc<FakeKubernetes>,
    aws: FakeAws,
    context: ClusterContext,
    managed: ManagedContext,
}

/// The result of one pass. The status is written in the same way as by the runtime.
struct Pass {
    cluster: AWSCluster,
    /// Whether the pass changed the status.
    wrote: bool,
    next: Next,
    events: Vec<EventDraft>,
    calls: Vec<String>,
}

/// Facts that break no rule.
fn good_facts() -> Facts {
    serde_json::from_str(include_str!("../../../../preflight/fixtures/good.json")).unwrap()
}

fn saved_facts(facts: Facts) -> FactsSources {
    let source = Arc::new(SavedFacts(facts));
    Arc::new(move |_, _| source.clone())
}

impl Scene {
    fn new() -> Self {
        let journal = Journal::default();
        let kubernetes = Arc::new(FakeKubernetes::new(&journal));
        kubernetes.put_cluster(owner("{}"));
        let aws = FakeAws::new(&journal, &kubernetes);
        aws.vpc("vpc-00000001");
        aws.subnet("subnet-0000000a", "vpc-00000001", "eu-west-1a");
        aws.subnet("subnet-0000000b", "vpc-00000001", "eu-west-1b");
        aws.security_group("sg-0000000a", "vpc-00000001");
        aws.security_group("sg-0000000b", "vpc-00000001");
        let context = ClusterContext {
            kubernetes: kubernetes.clone(),
            clouds: Arc::new(aws.clone()),
            facts: saved_facts(good_facts()),
            lookups: LookupCache::default(),
            checks: CheckTimes::default(),
            warnings: WarningDedup::default(),
            timing: Timing::default(),
            identity_namespace: "capa-rs-system".into(),
        };
        let managed = ManagedContext {
            kubernetes: kubernetes.clone(),
            clouds: Arc::new(FakeAccount::new()),
            timing: Timing::default(),
            identity_namespace: "capa-rs-system".into(),
            known_details: KnownDetails::default(),
        };
        Self { journal, kubernetes, aws, context, managed }
    }

    async fn pass(&self, cluster: &AWSCluster) -> Pass {
        self.journal.take();
        let outcome = Box::pin(reconcile(cluster.clone(), &self.context, &self.managed)).await.unwrap();
        let mut cluster = outcome.object;
        let status = outcome.status.or_else(|| cluster.status.clone());
        let wrote = status != cluster.status;
        cluster.status = status;
        Pass { cluster, wrote, next: outcome.next, events: outcome.events, calls: self.journal.take() }
    }

    /// The next pass over the same object, `later`.
    async fn after(&self, pass: &Pass, later: Duration) -> Pass {
        self.kubernetes.advance(later);
        self.pass(&pass.cluster).await
    }

    /// The next pass after the user has changed the spec.
    async fn edited(&self, pass: &Pass, spec: &str) -> Pass {
        let mut cluster = pass.cluster.clone();
        cluster.spec = aws_cluster(spec).spec;
        cluster.metadata.generation = cluster.metadata.generation.map(|generation| generation + 1);
        self.pass(&cluster).await
    }
}

impl Pass {
    fn status(&self) -> &AWSClusterStatus {
        self.cluster.status.as_ref().expect("a status")
    }

    fn condition(&self, condition: ConditionType) -> String {
        status_and_reason(&self.status().conditions, condition)
    }

    fn message(&self, condition: ConditionType) -> &str {
        &find(&self.status().conditions, condition).unwrap().message
    }

    fn zones(&self) -> Vec<&str> {
        let domains = self.status().failure_domains.iter();
        domains.map(|domain| domain.name.as_str()).collect()
    }

    /// The published network.
    fn network(&self) -> &MachineNetwork {
        self.status().network.as_ref().unwrap()
    }

    /// The seconds until the next pass.
    fn delay(&self) -> u64 {
        match self.next {
            Next::Requeue(delay) => delay.as_secs(),
            other => panic!("no delay: {other:?}"),
        }
    }

    fn subnet_ids(&self) -> Vec<&str> {
        self.network().subnets.iter().map(|subnet| subnet.id.as_str()).collect()
    }
}

/// The Cluster that owns every AWSCluster of these tests.
fn owner(spec: &str) -> capa_api::contract::Cluster {
    read(&format!(
        "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {{name: dev, namespace: team-a}}, spec: \
         {spec}}}"
    ))
}

/// An AWSCluster with its owner reference.
fn aws_cluster(spec: &str) -> AWSCluster {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, \
          metadata: {{name: dev, namespace: team-a, uid: u, generation: 1, resourceVersion: '1', \
          ownerReferences: [{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: dev, uid: c}}]}}, \
          spec: {{{spec}}}}}"
    ))
}
