//! The calls that a session makes by itself. No reconcile waits for them.

use async_trait::async_trait;
use capa_api::meta::ROLE_TAG;

use crate::informer::{InformerReport, InstanceRead, TerminationBatch};
use crate::targets::{GroupAnswer, GroupCall, GroupReport};
use crate::{CloudError, Instance, InstanceState, Query};

/// A call that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCall {
    /// Reads instances.
    Read(InstanceRead),
    /// Terminates instances.
    Terminate(TerminationBatch),
    /// Reads or writes load balancer targets.
    Targets(GroupCall),
}

/// A call with its answer.
#[derive(Debug)]
pub enum EndedCall {
    /// All pages.
    Read(InstanceRead, Result<Vec<Instance>, CloudError>),
    /// The new states, as far as the answer shows them.
    Terminate(TerminationBatch, Result<Vec<(String, InstanceState)>, CloudError>),
    /// As the call defines it.
    Targets(GroupCall, Result<GroupAnswer, CloudError>),
}

/// A change that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReport {
    /// About instances.
    Instances(InformerReport),
    /// About load balancer targets.
    Targets(GroupReport),
}

/// How the calls of a session are made. Each waits for its turn within the request rate, and writes begin only while
/// the process leads.
#[async_trait]
pub trait InformerCalls: Send + Sync {
    /// Instances by query, all pages.
    async fn read(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;
    /// Terminates instances; gives their new states as far as the answer shows them.
    async fn terminate(&self, ids: &[String]) -> Result<Vec<(String, InstanceState)>, CloudError>;
    /// Makes a call about load balancer targets.
    async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError>;
}

/// Makes a call of a session.
pub async fn perform(calls: &dyn InformerCalls, call: SessionCall) -> EndedCall {
    match call {
        SessionCall::Read(read) => {
            let query = match &read {
                // One listing serves all clusters of an account.
                InstanceRead::List { .. } => Query::filter("tag-key", [ROLE_TAG]),
                InstanceRead::Lookup { ids, .. } => Query::filter("instance-id", ids.iter().cloned()),
            };
            let answer = calls.read(&query).await;
            EndedCall::Read(read, answer)
        }
        SessionCall::Terminate(batch) => {
            let answer = calls.terminate(batch.ids()).await;
            EndedCall::Terminate(batch, answer)
        }
        SessionCall::Targets(call) => {
            let answer = calls.group_call(&call).await;
            EndedCall::Targets(call, answer)
        }
    }
}
