use aws_sdk_ec2::error::ProvideErrorMetadata;
use capa_e2e::aws_proxy::AccessKey;
use capa_e2e::aws_proxy::xml::Element;
use capa_e2e::planted;
use capa_e2e::user::{User, client, query};

use super::{REGION, account, aws};

async fn sts(access_key_id: &str, form: &[(&str, &str)]) -> (u16, Element) {
    let form: Vec<_> = [("Version", "2011-06-15")].iter().chain(form).copied().collect();
    query(aws().await.url(), access_key_id, REGION, "sts", &form)
        .await
        .unwrap()
}

fn code(answer: &Element) -> &str {
    answer.find("Code").map_or("", |code| &code.text)
}

async fn account_of(access_key_id: &str) -> String {
    let (status, answer) = sts(access_key_id, &[("Action", "GetCallerIdentity")]).await;
    assert_eq!(status, 200);
    answer.find("Account").unwrap().text.clone()
}

#[tokio::test]
async fn accounts_see_nothing_of_each_other() {
    let (one, other) = (account().await, account().await);
    assert_ne!(one.id(), other.id());
    let created = User::new(&one, REGION)
        .ec2()
        .create_vpc()
        .cidr_block("10.9.0.0/16")
        .send()
        .await
        .unwrap();
    let vpc = created.vpc.unwrap().vpc_id.unwrap();
    let describe = |user: User| async move { user.ec2().describe_vpcs().send().await.unwrap().vpcs.unwrap() };
    let has = |vpcs: &[aws_sdk_ec2::types::Vpc]| vpcs.iter().any(|found| found.vpc_id.as_ref() == Some(&vpc));
    assert!(has(&describe(User::new(&one, REGION)).await));
    assert!(!has(&describe(User::new(&other, REGION)).await));
    assert!(!has(&describe(User::new(&one, "eu-central-1")).await));
    assert!(other.journal().mutating().is_empty());
}

#[tokio::test]
async fn the_journal_separates_user_and_manager_by_their_keys() {
    let account = account().await;
    let rotated = account.another_key();
    for key in [account.key(), account.user_key(), &rotated] {
        assert_eq!(account_of(&key.access_key_id).await, account.id());
    }
    assert_eq!(account.journal().of("GetCallerIdentity").len(), 3);
    assert_eq!(account.journal().by(&account.user_key().access_key_id).len(), 1);
    assert_eq!(account.manager_journal().len(), 2);
    let call = account.manager_journal().calls()[0].clone();
    assert_eq!(
        (call.service.as_str(), call.region.as_str(), call.status),
        ("sts", REGION, 200)
    );
}

#[tokio::test]
async fn a_mark_separates_earlier_from_later_calls() {
    let account = account().await;
    let ec2 = client(account.url(), account.key(), REGION);
    ec2.describe_vpcs().send().await.unwrap();
    let mark = account.mark();
    assert!(account.journal_since(mark).is_empty());
    ec2.describe_subnets().send().await.unwrap();
    assert_eq!(
        account.journal_since(mark).counts().into_keys().collect::<Vec<_>>(),
        ["DescribeSubnets"]
    );
    assert_eq!(account.journal().len(), 2);
}

#[tokio::test]
async fn a_revoked_key_is_refused_until_it_is_restored() {
    let account = account().await;
    let ec2 = client(account.url(), account.key(), REGION);
    ec2.describe_vpcs().send().await.unwrap();
    account.revoke(&account.key().access_key_id);
    let refused = ec2.describe_vpcs().send().await.unwrap_err();
    assert_eq!(refused.code(), Some("AuthFailure"));
    let (status, answer) = sts(&account.key().access_key_id, &[("Action", "GetCallerIdentity")]).await;
    assert_eq!((status, code(&answer)), (403, "InvalidClientTokenId"));
    assert_eq!(account_of(&account.user_key().access_key_id).await, account.id());
    assert_eq!(account.journal().matching(|call| call.error.is_some()).len(), 2);
    account.restore(&account.key().access_key_id);
    ec2.describe_vpcs().send().await.unwrap();
}

#[tokio::test]
async fn an_unknown_key_is_refused_and_recorded_under_no_account() {
    let stranger = AccessKey {
        access_key_id: "AKIASTRANGER".into(),
        secret_access_key: "secret".into(),
    };
    let refused = client(aws().await.url(), &stranger, REGION)
        .describe_vpcs()
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some("AuthFailure"));
    let recorded = aws().await.journal().by("AKIASTRANGER");
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded.calls()[0].account, None);
    assert_eq!(recorded.calls()[0].error.as_deref(), Some("AuthFailure"));
}

#[tokio::test]
async fn an_action_that_moto_lacks_is_an_internal_error() {
    let account = account().await;
    let key = &account.user_key().access_key_id;
    let form = [("Action", "DescribeNothingAtAll"), ("Version", "2016-11-15")];
    let (status, answer) = query(account.url(), key, REGION, "ec2", &form).await.unwrap();
    assert_eq!((status, code(&answer)), (500, "InternalError"));
}

#[tokio::test]
async fn an_assumed_role_acts_in_the_account_of_the_role() {
    let (caller, owner) = (account().await, account().await);
    let role = owner.role_arn("machines");
    let assume = |external_id: &'static str| {
        let (role, key) = (role.clone(), caller.key().access_key_id.clone());
        async move {
            let form = [
                ("Action", "AssumeRole"),
                ("RoleArn", role.as_str()),
                ("RoleSessionName", "session"),
                ("ExternalId", external_id),
            ];
            sts(&key, &form).await
        }
    };
    let (status, answer) = assume("agreed").await;
    assert_eq!((status, code(&answer)), (403, "AccessDenied"));
    owner.allow_assume_role(&role, Some("agreed"));
    assert_eq!(assume("guessed").await.0, 403);
    let (status, answer) = assume("agreed").await;
    assert_eq!(status, 200);

    let temporary = answer.find("AccessKeyId").unwrap().text.clone();
    assert_eq!(account_of(&temporary).await, owner.id());
    let session = owner.sessions().remove(0);
    assert_eq!(session.access_key_id, temporary);
    let secrets = ["SecretAccessKey", "SessionToken"].map(|secret| answer.find(secret).unwrap().text.clone());
    assert_eq!(session.secrets(), secrets);
    assert_eq!(planted::found(&session.answer, &secrets), secrets);
    assert!(caller.sessions().is_empty() && !format!("{owner:?} {session:?}").contains(&secrets[0]));
    let call = owner.journal().by(&temporary).calls()[0].clone();
    let acting = call.role.unwrap();
    assert_eq!(
        (acting.arn.as_str(), acting.session_name.as_str()),
        (role.as_str(), "session")
    );
    let asked = caller.journal().of("AssumeRole");
    assert_eq!(asked.len(), 3);
    assert_eq!(asked.calls()[2].parameter("ExternalId"), Some("agreed"));
    assert!(asked.mutating().is_empty());

    owner.revoke(&temporary);
    assert_eq!(sts(&temporary, &[("Action", "GetCallerIdentity")]).await.0, 403);
    owner.refuse_assume_role(&role);
    assert_eq!(assume("agreed").await.0, 403);
}
