//! A lookup that continues where the provider's own request rates have interrupted it.
//!
//! A lookup makes several calls of one action. If the next pass made all of them again, each pass would use its turn for
//! another one of them, and no pass would complete the lookup.

use std::collections::HashMap;

use async_trait::async_trait;
use capa_cloud::{Account, CloudError, ClusterCloud, Found, Read, Reads};
use parking_lot::Mutex;

/// The answers of AWS to the reads of a lookup.
pub(super) type Answers = HashMap<Read, Found>;

/// AWS, with the answers that earlier passes of the same lookup have got.
pub(super) struct ContinuedLookup<'a> {
    cloud: &'a dyn ClusterCloud,
    answers: Mutex<Answers>,
}

impl<'a> ContinuedLookup<'a> {
    pub(super) fn new(cloud: &'a dyn ClusterCloud, answers: Answers) -> Self {
        Self { cloud, answers: Mutex::new(answers) }
    }

    /// The answers until now.
    pub(super) fn answers(self) -> Answers {
        self.answers.into_inner()
    }
}

#[async_trait]
impl Reads for ContinuedLookup<'_> {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        let known = self.answers.lock().get(read).cloned();
        if let Some(found) = known {
            return Ok(found);
        }
        let found = self.cloud.read(read).await?;
        self.answers.lock().insert(read.clone(), found.clone());
        Ok(found)
    }
}

#[async_trait]
impl Account for ContinuedLookup<'_> {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.cloud.account_id().await
    }
}
