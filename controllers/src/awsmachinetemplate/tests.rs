//! Tests of the AWSMachineTemplate reconciler with doubles.

use std::collections::VecDeque;

use capa_cloud::{Found, Image, InstanceType, Read, ResolvedIdentity};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;

use super::*;
use crate::kubernetes_api::{Kubernetes, SourceOutcome};
use crate::testing::{FakeKubernetes, FakeSource, Journal, read};

/// A double of AWS with one instance type, `t3.large`, and one image, `ami-00000001`. It first returns the errors that
/// a test sets.
#[derive(Clone)]
struct Aws {
    calls: Arc<Mutex<Vec<String>>>,
    errors: Arc<Mutex<VecDeque<CloudError>>>,
    client: String,
}

impl Aws {
    fn called(&self, call: &str, argument: &str) -> Result<(), CloudError> {
        let entry = format!("{} {call} {argument}", self.client);
        self.calls.lock().push(entry);
        let error = self.errors.lock().pop_front();
        error.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Reads for Aws {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        match read {
            Read::InstanceType(name) => Ok(Found::InstanceType(self.described_type(name)?)),
            Read::Images(query) => {
                let ids = query.filters.iter().flat_map(|(_, ids)| ids);
                let images = ids.map(|id| self.described_image(id));
                let images: Vec<Option<Image>> = images.collect::<Result<_, _>>()?;
                Ok(Found::Images(images.into_iter().flatten().collect()))
            }
            other => panic!("a template does not need {other:?}"),
        }
    }
}

impl Aws {
    fn described_type(&self, name: &str) -> Result<InstanceType, CloudError> {
        self.called("type", name)?;
        if name != "t3.large" {
            return Err(CloudError::not_found("DescribeInstanceTypes", "none"));
        }
        Ok(InstanceType {
            name: name.to_owned(),
            vcpus: 2,
            memory: 8192,
            architectures: vec!["x86_64".to_owned()],
            ..InstanceType::default()
        })
    }

    fn described_image(&self, id: &str) -> Result<Option<Image>, CloudError> {
        self.called("image", id)?;
        let architecture = match id {
            "ami-00000001" => "x86_64",
            "ami-00000002" => "arm64",
            _ => return Ok(None),
        };
        Ok(Some(Image { id: id.to_owned(), architecture: Some(architecture.to_owned()), ..Image::default() }))
    }
}

impl TemplateClouds for Aws {
    fn templates(&self, _: &ResolvedIdentity, region: &str) -> Arc<dyn Reads> {
        Arc::new(Self { client: region.to_owned(), ..self.clone() })
    }
}

struct Scene {
    kubernetes: Arc<FakeKubernetes>,
    aws: Aws,
    refusals: Refusals,
    template: AWSMachineTemplate,
}

/// The result of a pass.
struct Pass {
    says: String,
    message: String,
    cpu: Option<String>,
    next: Next,
    warnings: usize,
}

impl Scene {
    /// A template with this spec in a cluster with a network in `eu-west-1`.
    fn new(spec: &str) -> Self {
        let kubernetes = Arc::new(FakeKubernetes::new(&Journal::default()));
        kubernetes.put_cluster(read(
            "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: dev, namespace: team}, \
             spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: dev}}}",
        ));
        kubernetes.publish_network("dev", "{region: eu-west-1}");
        let yaml = format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, \
             metadata: {{name: workers, namespace: team, generation: 1, ownerReferences: [\
             {{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: dev, uid: u}}]}}, \
             spec: {{template: {{spec: {{{spec}}}}}}}}}"
        );
        Self {
            kubernetes,
            aws: Aws { calls: Arc::default(), errors: Arc::default(), client: String::new() },
            refusals: Refusals::default(),
            template: read(&yaml),
        }
    }

    fn owned_by(&mut self, kind: &str) {
        for owner in self.template.metadata.owner_references.iter_mut().flatten() {
            kind.clone_into(&mut owner.kind);
        }
    }

    fn fail_next(&self, error: CloudError) {
        let mut errors = self.aws.errors.lock();
        errors.push_back(error);
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.aws.calls.lock())
    }

    fn context(&self) -> TemplateContext {
        TemplateContext {
            kubernetes: self.kubernetes.clone(),
            clouds: Arc::new(self.aws.clone()),
            refusals: self.refusals.clone(),
            timing: Timing::default(),
            identity_namespace: "capa-rs-system".to_owned(),
        }
    }

    /// Runs a pass. `None` if the pass writes no status.
    async fn pass(&mut self) -> Option<Pass> {
        let outcome = reconcile(self.template.clone(), &self.context()).await;
        let status = outcome.status?;
        self.template.status = Some(status.clone());
        assert_eq!(status.conditions.len(), 1, "{:?}", status.conditions);
        let condition = &status.conditions[0];
        assert_eq!((condition.type_.as_str(), condition.observed_generation), ("CapacityReady", Some(1)));
        Some(Pass {
            says: format!("{}/{}", condition.status, condition.reason),
            message: condition.message.clone(),
            cpu: status.capacity.get("cpu").map(|quantity| quantity.0.clone()),
            next: outcome.next,
            warnings: outcome.events.len(),
        })
    }

    async fn written(&mut self) -> Pass {
        self.pass().await.expect("a status is written")
    }
}

