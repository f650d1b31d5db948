//! The session of one identity in one region for a pass over a managed cluster.

use async_trait::async_trait;
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::managed::{Call, ChangeAnswer, Effect, ManagedCloud, ManagedObserver, Observed, Scope};
use capa_cloud::session::{SessionDriver, confirmed_account};
use capa_cloud::{CloudError, elb};
use futures::FutureExt;
use futures::future::join;
use parking_lot::Mutex;

use crate::ec2::only_vpc;
use crate::facts::RESOLVER_TIMEOUT;
use crate::session::ControllerSession;

/// The port for looking names up. Any port would do.
const HTTPS: u16 = 443;

/// The session of one pass over a managed cluster.
pub(crate) struct ManagedSession {
    session: ControllerSession,
    /// Number of times that the credentials had been replaced when the pass obtained their account.
    confirmed_at: Mutex<Option<u64>>,
}

impl ManagedSession {
    pub(crate) fn new(session: ControllerSession) -> Self {
        Self { session, confirmed_at: Mutex::new(None) }
    }

    /// Fails if the credentials have been replaced since the pass obtained their account, because in another account
    /// all resources would look deleted.
    fn check_credentials(&self, operation: &'static str) -> Result<(), CloudError> {
        let confirmed_at = *self.confirmed_at.lock();
        let current = self.session.act(|_, at| at.replacements);
        match confirmed_at {
            Some(replacements) if replacements != current => Err(CloudError::credentials_replaced(operation)),
            _ => Ok(()),
        }
    }

    /// Reads both services concurrently if the id of the VPC is known. Otherwise, it reads EC2 first to find the VPC.
    async fn observe(&self, scope: &Scope) -> Observed {
        let (ec2, elb) = (self.session.ec2().observe(scope).boxed(), self.session.elb());
        let has_names = !scope.load_balancers.is_empty() || !scope.classic_load_balancers.is_empty();
        match &scope.vpc {
            _ if !has_names => Observed { ec2: ec2.await, elb: elb::Observed::default() },
            Some(vpc) => {
                let (ec2, elb) = join(ec2, elb.observe(scope, vpc)).await;
                Observed { ec2, elb }
            }
            None => {
                let ec2 = ec2.await;
                let elb = match only_vpc(&ec2.vpcs) {
                    Some(vpc) => elb.observe(scope, vpc).await,
                    None => elb::Observed::default(),
                };
                Observed { ec2, elb }
            }
        }
    }
}

#[async_trait]
impl ManagedObserver for ManagedSession {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, replacements) = confirmed_account(&self.session).await?;
        *self.confirmed_at.lock() = Some(replacements);
        Ok(account)
    }

    async fn zones(&self) -> Result<Vec<String>, CloudError> {
        self.session.zones().await
    }

    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError> {
        let seen = self.observe(scope).await;
        self.check_credentials("DescribeVpcs")?;
        Ok(seen)
    }
}

#[async_trait]
impl ManagedCloud for ManagedSession {
    async fn resolves(&self, host: &str) -> bool {
        let lookup = tokio::net::lookup_host((host, HTTPS));
        // The resolver may retry for half a minute.
        let found = tokio::time::timeout(RESOLVER_TIMEOUT, lookup).await;
        found.is_ok_and(|found| found.is_ok_and(|mut addresses| addresses.next().is_some()))
    }

    /// Only the leader makes the call. Each distinct call waits for its own turn.
    async fn call(&self, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        self.check_credentials(call.action())?;
        let priority = match call.effect() {
            Effect::Create | Effect::Change => Priority::Launch,
            Effect::Delete => Priority::Terminate,
        };
        let runner = self.session.ec2().runner();
        let turn = CallRequest::of_cluster(call.action(), runner.flow(), &format!("{call:?}"), priority);
        let permit = runner.write_permit(&turn).await?;
        match call {
            Call::Ec2(call) => self.session.ec2().managed_call(permit, call).await,
            Call::Elb(call) => self.session.elb().managed_call(permit, call).await,
        }
    }
}
