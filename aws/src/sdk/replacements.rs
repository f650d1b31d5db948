//! Counts the replacements of credentials. The new credentials may belong to another account.

use std::sync::Arc;

use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider, future};
use parking_lot::Mutex;

/// The number of replacements of the credentials. The access key id identifies credentials, because it always belongs
/// to the same account.
#[derive(Debug, Default)]
pub(crate) struct Replacements {
    /// The last access key id, and the number of its changes.
    handed_out: Mutex<(Option<String>, u64)>,
}

impl Replacements {
    /// The number of replacements so far. It grows before the first call that is signed with the new credentials.
    pub(crate) fn count(&self) -> u64 {
        self.handed_out.lock().1
    }

    fn hand_out(&self, access_key_id: &str) {
        let (last, count) = &mut *self.handed_out.lock();
        if last.as_deref() == Some(access_key_id) {
            return;
        }
        // The first credentials do not count as a replacement.
        if last.replace(access_key_id.to_owned()).is_some() {
            *count += 1;
        }
    }
}

/// Credentials whose replacements are counted. The counter sits below the SDK's cache, so it sees only new credentials.
#[derive(Debug)]
pub(crate) struct Counted {
    source: SharedCredentialsProvider,
    replacements: Arc<Replacements>,
}

impl Counted {
    pub(crate) fn new(source: SharedCredentialsProvider, replacements: Arc<Replacements>) -> Self {
        Self { source, replacements }
    }

    async fn credentials(&self) -> provider::Result {
        let credentials = self.source.provide_credentials().await?;
        self.replacements.hand_out(credentials.access_key_id());
        Ok(credentials)
    }
}

impl ProvideCredentials for Counted {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_credentials_count_as_replacements() {
        let replacements = Replacements::default();
        let counts = ["AKIA1", "AKIA1", "AKIA2", "AKIA2", "AKIA1"].map(|id| {
            replacements.hand_out(id);
            replacements.count()
        });
        assert_eq!(counts, [0, 0, 1, 1, 2]);
    }
}
