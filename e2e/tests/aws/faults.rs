//! Faults that a test injects into calls to AWS and their answers.

use std::time::{Duration, Instant};

use anyhow::Context;
use capa_e2e::aws_proxy::xml::Element;
use capa_e2e::aws_proxy::{Account, Fate, Fault};
use capa_e2e::eventually_by_polling;
use capa_e2e::moto::IMAGE_ID;
use capa_e2e::user::{Network, NetworkPlan, User, query};

use super::{REGION, account};

const WITHIN: Duration = Duration::from_mins(2);
/// A delay longer than any test waits.
const LONG: Duration = Duration::from_mins(10);

/// An account with a network in two zones.
async fn world() -> (Account, User, Network) {
    let account = account().await;
    let user = User::new(&account, REGION);
    let network = user.create_network(&NetworkPlan::new("byo", REGION, 2)).await.unwrap();
    (account, user, network)
}

/// One call with the manager's key, without an SDK that would retry.
async fn call(account: &Account, service: &str, action: &str, form: &[(&str, &str)]) -> anyhow::Result<(u16, Element)> {
    let version = if service == "ec2" { "2016-11-15" } else { "2011-06-15" };
    let form = [&[("Action", action), ("Version", version)], form].concat();
    query(account.url(), &account.key().access_key_id, REGION, service, &form).await
}

/// The HTTP status and error code of an answer.
async fn answer_of(account: &Account, action: &str, form: &[(&str, &str)]) -> (u16, String) {
    let (status, answer) = call(account, "ec2", action, form).await.unwrap();
    (
        status,
        answer.find("Code").map(|code| code.text.clone()).unwrap_or_default(),
    )
}

fn launch<'a>(subnet: &'a str, token: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("ImageId", IMAGE_ID),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("SubnetId", subnet),
        ("ClientToken", token),
        ("UserData", "c2VjcmV0"),
    ]
}

async fn launched(account: &Account, subnet: &str, token: &str) -> String {
    let (_, answer) = call(account, "ec2", "RunInstances", &launch(subnet, token))
        .await
        .unwrap();
    answer.find("instanceId").unwrap().text.clone()
}

async fn live(user: &User) -> usize {
    user.live_instances().await.unwrap().len()
}

#[tokio::test]
async fn a_fault_refuses_launches_of_its_zone_or_subnet_only() {
    let (account, user, network) = world().await;
    let [first, second] = network.private_subnet_ids()[..] else {
        panic!("two zones")
    };
    let zone = network.zones[0].name.as_str();
    let fault = Fault::on("RunInstances").in_zone(zone);
    let no_capacity = account.fault(fault.error("InsufficientInstanceCapacity").times(2));
    let run = async |subnet, token| answer_of(&account, "RunInstances", &launch(subnet, token)).await;
    let refused = (500, "InsufficientInstanceCapacity".to_owned());
    assert_eq!(run(first, "1").await, refused);
    assert_eq!(
        run(network.public_subnet_ids()[0], "1").await,
        refused,
        "a subnet of the same zone"
    );
    assert_eq!(run(second, "1").await.0, 200);
    assert_eq!(run(first, "1").await.0, 200, "two refusals were asked for");
    assert_eq!(no_capacity.hits(), 2);

    account.fault(
        Fault::on("RunInstances")
            .in_subnet(second)
            .error("InsufficientFreeAddressesInSubnet"),
    );
    assert_eq!(
        run(second, "2").await,
        (400, "InsufficientFreeAddressesInSubnet".to_owned())
    );
    assert_eq!(run(first, "2").await.0, 200);
    assert_eq!(live(&user).await, 3);
}

#[tokio::test]
async fn a_token_that_launched_gets_its_answer_despite_refusals() {
    let (account, user, network) = world().await;
    let subnet = network.private_subnet_ids()[0];
    let instance = launched(&account, subnet, "1").await;
    let no_capacity = account.fault(Fault::on("RunInstances").error("InsufficientInstanceCapacity"));
    assert_eq!(launched(&account, subnet, "1").await, instance);
    assert_eq!(no_capacity.hits(), 0);
    account.fault(Fault::on("RunInstances").error("UnauthorizedOperation"));
    let refused = answer_of(&account, "RunInstances", &launch(subnet, "1")).await;
    assert_eq!(refused, (403, "UnauthorizedOperation".to_owned()));
    assert_eq!(live(&user).await, 1);
}

#[tokio::test]
async fn no_two_refusals_have_the_same_request_id() {
    let (account, _, _) = world().await;
    account.fault(Fault::on("DescribeVpcs").error("VpcLimitExceeded"));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (_, answer) = call(&account, "ec2", "DescribeVpcs", &[]).await.unwrap();
        ids.push(answer.text_at(&["RequestID"]).to_owned());
    }
    assert!(ids[0] != ids[1] && ids[0].len() == 36, "{ids:?}");
}

#[tokio::test]
async fn a_held_answer_shows_as_an_unanswered_launch() {
    let (account, user, network) = world().await;
    let subnet = network.private_subnet_ids()[0].to_owned();
    assert!(account.unanswered_launches().is_empty());
    let held = account.fault(Fault::on("RunInstances").delay(LONG));
    let calling = account.clone();
    let caller = tokio::spawn(async move { launched(&calling, &subnet, "uid-1").await });
    let unanswered = account.some_unanswered_launches(1, WITHIN).await.unwrap();
    assert_eq!(unanswered.len(), 1);
    assert_eq!(unanswered[0].client_token, "uid-1");
    assert_eq!(
        unanswered[0].instance_ids,
        account.manager_journal().calls()[0].instance_ids
    );
    assert_eq!(live(&user).await, 1, "the launch has had its effect");
    assert!(!caller.is_finished());
    // The client of a caller that is killed no longer waits for an answer.
    caller.abort();
    let gone = eventually_by_polling(WITHIN, "no caller to wait for an answer", async || {
        anyhow::ensure!(account.unanswered_launches().is_empty());
        Ok(())
    });
    gone.await.unwrap();
    held.lift();
}

