//! The account that the credentials of a session belong to: how long an answer counts, and when AWS is asked again.

use std::time::Duration;

use crate::{CloudError, Timing};

use super::moment::Moment;

/// How often AWS is asked for the account on behalf of one caller, while the credentials are replaced each time.
const TRIES: u32 = 3;

const OPERATION: &str = "GetCallerIdentity";

/// The last answer to GetCallerIdentity, for all callers of a session.
#[derive(Clone, Debug)]
pub struct AccountCache {
    /// How long an account is believed. Not for ever: whether the credentials are still accepted shows here.
    believed: Duration,
    /// How long after a failed call AWS is not asked again. Refusals double it, up to the cap.
    retry: Duration,
    retry_cap: Duration,
    last: Option<Last>,
}

#[derive(Clone, Debug)]
struct Last {
    asked: Moment,
    answered: Duration,
    answer: Result<String, CloudError>,
    /// AWS is not asked again before.
    until: Duration,
    /// How many refusals there were in a row.
    refusals: u32,
}

impl AccountCache {
    /// No answer yet.
    pub fn new(timing: &Timing) -> Self {
        Self {
            believed: timing.launch_lookup_age,
            retry: timing.resolve_retry,
            retry_cap: timing.refusal_retry_cap,
            last: None,
        }
    }

    /// The answer, at `now`, to a call that began at `asked`.
    pub fn record(&mut self, asked: Moment, answer: &Result<String, CloudError>, now: Duration) {
        let before = self
            .last
            .as_ref()
            .filter(|last| last.asked.replacements == asked.replacements);
        if answer.is_err() && before.is_some_and(|last| asked.now <= last.answered) {
            // Several callers have waited for the same call.
            return;
        }
        let before = before.map_or(0, |last| last.refusals);
        let (until, refusals) = match answer {
            Ok(_) => (asked.now + self.believed, 0),
            Err(error) if error.class.is_permanent() => {
                let doubled = 2_u32.checked_pow(before).unwrap_or(u32::MAX);
                let wait = self.retry.saturating_mul(doubled).min(self.retry_cap);
                (now + wait, before.saturating_add(1))
            }
            Err(_) => (now + self.retry, before),
        };
        self.last = Some(Last {
            asked,
            answered: now,
            answer: answer.clone(),
            until,
            refusals,
        });
    }

    /// The last answer, while it is young enough and the credentials are those that it was given to.
    fn known(&self, at: Moment) -> Option<&Result<String, CloudError>> {
        let last = self.last.as_ref()?;
        (last.asked.replacements == at.replacements && at.now < last.until).then_some(&last.answer)
    }
}

/// What a caller who wants to know the account does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountStep {
    /// Calls GetCallerIdentity and tells [`AccountQuery::answered`].
    Ask,
    /// Has the answer: the account, and how often the credentials had been replaced when AWS was asked for it.
    Done(Result<(String, u64), CloudError>),
}

/// One caller's way to the account. An answer never outlives the credentials that it was given to: a call that is
/// signed with others does not count for their account.
#[derive(Debug, Default)]
pub struct AccountQuery {
    tries: u32,
    asked: Moment,
}

impl AccountQuery {
    /// The first step, and the next one after an answer that does not count.
    pub fn begin(&mut self, cache: &AccountCache, at: Moment) -> AccountStep {
        if self.tries == TRIES {
            return AccountStep::Done(Err(CloudError::credentials_replaced(OPERATION)));
        }
        self.tries += 1;
        self.asked = at;
        match cache.known(at) {
            Some(answer) => self.done(answer.clone()),
            None => AccountStep::Ask,
        }
    }

    /// The step after the call has been answered.
    pub fn answered(
        &mut self,
        answer: Result<String, CloudError>,
        cache: &mut AccountCache,
        at: Moment,
    ) -> AccountStep {
        cache.record(self.asked, &answer, at.now);
        if at.replacements == self.asked.replacements {
            self.done(answer)
        } else {
            self.begin(cache, at)
        }
    }

    fn done(&self, answer: Result<String, CloudError>) -> AccountStep {
        AccountStep::Done(answer.map(|account| (account, self.asked.replacements)))
    }
}
