//! One identity in one region for a pass over a managed cluster.

use async_trait::async_trait;
use capa_cloud::managed::{Answer, ManagedCloud, Observed, Scope};
use capa_cloud::session::{SessionDriver, confirmed_account};
use capa_cloud::{CloudError, ec2};
use parking_lot::Mutex;

use crate::session::ControllerSession;

/// The session of one pass over a managed cluster.
pub(crate) struct ManagedSession {
    session: ControllerSession,
    /// Number of times that the credentials had been replaced when the pass obtained their account.
    confirmed_at: Mutex<Option<u64>>,
}

impl ManagedSession {
    pub(crate) fn new(session: ControllerSession) -> Self {
        Self {
            session,
            confirmed_at: Mutex::new(None),
        }
    }

    /// Fails if the credentials have been replaced since the pass obtained their account: in another account everything
    /// looks deleted.
    fn check_credentials(&self, operation: &'static str) -> Result<(), CloudError> {
        let confirmed_at = *self.confirmed_at.lock();
        let current = self.session.act(|_, at| at.replacements);
        match confirmed_at {
            Some(replacements) if replacements != current => Err(CloudError::credentials_replaced(operation)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl ManagedCloud for ManagedSession {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, replacements) = confirmed_account(&self.session).await?;
        *self.confirmed_at.lock() = Some(replacements);
        Ok(account)
    }

    async fn zones(&self) -> Result<Vec<String>, CloudError> {
        self.session.zones().await
    }

    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError> {
        let ec2 = self.session.ec2().observe(scope).await;
        self.check_credentials("DescribeVpcs")?;
        Ok(Observed { ec2 })
    }

    async fn call(&self, call: &ec2::Call<String>) -> Result<Answer, CloudError> {
        self.check_credentials(call.action())?;
        self.session.ec2().managed_call(call).await
    }
}
