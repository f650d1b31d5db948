//! Reads whose answers are known already.
//!
//! A lookup makes several calls of one action, and the provider's own request rates may interrupt it. If the next pass
//! made all of them again, each pass would use its turn for another one of them, and no pass would complete the lookup.

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::CloudError;
use crate::api::Account;
use crate::reads::{Answers, Found, Read, Reads};

/// AWS, without the reads whose answers are known, or that have been made here before.
pub struct KnownReads<'a, C: ?Sized> {
    cloud: &'a C,
    known: &'a Answers,
    new: Mutex<Answers>,
}

impl<'a, C: ?Sized> KnownReads<'a, C> {
    /// The reads of `cloud` without those in `known`.
    pub fn new(cloud: &'a C, known: &'a Answers) -> Self {
        Self { cloud, known, new: Mutex::default() }
    }

    /// The answers that were not known.
    pub fn into_new_answers(self) -> Answers {
        self.new.into_inner()
    }
}

#[async_trait]
impl<C: Reads + ?Sized> Reads for KnownReads<'_, C> {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        let known = self.known.get(read).cloned();
        if let Some(found) = known.or_else(|| self.new.lock().get(read).cloned()) {
            return Ok(found);
        }
        let found = self.cloud.read(read).await?;
        self.new.lock().insert(read.clone(), found.clone());
        Ok(found)
    }
}

#[async_trait]
impl<C: Account + ?Sized> Account for KnownReads<'_, C> {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.cloud.account_id().await
    }
}