#[tokio::test]
async fn an_answer_held_back_goes_out_once_its_fault_is_lifted() {
    let (account, _, network) = world().await;
    let subnet = network.private_subnet_ids()[0].to_owned();
    let held = account.fault(Fault::on("RunInstances").delay(LONG));
    let calling = account.clone();
    let caller = tokio::spawn(async move { launched(&calling, &subnet, "uid-1").await });
    let unanswered = account.some_unanswered_launches(1, WITHIN).await.unwrap();
    held.lift();
    let answered = tokio::time::timeout(WITHIN, caller).await.unwrap().unwrap();
    assert_eq!(unanswered[0].instance_ids, [answered]);
    assert!(
        account.unanswered_launches().is_empty(),
        "no caller waits for an answer"
    );
}

#[tokio::test]
async fn an_answer_is_held_back_as_long_as_asked() {
    let (account, _, _) = world().await;
    let delay = Duration::from_millis(300);
    account.fault(Fault::on("DescribeVpcs").delay(delay).times(1));
    let started = Instant::now();
    assert_eq!(answer_of(&account, "DescribeVpcs", &[]).await.0, 200);
    assert!(started.elapsed() >= delay);
    assert_eq!(answer_of(&account, "DescribeVpcs", &[]).await.0, 200);
}

#[tokio::test]
async fn a_lost_answer_has_its_effect_and_a_lost_request_none() {
    let (account, user, network) = world().await;
    let subnet = network.private_subnet_ids()[0];
    let run = async || call(&account, "ec2", "RunInstances", &launch(subnet, "1")).await;
    account.fault(Fault::on("RunInstances").dropped_before_effect().times(1));
    account.fault(Fault::on("RunInstances").dropped_after_effect().times(1));
    assert!(run().await.is_err());
    assert_eq!(live(&user).await, 0);
    assert!(run().await.is_err());
    assert_eq!(live(&user).await, 1);
    assert_eq!(run().await.unwrap().0, 200);
    assert_eq!(live(&user).await, 1, "the third call got the answer of the second");
    let journal = account.manager_journal();
    let fates: Vec<Fate> = journal.calls().iter().map(|call| call.fate).collect();
    assert_eq!(
        fates,
        [Fate::RequestLost, Fate::AnswerLost, Fate::Answered],
        "{journal}"
    );
    assert_eq!(journal.calls()[1].instance_ids, journal.calls()[2].instance_ids);
}

#[tokio::test]
async fn an_unreachable_endpoint_answers_only_the_user() {
    let (account, user, _) = world().await;
    let neighbour = super::account().await;
    let outage = account.fault(Fault::unreachable());
    assert!(call(&account, "ec2", "DescribeVpcs", &[]).await.is_err());
    assert!(call(&account, "sts", "GetCallerIdentity", &[]).await.is_err());
    assert_eq!(outage.hits(), 2);
    assert_eq!(account.manager_journal().len(), 2, "the journal counts the attempts");
    assert_eq!(live(&user).await, 0);
    assert_eq!(answer_of(&neighbour, "DescribeVpcs", &[]).await.0, 200);
    outage.lift();
    assert_eq!(answer_of(&account, "DescribeVpcs", &[]).await.0, 200);
    let brief = account.fault(Fault::unreachable().lasting(Duration::from_secs(20)));
    assert!(call(&account, "ec2", "DescribeVpcs", &[]).await.is_err());
    let over = eventually_by_polling(WITHIN, "the outage to be over", async || {
        call(&account, "ec2", "DescribeVpcs", &[]).await.context("still down")
    });
    assert_eq!(over.await.unwrap().0, 200);
    assert!(brief.hits() >= 1);
}

#[tokio::test]
async fn calls_beyond_the_published_buckets_are_throttled() {
    let (account, user, network) = world().await;
    let subnet = network.private_subnet_ids()[0];
    account.throttle(0);
    let tokens: Vec<String> = (0..10).map(|token| token.to_string()).collect();
    let launches = tokens.iter().map(|token| {
        let (account, form) = (&account, launch(subnet, token));
        async move { answer_of(account, "RunInstances", &form).await }
    });
    let answers = futures::future::join_all(launches).await;
    let refused = answers
        .iter()
        .filter(|(status, code)| *status == 503 && code == "RequestLimitExceeded");
    assert_eq!(refused.count(), 5, "{answers:?}");
    assert_eq!(live(&user).await, 5);
    assert_eq!(
        answer_of(&account, "DescribeVpcs", &[]).await.0,
        200,
        "another action has another bucket"
    );
    account.unthrottle();
    assert_eq!(
        answer_of(&account, "RunInstances", &launch(subnet, "more")).await.0,
        200
    );
}

#[tokio::test]
async fn bodies_of_launches_are_kept_whole_and_never_printed() {
    let (account, _, network) = world().await;
    launched(&account, network.private_subnet_ids()[0], "1").await;
    let launches = account.raw_launches();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].user_data, b"secret");
    let body = String::from_utf8(launches[0].body.clone()).unwrap();
    assert!(body.contains("UserData=c2VjcmV0"), "{body}");
    let printed = format!("{launches:?}{account:?}");
    assert!(
        !printed.contains("secret") && !printed.contains("c2VjcmV0"),
        "{printed}"
    );
}
