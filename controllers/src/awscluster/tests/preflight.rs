//! The checks of the infrastructure: when they run, and what they prevent.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::conditions::ConditionType;
use capa_api::meta::PREFLIGHT_REQUESTED_ANNOTATION;
use capa_api::network::MachineNetwork;
use capa_cloud::{Answers, Found, Query, Read};
use capa_preflight::FactsSource;
use capa_preflight::facts::{Answer, Demand, Facts, VpcDns};
use parking_lot::Mutex;

use super::{Pass, Scene, aws_cluster, good_facts, saved_facts};

const NETWORK: &str = "region: eu-west-1, unmanaged: true, network: {vpc: {id: vpc-00000001}, \
                       subnets: [{id: subnet-0000000a}], securityGroupOverrides: {node: sg-0000000a}}";
const PASSED: ConditionType = ConditionType::PreflightPassed;
const HOUR: Duration = Duration::from_hours(1);

/// Infrastructure whose VPC has no DNS server, which is blocking, and whose subnet lacks a tag, which is a warning.
fn bad_facts() -> Facts {
    let mut facts = good_facts();
    facts.vpc_dns = Answer::Found(VpcDns { support: false, hostnames: true });
    if let Answer::Found(subnets) = &mut facts.subnets {
        subnets[0].tags.remove("kubernetes.io/cluster/prod");
    }
    facts
}

fn with(facts: Facts) -> Scene {
    let mut scene = Scene::new();
    scene.context.facts = saved_facts(facts);
    scene
}

fn rules(pass: &Pass) -> Vec<&str> {
    let preflight = pass.status().preflight.as_ref().expect("a result of checks");
    preflight.findings.iter().map(|finding| finding.rule.as_str()).collect()
}

fn checked_at(pass: &Pass) -> jiff::Timestamp {
    pass.status().preflight.as_ref().unwrap().checked_at.as_ref().unwrap().0
}

#[tokio::test]
async fn findings_are_reported_and_hold_nothing_back() {
    let scene = with(bad_facts());
    let pass = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(pass.condition(PASSED), "False/RulesFailing");
    let expected = "blocking: V2; warnings: S9; see status.preflight.findings";
    assert_eq!(pass.message(PASSED), expected);
    assert_eq!(rules(&pass), ["V2", "S9"], "blocking ones first");
    let finding = &pass.status().preflight.as_ref().unwrap().findings[0];
    assert_eq!(finding.object, "vpc-0000000a");
    assert_eq!(finding.fix, "set enableDnsSupport of the VPC");
    assert!(pass.status().provisioned());
    assert_eq!(pass.condition(ConditionType::Ready), "True/RulesFailing");
}

/// A source that keeps the answers that its caller knows.
#[derive(Default)]
struct Recorder(Mutex<Answers>);

#[async_trait]
impl FactsSource for Recorder {
    async fn facts(&self, _: &Demand, known: &Answers) -> Facts {
        self.0.lock().clone_from(known);
        good_facts()
    }
}

#[tokio::test]
async fn the_checks_get_what_the_lookup_has_read() {
    let recorder = Arc::new(Recorder::default());
    let mut scene = Scene::new();
    let source = recorder.clone();
    scene.context.facts = Arc::new(move |_, _| source.clone());
    let pass = scene.pass(&aws_cluster(NETWORK)).await;
    let known = recorder.0.lock();
    let in_vpc = || Query::filter("vpc-id", ["vpc-00000001"]);
    for read in [Read::Vpcs(in_vpc()), Read::Subnets(in_vpc()), Read::RouteTables(in_vpc())] {
        assert!(known.contains_key(&read), "{read:?}");
        let calls = pass.calls.iter().filter(|call| *call == read.action());
        assert_eq!(calls.count(), 1, "{:?}", pass.calls);
    }
    assert!(known.values().any(|found| matches!(found, Found::SecurityGroups(groups) if !groups.is_empty())));
}

#[tokio::test]
async fn warnings_alone_pass_and_are_named() {
    let mut facts = bad_facts();
    facts.vpc_dns = good_facts().vpc_dns;
    let pass = with(facts).pass(&aws_cluster(NETWORK)).await;
    assert_eq!(pass.condition(PASSED), "True/Ready");
    assert_eq!(pass.message(PASSED), "warnings: S9; see status.preflight.findings");
}

#[tokio::test]
async fn rules_that_could_not_be_checked_are_named() {
    let mut facts = good_facts();
    facts.nat_gateways = Answer::NotAsked;
    let pass = with(facts).pass(&aws_cluster(NETWORK)).await;
    assert_eq!(pass.condition(PASSED), "True/Ready");
    assert_eq!(pass.message(PASSED), "not checked: S5, S7");
}

#[tokio::test]
async fn skipped_rules_find_nothing() {
    let spec = format!("{NETWORK}, preflight: {{skipRules: [V2, S9]}}");
    let pass = with(bad_facts()).pass(&aws_cluster(&spec)).await;
    assert_eq!(pass.condition(PASSED), "True/Ready");
    assert_eq!(rules(&pass), [""; 0], "preflight.skipRules[]");
}

