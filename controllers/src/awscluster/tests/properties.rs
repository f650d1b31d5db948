//! Properties of an unmanaged cluster that hold in any sequence of changes and failures.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::common::IdentityReference;
use capa_api::conditions::{ConditionType, holds};
use capa_api::meta;
use kube::ResourceExt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{CheckTimes, ClusterContext, LookupCache, NETWORK, Scene, WarningDedup, aws_cluster, owner};
use crate::testing::refused;

/// An event between two passes.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The user writes another spec.
    Spec(&'static str),
    /// The next call of an action is refused with this code.
    Fails(&'static str, &'static str),
    /// The next call of an action gets no answer.
    Silent(&'static str),
    /// The identity is deleted or created again.
    Identity(bool),
    /// The Cluster is paused or resumed.
    Paused(bool),
    /// A user adds or removes the annotation that pauses the object.
    PausedByAnnotation(bool),
    /// The manager is restarted.
    Restart,
    /// Time passes.
    Seconds(u64),
}

const SPECS: [&str; 5] = [
    NETWORK,
    "region: eu-west-1, unmanaged: true",
    "region: us-east-1, unmanaged: true, network: {subnets: [{id: subnet-0000ffff}]}",
    "region: eu-west-1, unmanaged: true, controlPlaneEndpoint: {host: api.example.org, port: 6443}",
    "region: eu-west-1, unmanaged: true, preflight: {mode: Disabled}, network: {subnets: [{id: subnet-0000000a}]}",
];

fn event() -> impl Strategy<Value = Event> {
    let action = select(&super::LOOKUP[..]);
    let code = select(&["UnauthorizedOperation", "RequestLimitExceeded", "InternalError", "InvalidParameterValue"][..]);
    prop_oneof![
        select(&SPECS[..]).prop_map(Event::Spec),
        (action.clone(), code).prop_map(|(action, code)| Event::Fails(action, code)),
        action.prop_map(Event::Silent),
        any::<bool>().prop_map(Event::Identity),
        any::<bool>().prop_map(Event::Paused),
        any::<bool>().prop_map(Event::PausedByAnnotation),
        Just(Event::Restart),
        select(&[1_u64, 61, 400][..]).prop_map(Event::Seconds),
    ]
}

fn happen(event: Event, scene: &mut Scene, cluster: &mut AWSCluster) {
    match event {
        Event::Spec(spec) => {
            cluster.spec = aws_cluster(spec).spec;
            cluster.metadata.generation = cluster.metadata.generation.map(|generation| generation + 1);
        }
        Event::Fails(action, code) => scene.aws.fail_next(action, refused(action, code)),
        Event::Silent(action) => scene.aws.lose_next_answer(action),
        Event::Identity(true) => {
            let allowed = "allowedNamespaces: {}";
            scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", allowed);
        }
        Event::Identity(false) => {
            let reference = IdentityReference::controller_default();
            scene.kubernetes.remove_identity(&reference);
        }
        Event::Paused(paused) => scene.kubernetes.put_cluster(owner(&format!("{{paused: {paused}}}"))),
        Event::PausedByAnnotation(true) => {
            let annotations = cluster.annotations_mut();
            annotations.insert(meta::PAUSED_ANNOTATION.into(), String::new());
        }
        Event::PausedByAnnotation(false) => {
            cluster.annotations_mut().remove(meta::PAUSED_ANNOTATION);
        }
        Event::Restart => {
            scene.context = ClusterContext {
                lookups: LookupCache::default(),
                checks: CheckTimes::default(),
                warnings: WarningDedup::default(),
                ..scene.context.clone()
            };
        }
        Event::Seconds(seconds) => scene.kubernetes.advance(Duration::from_secs(seconds)),
    }
}

/// Asserts the properties that must hold from one pass to the next.
async fn assert_kept(scene: &Scene, before: &AWSCluster) -> AWSCluster {
    let was_provisioned = before.status.as_ref().is_some_and(AWSClusterStatus::provisioned);
    let after = scene.pass(before).await.cluster;
    let status = after.status.as_ref();
    assert!(!was_provisioned || status.is_some_and(AWSClusterStatus::provisioned), "provisioned went back: {status:?}");
    let is_ready = |status: &AWSClusterStatus| holds(&status.conditions, ConditionType::Ready);
    assert!(
        status.is_none_or(|status| status.provisioned() || !is_ready(status)),
        "ready before it is provisioned: {status:?}"
    );
    assert!(
        status.is_none_or(|status| status.ready.unwrap_or_default() == status.provisioned()),
        "the mirror for old tools differs: {status:?}"
    );
    assert_eq!(
        serde_json::to_value(&after.spec).unwrap(),
        serde_json::to_value(&before.spec).unwrap(),
        "the spec, endpoint included, is the user's"
    );
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    for condition in conditions {
        let upper = condition.reason.starts_with(|letter: char| letter.is_ascii_uppercase());
        assert!(upper && condition.reason.chars().all(|letter| letter.is_ascii_alphanumeric()), "{condition:?}");
    }
    after
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn provisioned_never_goes_back_and_the_spec_is_never_written(events in vec(event(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut scene = Scene::new();
            let mut cluster = aws_cluster(NETWORK);
            for event in events {
                happen(event, &mut scene, &mut cluster);
                cluster = assert_kept(&scene, &cluster).await;
            }
        });
    }
}
