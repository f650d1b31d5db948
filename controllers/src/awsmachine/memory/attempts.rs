//! The calls of this process that create something for a machine, and the answers that are not recorded yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::{Instance, Timing};
use parking_lot::Mutex;

use crate::awsmachine::launch::record::{AbsenceProof, Progress};
use crate::time::Moment;

/// Attempts and unrecorded answers, by UID of the machine.
#[derive(Default)]
pub(super) struct Attempts {
    attempts: HashMap<String, RememberedAttempt>,
    answers: HashMap<String, Instance>,
}

/// The memory of the attempt with one token.
#[derive(Clone, Debug)]
pub(in crate::awsmachine) struct RememberedAttempt {
    client_token: String,
    /// The account of the attempt, if this process has written its record.
    pub(in crate::awsmachine) account_id: Option<String>,
    /// The progress of the attempt.
    pub(in crate::awsmachine) progress: Progress,
    /// The last confirmation of the record by the API server.
    pub(in crate::awsmachine) confirmed_at: Option<Moment>,
    /// The lookups of the attempt's instance until now.
    pub(in crate::awsmachine) absence: Option<AbsenceProof>,
}

impl RememberedAttempt {
    fn unknown(client_token: &str) -> Self {
        Self {
            client_token: client_token.to_owned(),
            account_id: None,
            progress: Progress::Unknown,
            confirmed_at: None,
            absence: None,
        }
    }
}

impl Attempts {
    pub(in crate::awsmachine) fn get(&self, uid: &str, client_token: &str) -> RememberedAttempt {
        let remembered = self.attempts.get(uid);
        let same = remembered.filter(|attempt| attempt.client_token == client_token);
        same.cloned().unwrap_or_else(|| RememberedAttempt::unknown(client_token))
    }

    pub(in crate::awsmachine) fn recorded(&mut self, uid: &str, client_token: &str, account_id: &str, at: Moment) {
        *self.entry(uid, client_token) = RememberedAttempt {
            account_id: Some(account_id.to_owned()),
            progress: Progress::Recorded,
            confirmed_at: Some(at),
            ..RememberedAttempt::unknown(client_token)
        };
    }

    pub(in crate::awsmachine) fn claimed(&mut self, uid: &str, client_token: &str, at: Moment) {
        let attempt = self.entry(uid, client_token);
        attempt.progress = Progress::Unanswered;
        attempt.confirmed_at = Some(at);
    }

    pub(in crate::awsmachine) fn confirmed(&mut self, uid: &str, client_token: &str, at: Moment) {
        self.entry(uid, client_token).confirmed_at = Some(at);
    }

    pub(in crate::awsmachine) fn called(&mut self, uid: &str, client_token: &str, progress: Progress, at: Duration) {
        let attempt = self.entry(uid, client_token);
        attempt.progress = progress;
        attempt.absence = Some(AbsenceProof { since: at, first_empty: None });
    }

    pub(in crate::awsmachine) fn end_search(&mut self, uid: &str, search_token: &str) {
        let is_search = |attempt: &RememberedAttempt| attempt.client_token == search_token;
        if self.attempts.get(uid).is_some_and(is_search) {
            self.attempts.remove(uid);
        }
    }

    pub(in crate::awsmachine) fn found_nothing(&mut self, uid: &str, client_token: &str, at: Duration) {
        let proof = self.entry(uid, client_token).absence.get_or_insert(AbsenceProof { since: at, first_empty: None });
        proof.first_empty.get_or_insert(at);
    }

    pub(in crate::awsmachine) fn answered(&mut self, uid: &str, instance: Instance) {
        self.answers.insert(uid.to_owned(), instance);
    }

    pub(in crate::awsmachine) fn answer(&self, uid: &str) -> Option<Instance> {
        self.answers.get(uid).cloned()
    }

    pub(in crate::awsmachine) fn forget(&mut self, uid: &str) {
        self.attempts.remove(uid);
        self.answers.remove(uid);
    }

