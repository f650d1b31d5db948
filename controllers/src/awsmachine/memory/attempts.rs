//! The attempts to launch that this process has made, and the answers that are not recorded yet.

use std::collections::HashMap;
use std::time::Duration;

use capa_cloud::Instance;

use crate::awsmachine::launch::progress::{AbsenceProof, Progress};
use crate::awsmachine::time::Moment;

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
    pub(super) fn get(&self, uid: &str, client_token: &str) -> RememberedAttempt {
        let remembered = self.attempts.get(uid);
        let same = remembered.filter(|attempt| attempt.client_token == client_token);
        same.cloned()
            .unwrap_or_else(|| RememberedAttempt::unknown(client_token))
    }

    pub(super) fn recorded(&mut self, uid: &str, client_token: &str, account_id: &str, at: Moment) {
        *self.entry(uid, client_token) = RememberedAttempt {
            account_id: Some(account_id.to_owned()),
            progress: Progress::Recorded,
            confirmed_at: Some(at),
            ..RememberedAttempt::unknown(client_token)
        };
    }

    pub(super) fn claimed(&mut self, uid: &str, client_token: &str, at: Moment) {
        let attempt = self.entry(uid, client_token);
        attempt.progress = Progress::Unanswered;
        attempt.confirmed_at = Some(at);
    }

    pub(super) fn confirmed(&mut self, uid: &str, client_token: &str, at: Moment) {
        self.entry(uid, client_token).confirmed_at = Some(at);
    }

    pub(super) fn called(&mut self, uid: &str, client_token: &str, progress: Progress, at: Duration) {
        let attempt = self.entry(uid, client_token);
        attempt.progress = progress;
        attempt.absence = Some(AbsenceProof {
            since: at,
            first_empty: None,
        });
    }

    pub(super) fn end_search(&mut self, uid: &str, search_token: &str) {
        let is_search = |attempt: &RememberedAttempt| attempt.client_token == search_token;
        if self.attempts.get(uid).is_some_and(is_search) {
            self.attempts.remove(uid);
        }
    }

    pub(super) fn found_nothing(&mut self, uid: &str, client_token: &str, at: Duration) {
        let proof = self.entry(uid, client_token).absence.get_or_insert(AbsenceProof {
            since: at,
            first_empty: None,
        });
        proof.first_empty.get_or_insert(at);
    }

    pub(super) fn answered(&mut self, uid: &str, instance: Instance) {
        self.answers.insert(uid.to_owned(), instance);
    }

    pub(super) fn answer(&self, uid: &str) -> Option<Instance> {
        self.answers.get(uid).cloned()
    }

    pub(super) fn forget(&mut self, uid: &str) {
        self.attempts.remove(uid);
        self.answers.remove(uid);
    }

    pub(super) fn entries(&self) -> usize {
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