#[tokio::test]
async fn capacity_is_looked_up_once_in_the_region_of_the_cluster() {
    let mut scene = Scene::new("instanceType: t3.large, ami: {id: ami-00000001}");
    let first = scene.written().await;
    assert_eq!((first.says.as_str(), first.cpu.as_deref()), ("True/Ready", Some("2")));
    assert_eq!(first.next, Next::AwaitChange);
    assert_eq!(scene.calls(), ["eu-west-1 type t3.large", "eu-west-1 image ami-00000001"]);
    assert!(scene.pass().await.is_none(), "nothing is written again");
    assert_eq!(scene.calls(), [""; 0], "nor asked");
}

#[tokio::test]
async fn a_region_of_its_own_comes_before_the_clusters() {
    let mut scene = Scene::new("instanceType: t3.large, region: us-east-1");
    assert_eq!(scene.written().await.says, "True/Ready");
    assert_eq!(scene.calls(), ["us-east-1 type t3.large"]);
}

#[tokio::test]
async fn a_template_says_what_it_waits_for_and_aws_is_not_asked() {
    let spec = "instanceType: t3.large";
    let mut alone = Scene::new(spec);
    alone.template.metadata.owner_references = None;
    let waits = alone.written().await;
    assert_eq!((waits.says.as_str(), waits.next), ("Unknown/WaitingForOwnerCluster", Next::AwaitChange));
    let mut early = Scene::new(spec);
    early.kubernetes.put_source("dev", FakeSource::unpublished());
    let waits = early.written().await;
    assert_eq!((waits.says.as_str(), waits.next), ("Unknown/NotReady", Next::Retry));
    assert!(waits.message.contains("AWSCluster/dev"), "{}", waits.message);
    let mut nowhere = Scene::new(spec);
    nowhere.kubernetes.put_source("dev", SourceOutcome::Undescribed);
    assert_eq!(nowhere.written().await.says, "Unknown/MissingField");
    let mut nobody = Scene::new(spec);
    nobody.kubernetes.remove_identity(&IdentityReference::controller_default());
    assert_eq!(nobody.written().await.says, "Unknown/NotFound");
    for scene in [alone, early, nowhere, nobody] {
        assert_eq!(scene.calls(), [""; 0]);
    }
}

#[tokio::test]
async fn templates_of_a_class_paused_and_leaving_ones_are_left_alone() {
    let spec = "instanceType: t3.large";
    let mut of_class = Scene::new(spec);
    of_class.owned_by("ClusterClass");
    let mut paused = Scene::new(spec);
    let annotations = [("cluster.x-k8s.io/paused".to_owned(), String::new())];
    paused.template.metadata.annotations = Some(annotations.into());
    let of_paused = Scene::new(spec);
    let mut cluster = of_paused.kubernetes.cluster("team", "dev").unwrap().as_ref().clone();
    cluster.spec.paused = Some(true);
    of_paused.kubernetes.put_cluster(cluster);
    let mut moving = Scene::new(spec);
    let annotations = [("clusterctl.cluster.x-k8s.io/delete-for-move".to_owned(), String::new())];
    moving.template.metadata.annotations = Some(annotations.into());
    moving.template.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    for mut scene in [of_class, paused, of_paused, moving] {
        assert!(scene.pass().await.is_none());
        assert_eq!(scene.calls(), [""; 0]);
    }
}

#[tokio::test]
async fn a_mark_that_a_move_left_behind_freezes_no_template() {
    let mut scene = Scene::new("instanceType: t3.large");
    let annotations = [("clusterctl.cluster.x-k8s.io/delete-for-move".to_owned(), String::new())];
    scene.template.metadata.annotations = Some(annotations.into());
    assert_eq!(scene.written().await.says, "True/Ready");
}

