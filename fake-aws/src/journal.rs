//! The calls that were made, for invariants.

use std::convert::Infallible;
use std::time::Duration;

use capa_cloud::CloudError;
use capa_cloud::managed::{Call, ChangeAnswer};

/// One call that changes something, as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time of the call, since the account exists.
    pub at: Duration,
    /// The call.
    pub call: Call<String>,
    /// What AWS did; `None` if a fault kept the call from AWS's rules.
    pub effect: Option<Result<ChangeAnswer, CloudError>>,
    /// The answer that the caller got; `None` if the caller ended before.
    pub answer: Option<Result<ChangeAnswer, CloudError>>,
}

impl Entry {
    /// The ids that the call names.
    pub fn ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        let Ok(_) = self.call.try_map(&mut |id| {
            ids.push(id.clone());
            Ok::<(), Infallible>(())
        });
        ids
    }

    /// The id of what the call made, with or without an answer.
    pub fn made(&self) -> Option<&str> {
        match &self.effect {
            Some(Ok(ChangeAnswer::Made(id))) => Some(id),
            _ => None,
        }
    }
}