#[tokio::test]
async fn required_checks_hold_provisioned_back_until_they_pass_and_never_take_it_back() {
    let mut scene = with(bad_facts());
    let spec = format!("{NETWORK}, preflight: {{mode: Require}}");
    let held = scene.pass(&aws_cluster(&spec)).await;
    assert!(!held.status().provisioned());
    assert_eq!(held.condition(ConditionType::Ready), "False/RulesFailing");
    assert_eq!(held.message(ConditionType::Ready), held.message(PASSED));

    scene.context.facts = saved_facts(good_facts());
    let mended = scene.after(&held, HOUR).await;
    assert!(mended.status().provisioned());
    assert_eq!(mended.condition(ConditionType::Ready), "True/Ready");

    scene.context.facts = saved_facts(bad_facts());
    let later = scene.after(&mended, HOUR * 24).await;
    assert_eq!(later.condition(PASSED), "False/RulesFailing");
    assert!(later.status().provisioned());
    assert_eq!(later.condition(ConditionType::Ready), "True/RulesFailing");
}

#[tokio::test]
async fn disabled_checks_leave_no_trace() {
    let scene = with(bad_facts());
    let spec = format!("{NETWORK}, preflight: {{mode: Disabled}}");
    let pass = scene.edited(&scene.pass(&aws_cluster(NETWORK)).await, &spec).await;
    assert_eq!(pass.condition(PASSED), "absent");
    assert_eq!(pass.status().preflight, None);
}

#[tokio::test]
async fn checks_are_repeated_hourly_while_rules_are_broken_and_daily_otherwise() {
    for (facts, changed, period) in [(bad_facts(), good_facts(), HOUR), (good_facts(), bad_facts(), HOUR * 24)] {
        let mut scene = with(facts);
        let first = scene.pass(&aws_cluster(NETWORK)).await;
        scene.context.facts = saved_facts(changed);
        let early = scene.after(&first, period / 2).await;
        assert!(!early.wrote);
        let due = scene.after(&early, period / 2).await;
        assert_ne!(due.condition(PASSED), first.condition(PASSED));
        assert!(checked_at(&due) > checked_at(&first));
    }
}

#[tokio::test]
async fn repeated_checks_with_the_same_result_write_nothing() {
    for (facts, changed, period) in [(bad_facts(), good_facts(), HOUR), (good_facts(), bad_facts(), HOUR * 24)] {
        let mut scene = with(facts);
        let first = scene.pass(&aws_cluster(NETWORK)).await;
        let same = scene.after(&first, period).await;
        assert!(!same.wrote);
        scene.context.facts = saved_facts(changed);
        let early = scene.after(&same, period / 2).await;
        assert!(!early.wrote, "the checks have been repeated half a period ago");
        let due = scene.after(&early, period / 2).await;
        assert_ne!(due.condition(PASSED), first.condition(PASSED));
    }
}

#[tokio::test]
async fn a_request_or_a_change_of_the_spec_repeats_the_checks_at_once() {
    let scene = with(good_facts());
    let first = scene.pass(&aws_cluster(NETWORK)).await;
    scene.kubernetes.advance(Duration::from_secs(60));
    let mut cluster = first.cluster.clone();
    let annotation = (PREFLIGHT_REQUESTED_ANNOTATION.to_owned(), "now".to_owned());
    cluster.metadata.annotations = Some([annotation].into());
    let asked = scene.pass(&cluster).await;
    assert!(checked_at(&asked) > checked_at(&first));
    assert_eq!(asked.status().preflight.as_ref().unwrap().observed_request, "now");
    let later = scene.after(&asked, Duration::from_secs(60)).await;
    assert!(!later.wrote, "the request is answered");
    let edited = scene.edited(&later, &format!("{NETWORK}, additionalTags: {{team: a}}")).await;
    assert!(checked_at(&edited) > checked_at(&later));
}

#[test]
fn the_port_of_the_endpoint_is_not_that_of_the_api_servers() {
    let cluster = aws_cluster(&format!("{NETWORK}, controlPlaneEndpoint: {{host: api.example.org, port: 443}}"));
    let ports = |owner: &str| {
        let demand = super::super::demand(&cluster, &super::owner(owner), &MachineNetwork::default(), vec![]);
        (demand.endpoint.unwrap().port, demand.api_port)
    };
    assert_eq!(ports("{}"), (443, 6443));
    assert_eq!(ports("{clusterNetwork: {apiServerPort: 8443}}"), (443, 8443));
}

#[tokio::test]
async fn the_pod_network_of_the_spec_is_checked() {
    let scene = Scene::new();
    let with_cni = aws_cluster(&format!("{NETWORK}, preflight: {{cni: Cilium}}"));
    let owner = super::owner("{}");
    let demand = super::super::demand(&with_cni, &owner, &MachineNetwork::default(), vec![]);
    let cilium = capa_api::cluster::preflight::PodNetwork::Cilium;
    assert_eq!(demand.cni, Some(cilium), "preflight.cni");
    assert_eq!(scene.pass(&with_cni).await.condition(PASSED), "True/Ready");
}