#[tokio::test]
async fn a_template_with_a_value_that_is_none_asks_for_nothing() {
    for (spec, says) in [
        ("instanceType: '*'", "False/InvalidSpec"),
        ("instanceType: t3.large, ami: {id: 'ami-*'}", "False/InvalidSpec"),
        ("instanceType: t3.large, region: ../x", "False/InvalidSpec"),
    ] {
        let mut scene = Scene::new(spec);
        assert_eq!(scene.written().await.says, says, "{spec}");
        assert_eq!(scene.calls(), [""; 0], "{spec}");
    }
    let mut scene = Scene::new("instanceType: t3.large");
    let network = FakeSource::published(&read("{region: US EAST}"));
    scene.kubernetes.put_source("dev", network);
    assert_eq!(scene.written().await.says, "Unknown/InvalidSpec");
    assert_eq!(scene.calls(), [""; 0]);
}

#[tokio::test]
async fn a_template_that_cannot_launch_has_a_warning_and_few_lookups() {
    for (spec, says, part, cpu) in [
        ("instanceType: t99.huge", "False/InvalidSpec", "t99.huge", None),
        ("instanceType: t3.large, ami: {id: ami-0000dead}", "False/NotFound", "ami-0000dead", Some("2")),
        ("instanceType: t3.large, ami: {id: ami-00000002}", "False/InvalidSpec", "arm64", Some("2")),
    ] {
        let refused = Scene::new(spec).written().await;
        assert_eq!((refused.says.as_str(), refused.cpu.as_deref()), (says, cpu), "{spec}");
        assert!(refused.message.contains(part), "{}", refused.message);
        assert_eq!((refused.warnings, refused.next), (1, Next::AwaitChange), "{spec}");
    }
}

#[tokio::test]
async fn what_aws_finds_invalid_is_seldom_asked_again() {
    let mut scene = Scene::new("instanceType: t3.large");
    scene.fail_next(CloudError::answered("DescribeInstanceTypes", "InvalidParameterValue", "too long"));
    let invalid = scene.written().await;
    assert_eq!((invalid.says.as_str(), invalid.next), ("False/InvalidSpec", Next::AwaitChange));
}

#[tokio::test]
async fn a_failed_call_keeps_what_was_known_and_is_repeated() {
    let mut scene = Scene::new("instanceType: t3.large");
    scene.template.status = Some(read("{capacity: {cpu: '4'}, conditions: []}"));
    scene.fail_next(CloudError::answered("DescribeInstanceTypes", "UnauthorizedOperation", "no"));
    let failed = scene.written().await;
    assert_eq!((failed.says.as_str(), failed.cpu.as_deref()), ("Unknown/Unauthorized", Some("4")));
    let wait = Duration::from_secs(15);
    assert_eq!(failed.next, Next::Requeue(wait));
    scene.calls();
    assert_eq!(scene.written().await.says, failed.says);
    assert_eq!(scene.calls(), [""; 0], "AWS would say the same");
    scene.kubernetes.advance(wait);
    let turn = Duration::from_secs(3);
    scene.fail_next(CloudError::deferred("DescribeInstanceTypes", turn));
    let deferred = scene.written().await;
    assert_eq!((deferred.says.as_str(), deferred.next), ("Unknown/Throttled", Next::Deferred(turn)));
    let known = scene.written().await;
    assert_eq!((known.says.as_str(), known.cpu.as_deref()), ("True/Ready", Some("2")));
}

#[tokio::test]
async fn a_template_names_an_unread_secret() {
    let mut scene = Scene::new("instanceType: t3.large");
    scene
        .kubernetes
        .publish_network("dev", "{region: eu-west-1, identityRef: {kind: AWSClusterStaticIdentity, name: static}}");
    let spec = "secretRef: keys, allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterStaticIdentity", "static", spec);
    scene.kubernetes.refuse_secret("capa-rs-system", "keys", Some((403, "Forbidden")));
    let unread = scene.written().await;
    assert_eq!((unread.says.as_str(), unread.next), ("Unknown/Failed", Next::Retry));
    assert_eq!(unread.message, "Secret capa-rs-system/keys cannot be read: 403 Forbidden");
}

#[test]
fn templates_without_a_cluster_are_grouped_by_namespace() {
    let reconciler = TemplateReconciler {
        context: Scene::new("instanceType: t3.large").context(),
        sync_period: Duration::from_secs(600),
    };
    let groups = |metadata: &str, spec: &str| {
        let template: AWSMachineTemplate = read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, \
              metadata: {{name: t, namespace: team-a{metadata}}}, \
              spec: {{template: {{spec: {{instanceType: t3.large{spec}}}}}}}}}"
        ));
        reconciler.groups(&template)
    };
    assert_eq!(groups("", ""), ["namespace team-a"]);
    let labelled = ", labels: {cluster.x-k8s.io/cluster-name: dev}";
    let named = ", region: eu-west-1, identityRef: {kind: AWSClusterRoleIdentity, name: slow}";
    let expected = ["cluster team-a/dev", "identity AWSClusterRoleIdentity/slow eu-west-1"];
    assert_eq!(groups(labelled, named), expected);
}
