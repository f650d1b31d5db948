//! The calls that a session makes in the background. No reconcile waits for these calls.

use async_trait::async_trait;

use crate::informer::{InformerReport, InstanceRead, TerminationBatch};
use crate::lookups::LookupBatch;
use crate::targets::{GroupAnswer, GroupCall, GroupReport};
use crate::{CloudError, Instance, InstanceState, Query};

/// A call that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCall {
    /// Reads instances.
    Read(InstanceRead),
    /// Looks for instances of machines before their launch.
    LookUp(LookupBatch),
    /// Terminates instances.
    Terminate(TerminationBatch),
    /// Reads or writes load balancer targets.
    Targets(GroupCall),
}

/// A call with its answer.
#[derive(Debug)]
pub enum EndedCall {
    /// A read of instances with all pages of its answer.
    Read(InstanceRead, Result<Vec<Instance>, CloudError>),
    /// A lookup with all pages of its answer.
    LookUp(LookupBatch, Result<Vec<Instance>, CloudError>),
    /// A termination with the new states of the instances that the answer contains.
    Terminate(TerminationBatch, Result<Vec<(String, InstanceState)>, CloudError>),
    /// A call about load balancer targets with its answer.
    Targets(GroupCall, Result<GroupAnswer, CloudError>),
}

/// A change that is written to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReport {
    /// A change of instances.
    Instances(InformerReport),
    /// A change of load balancer targets.
    Targets(GroupReport),
}

/// Transport of the background calls of a session. Each call waits for its turn within the request rate, and writes
/// begin only while the process is the leader.
#[async_trait]
pub trait InformerCalls: Send + Sync {
    /// Instances by query, all pages.
    async fn read(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;
    /// Instances by query, all pages, for machines that wait for the answer.
    async fn look_up(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;
    /// Terminates instances and returns the new states that the answer contains.
    async fn terminate(&self, batch: &TerminationBatch) -> Result<Vec<(String, InstanceState)>, CloudError>;
    /// Makes a call about load balancer targets.
    async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError>;
}

/// Makes a call of a session.
pub async fn perform(calls: &dyn InformerCalls, call: SessionCall) -> EndedCall {
    match call {
        SessionCall::Read(read) => {
            let query = match &read {
                InstanceRead::List { scope, .. } => scope.query(),
                InstanceRead::Lookup { ids, .. } => Query::filter("instance-id", ids.iter().cloned()),
            };
            let answer = calls.read(&query).await;
            EndedCall::Read(read, answer)
        }
        SessionCall::LookUp(batch) => {
            let answer = calls.look_up(&batch.query()).await;
            EndedCall::LookUp(batch, answer)
        }
        SessionCall::Terminate(batch) => {
            let answer = calls.terminate(&batch).await;
            EndedCall::Terminate(batch, answer)
        }
        SessionCall::Targets(call) => {
            let answer = calls.group_call(&call).await;
            EndedCall::Targets(call, answer)
        }
    }
}
