//! Measures the calls and the memory of many identities in one account, over the wire. docs/testing.md says how to run
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use capa_cloud::{ClusterKey, CredentialSource, InstanceState, MachineClouds, ResolvedIdentity};

use super::fake::{
    Answer, Call, Fake, REGION, answer, at_its_turn, caller_identity, eventually, instance_xml, machine, role, session,
};

/// Instances in one page of the fake, which is EC2's maximum.
const PAGE: usize = 1_000;
/// Number of listings that are measured for each session.
const LISTINGS: usize = 5;

/// A number from the environment.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// MiB of memory that the process holds.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    kibibytes.unwrap_or_default() / 1024
}

fn cluster_name(number: usize) -> String {
    format!("c{number}")
}

fn instance_id(number: usize) -> String {
    format!("i-{number:017x}")
}

/// An instance of one cluster in the form of EC2's answers, with the other tags of a fleet.
fn instance_of(cluster: &str, number: usize) -> String {
    let own = format!("sigs.k8s.io/cluster-api-provider-aws/cluster/{cluster}");
    let others = (0..20).map(|tag| format!("<item><key>cost-{tag}</key><value>{}</value></item>", "x".repeat(100)));
    let others = others.collect::<Vec<_>>().concat();
    let xml = instance_xml(&instance_id(number), InstanceState::Running);
    let of_cluster = xml.replace("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", &own);
    of_cluster.replace("<tagSet>", &format!("<tagSet>{others}"))
}

/// All instances by their cluster.
type Account = Arc<BTreeMap<String, Vec<String>>>;

fn account(clusters: usize, instances: usize) -> Account {
    let mut account: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for number in 0..instances {
        let cluster = cluster_name(number % clusters);
        let instance = instance_of(&cluster, number);
        account.entry(cluster).or_default().push(instance);
    }
    Arc::new(account)
}

fn listing(account: &Account, call: &Call) -> Answer {
    let prefix = "sigs.k8s.io/cluster-api-provider-aws/cluster/";
    let wanted: Vec<_> = call.filter_values().iter().filter_map(|key| key.strip_prefix(prefix)).collect();
    let shown = account.iter().filter(|(cluster, _)| wanted.is_empty() || wanted.contains(&cluster.as_str()));
    let shown: Vec<&String> = shown.flat_map(|(_, instances)| instances).collect();
    let first: usize = call.field("NextToken").parse().unwrap_or_default();
    let page: String = shown.iter().skip(first).take(PAGE).map(|xml| xml.as_str()).collect();
    let next = (first + PAGE < shown.len()).then(|| (first + PAGE).to_string());
    let content = format!("<reservationSet><item><instancesSet>{page}</instancesSet></item></reservationSet>");
    answer("DescribeInstances", &content, next.as_deref())
}

fn identity(number: usize) -> ResolvedIdentity {
    let arn = format!("arn:aws:iam::123456789012:role/c{number}");
    ResolvedIdentity {
        key: arn.clone(),
        source: role(&arn, CredentialSource::Controller),
        cluster: ClusterKey { namespace: format!("team-{number}"), name: "dev".to_owned() },
        is_for_one_cluster: true,
    }
}

#[tokio::test]
#[ignore = "a measurement: takes a minute, and the process to itself"]
#[expect(clippy::print_stdout, reason = "the result of the measurement")]
async fn many_identities_in_one_account() {
    let (identities, instances) = (setting("IDENTITIES", 50), setting("INSTANCES", 5_000));
    let known = account(identities, instances);
    let fake = Fake::start(move |call| match call.action.as_str() {
        "AssumeRole" => session(call),
        "GetCallerIdentity" => caller_identity(),
        _ => listing(&known, call),
    })
    .await;
    let pool = fake.pool().await;
    let before = resident();
    for number in 0..identities {
        let cluster = cluster_name(number);
        let machines = pool.machines(&identity(number), REGION, &cluster);
        at_its_turn(|| machines.account_id()).await.unwrap();
        for instance in (number..instances).step_by(identities) {
            machines.observe_instance(&machine(&instance.to_string()), &instance_id(instance));
        }
    }
    let made = resident();
    let listings = |count: usize| {
        let calls = fake.calls_of("DescribeInstances").len();
        calls >= count * identities
    };
    eventually("the first listing of each", || listings(1)).await;
    let (began, calls) = (tokio::time::Instant::now(), fake.calls_of("DescribeInstances").len());
    eventually("the others", || listings(1 + LISTINGS)).await;
    // The pool's time runs a hundred times faster than AWS's.
    let minutes = began.elapsed().as_secs_f64() * 100.0 / 60.0;
    let made_since = fake.calls_of("DescribeInstances").len() - calls;
    let watched = pool.informers().count();
    assert_eq!(watched, identities);
    println!(
        "{identities} identities, {instances} instances: {made_since} calls in {minutes:.1} minutes; RSS {before} MiB \
         before, {made} MiB with sessions, {} MiB after listings",
        resident()
    );
}
