//! A lookup that continues where the provider's own request rates have interrupted it.
//!
//! A lookup makes several calls of one action. If the next pass made all of them again, each pass would use its turn
//! for another one of them, and no pass would complete the lookup.

use async_trait::async_trait;
use capa_cloud::{Account, Answers, CloudError, ClusterCloud, Found, Read, Reads};
use parking_lot::Mutex;

/// AWS, with the answers that earlier passes of the same lookup have got.
pub(super) struct ContinuedLookup<'a> {
    cloud: &'a dyn ClusterCloud,
    earlier: Answers,
    of_this_pass: Mutex<Answers>,
}

impl<'a> ContinuedLookup<'a> {
    pub(super) fn new(cloud: &'a dyn ClusterCloud, earlier: Answers) -> Self {
        Self { cloud, earlier, of_this_pass: Mutex::default() }
    }

    /// The answers of earlier passes, and those of this pass.
    pub(super) fn into_answers(self) -> (Answers, Answers) {
        (self.earlier, self.of_this_pass.into_inner())
    }
}

#[async_trait]
impl Reads for ContinuedLookup<'_> {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        let known = self.earlier.get(read).cloned();
        if let Some(found) = known.or_else(|| self.of_this_pass.lock().get(read).cloned()) {
            return Ok(found);
        }
        let found = self.cloud.read(read).await?;
        self.of_this_pass.lock().insert(read.clone(), found.clone());
        Ok(found)
    }
}

#[async_trait]
impl Account for ContinuedLookup<'_> {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.cloud.account_id().await
    }
}
