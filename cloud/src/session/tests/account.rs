//! Tests of the account of a session.

use super::*;

fn account() -> String {
    ACCOUNT.to_owned()
}

fn at(now: u64, replacements: u64) -> Moment {
    Moment { now: seconds(now), replacements }
}

fn refused() -> Result<String, CloudError> {
    Err(CloudError::answered("GetCallerIdentity", "InvalidClientTokenId", ""))
}

fn replaced_meanwhile() -> AccountStep {
    AccountStep::Done(Err(CloudError::credentials_replaced("GetCallerIdentity")))
}

#[test]
fn an_account_is_valid_ten_minutes_a_failure_five_seconds() {
    let known = AccountStep::Done(Ok((ACCOUNT.to_owned(), 0)));
    let failed = AccountStep::Done(refused().map(|account| (account, 0)));
    let table = [
        (Ok(account()), at(599, 0), known),
        (Ok(account()), at(600, 0), AccountStep::Ask),
        (Ok(account()), at(1, 1), AccountStep::Ask),
        (refused(), at(4, 0), failed),
        (refused(), at(5, 0), AccountStep::Ask),
        (refused(), at(1, 1), AccountStep::Ask),
    ];
    for (answer, later, expected) in table {
        let mut cache = AccountCache::new(&Timing::default());
        cache.record(at(0, 0), &answer, Duration::ZERO);
        let step = AccountQuery::default().begin(&cache, later);
        assert_eq!(step, expected, "{answer:?} at {later:?}");
    }
}

#[test]
fn the_last_account_is_that_of_the_present_credentials() {
    let mut cache = AccountCache::new(&Timing::default());
    assert_eq!(cache.last_reported(at(0, 0)), None);
    cache.record(at(0, 0), &Ok(account()), Duration::ZERO);
    let unanswered = Err(CloudError::no_answer("GetCallerIdentity", "connection refused"));
    cache.record(at(900, 0), &unanswered, Duration::from_secs(901));
    assert_eq!(cache.last_reported(at(902, 0)), Some(account().as_str()));
    assert_eq!(cache.last_reported(at(902, 1)), None, "other credentials");
    cache.record(at(910, 0), &refused(), Duration::from_secs(911));
    cache.record(at(920, 0), &unanswered, Duration::from_secs(921));
    assert_eq!(cache.last_reported(at(922, 0)), None, "refused");
}

#[test]
fn the_age_of_an_account_counts_from_the_call() {
    let mut cache = AccountCache::new(&Timing::default());
    let mut query = AccountQuery::default();
    assert_eq!(query.begin(&cache, at(0, 0)), AccountStep::Ask);
    // A caller that waited for the answer uses it at any age.
    let step = query.answered(Ok(account()), &mut cache, at(600, 0));
    assert_eq!(step, AccountStep::Done(Ok((account(), 0))));
    assert_eq!(AccountQuery::default().begin(&cache, at(600, 0)), AccountStep::Ask);
}

#[test]
fn refused_credentials_are_tried_less_and_less_often() {
    let mut cache = AccountCache::new(&Timing::default());
    let mut now = 0;
    for wait in [5, 10, 20, 40, 80, 160, 300, 300] {
        // Three callers wait for a call that takes a second.
        let mut callers = [0; 3].map(|_| AccountQuery::default());
        for caller in &mut callers {
            assert_eq!(caller.begin(&cache, at(now, 0)), AccountStep::Ask);
        }
        now += 1;
        for caller in &mut callers {
            caller.answered(refused(), &mut cache, at(now, 0));
        }
        let early = AccountQuery::default().begin(&cache, at(now + wait - 1, 0));
        assert_eq!(early, AccountStep::Done(refused().map(|account| (account, 0))));
        now += wait;
    }
    assert_eq!(AccountQuery::default().begin(&cache, at(now, 0)), AccountStep::Ask);
    assert_eq!(AccountQuery::default().begin(&cache, at(now, 1)), AccountStep::Ask, "others");
}

#[test]
fn an_answer_to_replaced_credentials_is_asked_for_again() {
    let mut cache = AccountCache::new(&Timing::default());
    let mut query = AccountQuery::default();
    assert_eq!(query.begin(&cache, at(0, 0)), AccountStep::Ask);
    assert_eq!(query.answered(Ok(account()), &mut cache, at(1, 1)), AccountStep::Ask);
    let step = query.answered(Ok(OTHER_ACCOUNT.to_owned()), &mut cache, at(2, 1));
    assert_eq!(step, AccountStep::Done(Ok((OTHER_ACCOUNT.to_owned(), 1))));
}

#[test]
fn the_account_is_asked_for_three_times_at_most() {
    let mut cache = AccountCache::new(&Timing::default());
    let mut query = AccountQuery::default();
    assert_eq!(query.begin(&cache, at(0, 0)), AccountStep::Ask);
    assert_eq!(query.answered(Ok(account()), &mut cache, at(1, 1)), AccountStep::Ask);
    assert_eq!(query.answered(Ok(account()), &mut cache, at(2, 2)), AccountStep::Ask);
    assert_eq!(query.answered(Ok(account()), &mut cache, at(3, 3)), replaced_meanwhile());
}
