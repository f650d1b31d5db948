//! The AWS account of a session's credentials: how long an answer is valid, and when the session calls AWS again.

use std::time::Duration;

use crate::{CloudError, Timing, doubled_wait};

use super::moment::Moment;

/// Maximum number of calls for the account on behalf of one caller. A call is repeated if the credentials were replaced
/// meanwhile.
const TRIES: u32 = 3;

const OPERATION: &str = "GetCallerIdentity";

/// The last answer to GetCallerIdentity, for all callers of a session.
#[derive(Clone, Debug)]
pub struct AccountCache {
    /// Validity of a successful answer. The validity is limited, because the call also shows whether AWS still accepts
    /// the credentials.
    validity: Duration,
    /// Time after a failed call during which the session does not repeat the call. Each refusal doubles it, up to the
    /// cap.
    retry: Duration,
    retry_cap: Duration,
    last: Option<Last>,
    /// The account that AWS last reported, with the number of replacements of the credentials at that time. `None` if
    /// AWS has refused these credentials since.
    reported: Option<(u64, String)>,
}

#[derive(Clone, Debug)]
struct Last {
    asked: Moment,
    answered: Duration,
    answer: Result<String, CloudError>,
    /// The earliest time of the next call.
    until: Duration,
    /// Number of consecutive refusals.
    refusals: u32,
}

impl AccountCache {
    /// A cache without an answer.
    pub fn new(timing: &Timing) -> Self {
        Self {
            validity: timing.launch_lookup_age,
            retry: timing.resolve_retry,
            retry_cap: timing.refusal_retry_cap,
            last: None,
            reported: None,
        }
    }

    /// Records the answer, at `now`, to a call that began at `asked`.
    pub fn record(&mut self, asked: Moment, answer: &Result<String, CloudError>, now: Duration) {
        self.record_reported(asked, answer);
        let before = self.last.as_ref().filter(|last| last.asked.replacements == asked.replacements);
        if answer.is_err() && before.is_some_and(|last| asked.now <= last.answered) {
            // Another caller has recorded the answer to the same call.
            return;
        }
        let before = before.map_or(0, |last| last.refusals);
        let (until, refusals) = match answer {
            Ok(_) => (asked.now + self.validity, 0),
            Err(error) if error.class.is_permanent() => {
                let wait = doubled_wait(self.retry, before, self.retry_cap);
                (now + wait, before.saturating_add(1))
            }
            Err(_) => (now + self.retry, before),
        };
        self.last = Some(Last { asked, answered: now, answer: answer.clone(), until, refusals });
    }

    fn record_reported(&mut self, asked: Moment, answer: &Result<String, CloudError>) {
        match answer {
            Ok(account) => self.reported = Some((asked.replacements, account.clone())),
            Err(error) if error.class.is_permanent() => {
                self.reported.take_if(|(replacements, _)| *replacements == asked.replacements);
            }
            Err(_) => {}
        }
    }

    /// The account that AWS last reported for the current credentials, regardless of the age of the answer. `None` if
    /// AWS has refused the credentials since.
    pub fn last_reported(&self, at: Moment) -> Option<&str> {
        let (replacements, account) = self.reported.as_ref()?;
        (*replacements == at.replacements).then_some(account)
    }

    /// The last answer, if it is still valid and the credentials have not been replaced since the call.
    fn known(&self, at: Moment) -> Option<&Result<String, CloudError>> {
        let last = self.last.as_ref()?;
        (last.asked.replacements == at.replacements && at.now < last.until).then_some(&last.answer)
    }
}

/// The next step of a caller that queries the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountStep {
    /// The caller calls GetCallerIdentity and passes the answer to [`AccountQuery::answered`].
    Ask,
    /// The query has ended with the account, and with the number of times that the credentials had been replaced before
    /// the call.
    Done(Result<(String, u64), CloudError>),
}

/// The account query of one caller. An answer is valid only for the credentials that signed the call, because other
/// credentials may belong to another account.
#[derive(Debug, Default)]
pub struct AccountQuery {
    tries: u32,
    asked: Moment,
}

impl AccountQuery {
    /// The first step of the query. The step is repeated after an invalid answer.
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

    /// The step after an answer to the call.
    pub fn answered(
        &mut self,
        answer: Result<String, CloudError>,
        cache: &mut AccountCache,
        at: Moment,
    ) -> AccountStep {
        cache.record(self.asked, &answer, at.now);
        if at.replacements == self.asked.replacements { self.done(answer) } else { self.begin(cache, at) }
    }

    fn done(&self, answer: Result<String, CloudError>) -> AccountStep {
        AccountStep::Done(answer.map(|account| (account, self.asked.replacements)))
    }
}
