//! The account as the reconciler of managed clusters uses it.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use capa_cloud::managed::{Call, ChangeAnswer, ManagedCloud, ManagedClouds, ManagedObserver, Observed, Scope};
use capa_cloud::{CloudError, ResolvedIdentity};

use crate::account::{FakeAccount, State};

impl FakeAccount {
    /// The answer to a call that only reads. It never comes if the process has ended.
    async fn read<T>(&self, answer: impl FnOnce(&mut State) -> T + Send) -> T {
        let answered = {
            let mut state = self.state.lock();
            (!state.is_crashed()).then(|| answer(&mut state))
        };
        match answered {
            Some(answer) => answer,
            None => pending().await,
        }
    }
}

#[async_trait]
impl ManagedObserver for FakeAccount {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.read(|state| Ok(state.ec2.account_id())).await
    }

    async fn zones(&self) -> Result<Vec<String>, CloudError> {
        self.read(|state| state.ec2.zones()).await
    }

    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError> {
        self.read(|state| Ok(state.observe(scope))).await
    }
}

#[async_trait]
impl ManagedCloud for FakeAccount {
    async fn resolves(&self, _host: &str) -> bool {
        self.read(|state| !state.ec2.behaviour.unresolved).await
    }

    async fn call(&self, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let answered = self.state.lock().call(call);
        match answered {
            Some(answer) => answer,
            None => pending().await,
        }
    }
}

/// Every identity and region is this account.
impl ManagedClouds for FakeAccount {
    fn managed(&self, _: &ResolvedIdentity, _: &str) -> Arc<dyn ManagedCloud> {
        Arc::new(self.clone())
    }
}