    pub(in crate::awsmachine) fn entries(&self) -> usize {
        self.attempts.len() + self.answers.len()
    }

    /// The entry of the attempt with this token. An attempt with another token is forgotten.
    fn entry(&mut self, uid: &str, client_token: &str) -> &mut RememberedAttempt {
        let unknown = || RememberedAttempt::unknown(client_token);
        let attempt = self.attempts.entry(uid.to_owned()).or_insert_with(unknown);
        if attempt.client_token != client_token {
            *attempt = unknown();
        }
        attempt
    }
}

/// The last allocation of each machine that this process knows of, by UID.
#[derive(Clone)]
pub(in crate::awsmachine) struct AllocationCalls {
    /// The id of this process in records of calls.
    holder: Arc<str>,
    calls: Arc<Mutex<Attempts>>,
}

impl AllocationCalls {
    pub(super) fn new(holder: &Arc<str>) -> Self {
        Self { holder: holder.clone(), calls: Arc::default() }
    }

    /// The memory of the call with this token.
    pub(in crate::awsmachine) fn get(&self, uid: &str, token: &str) -> RememberedAttempt {
        self.calls.lock().get(uid, token)
    }

    /// The memory of the call with this token, whose record names `holder`. If the record names another process, that
    /// process may have made the call, and its outcome is unknown.
    pub(in crate::awsmachine) fn recorded_by(&self, uid: &str, token: &str, holder: Option<&str>) -> RememberedAttempt {
        let remembered = self.get(uid, token);
        if holder == Some(&*self.holder) {
            return remembered;
        }
        RememberedAttempt { progress: Progress::Unknown, ..remembered }
    }

    /// Records that this process has written the record of a new call; `at` is the beginning of the write.
    pub(in crate::awsmachine) fn recorded(&self, uid: &str, token: &str, account_id: &str, at: Moment) {
        self.calls.lock().recorded(uid, token, account_id, at);
    }

    /// Records that this process has claimed the record of another process, whose call may still be running.
    pub(in crate::awsmachine) fn claimed(&self, uid: &str, token: &str, at: Moment) {
        self.calls.lock().claimed(uid, token, at);
    }

    /// Records that the API server has confirmed the record.
    pub(in crate::awsmachine) fn confirmed(&self, uid: &str, token: &str, at: Moment) {
        self.calls.lock().confirmed(uid, token, at);
    }

    /// Records the progress of the call.
    pub(in crate::awsmachine) fn called(&self, uid: &str, token: &str, progress: Progress, at: Duration) {
        self.calls.lock().called(uid, token, progress, at);
    }

    /// Records a lookup that did not show what the call allocates.
    pub(in crate::awsmachine) fn found_nothing(&self, uid: &str, token: &str, at: Duration) {
        self.calls.lock().found_nothing(uid, token, at);
    }

    /// The time until it is proven that an open call has allocated nothing, after a lookup that has found nothing.
    /// `None` once that is proven. The record of the call names `holder`.
    pub(in crate::awsmachine) fn doubt(
        &self,
        uid: &str,
        token: &str,
        holder: Option<&str>,
        now: Duration,
        timing: &Timing,
    ) -> Option<Duration> {
        let progress = self.recorded_by(uid, token, holder).progress;
        if matches!(progress, Progress::Recorded | Progress::Refused) {
            return None;
        }
        let remaining = || self.get(uid, token).absence.map(|proof| proof.remaining(now, timing));
        if remaining().is_some_and(|remaining| remaining.is_zero()) {
            return None;
        }
        self.found_nothing(uid, token, now);
        Some(remaining().unwrap_or(timing.launch_lookup_age))
    }

    /// Forgets the call of a machine.
    pub(in crate::awsmachine) fn forget(&self, uid: &str) {
        self.calls.lock().forget(uid);
    }

    /// Number of stored calls.
    pub(in crate::awsmachine) fn entries(&self) -> usize {
        self.calls.lock().entries()
    }
}
