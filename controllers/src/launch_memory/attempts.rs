//! The attempts of this process to create something for a machine: how far each is, and what lookups have shown since.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::{ErrorClass, Timing};
use parking_lot::Mutex;

use crate::launch_memory::progress::{AbsenceProof, Progress, is_fresh};
use crate::time::Moment;

/// The memory of the attempt with one token.
#[derive(Clone, Debug)]
pub(crate) struct RememberedAttempt {
    client_token: String,
    /// The account of the attempt, if this process has written its record.
    pub(crate) account_id: Option<String>,
    /// The progress of the attempt.
    pub(crate) progress: Progress,
    /// The last confirmation of the record by the API server.
    pub(crate) confirmed_at: Option<Moment>,
    /// The lookups of the attempt's instance until now.
    pub(crate) absence: Option<AbsenceProof>,
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

/// The last attempt of each machine to create one thing, for example its instance, as far as this process knows.
#[derive(Clone)]
pub(crate) struct Attempts {
    /// The id of this process in records.
    holder: Arc<str>,
    /// By UID of the machine.
    by_uid: Arc<Mutex<HashMap<String, RememberedAttempt>>>,
}

impl Attempts {
    pub(super) fn new(holder: &Arc<str>) -> Self {
        Self { holder: holder.clone(), by_uid: Arc::default() }
    }

    /// The memory of the attempt with this token.
    pub(super) fn get(&self, uid: &str, token: &str) -> RememberedAttempt {
        let by_uid = self.by_uid.lock();
        let same = by_uid.get(uid).filter(|attempt| attempt.client_token == token);
        same.cloned().unwrap_or_else(|| RememberedAttempt::unknown(token))
    }

    /// The memory of the attempt with this token, whose record names `holder`. If the record names another process,
    /// that process may have made the call, whatever the result of this process's call, and the outcome is unknown.
    pub(crate) fn recorded_by(&self, uid: &str, token: &str, holder: Option<&str>) -> RememberedAttempt {
        let remembered = self.get(uid, token);
        if holder == Some(&*self.holder) {
            return remembered;
        }
        RememberedAttempt { progress: Progress::Unknown, ..remembered }
    }

    /// Records that this process has written the record of a new attempt in this account; `at` is the beginning of the
    /// write.
    pub(crate) fn recorded(&self, uid: &str, token: &str, account_id: &str, at: Moment) {
        let attempt = RememberedAttempt {
            account_id: Some(account_id.to_owned()),
            progress: Progress::Recorded,
            confirmed_at: Some(at),
            ..RememberedAttempt::unknown(token)
        };
        self.by_uid.lock().insert(uid.to_owned(), attempt);
    }

    /// Records that this process has claimed the record of another process, whose call may still be running.
    pub(crate) fn claimed(&self, uid: &str, token: &str, at: Moment) {
        self.change(uid, token, |attempt| {
            attempt.progress = Progress::Unanswered;
            attempt.confirmed_at = Some(at);
        });
    }

    /// Records that the API server has confirmed the record; `at` is the beginning of the request.
    pub(crate) fn confirmed(&self, uid: &str, token: &str, at: Moment) {
        self.change(uid, token, |attempt| attempt.confirmed_at = Some(at));
    }

    /// Begins the call of the attempt, which counts as unanswered from here on, because the pass may be cancelled while
    /// the call is under way. Returns the progress before the call. `None` if the last confirmation of the
    /// record is too old, for example because the process was suspended: another process may have taken over since
    /// then, and have decided that nothing was created.
    pub(crate) fn begin_call(&self, uid: &str, token: &str, now: Moment, timing: &Timing) -> Option<Progress> {
        let before = self.get(uid, token);
        if !is_fresh(before.confirmed_at, now, timing) {
            return None;
        }
        self.called(uid, token, Progress::Unanswered, now.uptime);
        Some(before.progress)
    }

    /// Records that the call of the attempt has failed. `before` is the progress before the call. Returns the progress
    /// after it.
    pub(crate) fn call_failed(
        &self,
        uid: &str,
        token: &str,
        before: Progress,
        failure: ErrorClass,
        at: Duration,
    ) -> Progress {
        let progress = before.after(failure);
        self.called(uid, token, progress, at);
        progress
    }

    /// Records the progress of the attempt before its call or after the call has failed.
    fn called(&self, uid: &str, token: &str, progress: Progress, at: Duration) {
        self.change(uid, token, |attempt| {
            attempt.progress = progress;
            attempt.absence = Some(AbsenceProof { since: at, first_empty: None });
        });
    }

    /// Records a lookup that did not show what the attempt creates.
    pub(crate) fn found_nothing(&self, uid: &str, token: &str, at: Duration) {
        self.change(uid, token, |attempt| {
            let proof = attempt.absence.get_or_insert(AbsenceProof { since: at, first_empty: None });
            proof.first_empty.get_or_insert(at);
        });
    }

    /// The time until it is proven that an attempt has created nothing, after a lookup that has found nothing. `None`
    /// once that is proven. The record of the attempt names `holder`.
    pub(crate) fn absence_proven_in(
        &self,
        uid: &str,
        token: &str,
        holder: Option<&str>,
        now: Duration,
        timing: &Timing,
    ) -> Option<Duration> {
        if self.recorded_by(uid, token, holder).progress.is_proof_of_absence() {
            return None;
        }
        let remaining = || self.get(uid, token).absence.map(|proof| proof.remaining(now, timing));
        if remaining().is_some_and(|remaining| remaining.is_zero()) {
            return None;
        }
        self.found_nothing(uid, token, now);
        Some(remaining().unwrap_or(timing.launch_lookup_age))
    }

    /// Forgets the lookups for a machine without a readable record, once it has one: they prove nothing about the
    /// recorded instance if the record is lost again.
    pub(crate) fn end_search(&self, uid: &str, search_token: &str) {
        let mut by_uid = self.by_uid.lock();
        if by_uid.get(uid).is_some_and(|attempt| attempt.client_token == search_token) {
            by_uid.remove(uid);
        }
    }

    /// Forgets the attempt of a machine.
    pub(crate) fn forget(&self, uid: &str) {
        self.by_uid.lock().remove(uid);
    }

    /// Number of stored attempts.
    pub(super) fn entries(&self) -> usize {
        self.by_uid.lock().len()
    }

    /// Changes the memory of the attempt with this token. An attempt with another token is forgotten.
    fn change(&self, uid: &str, token: &str, change: impl FnOnce(&mut RememberedAttempt)) {
        let mut by_uid = self.by_uid.lock();
        let unknown = || RememberedAttempt::unknown(token);
        let attempt = by_uid.entry(uid.to_owned()).or_insert_with(unknown);
        if attempt.client_token != token {
            *attempt = unknown();
        }
        change(attempt);
    }
}
