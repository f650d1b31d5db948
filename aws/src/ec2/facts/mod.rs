//! Calls of EC2 for the checks of infrastructure, and the conversion of the answers to the facts of `preflight`.

mod launch;
mod machines;
mod networks;
mod routes;

use capa_cloud::{CloudError, ErrorClass};
use capa_preflight::facts::{Failure, FailureKind};

pub(crate) use launch::DryRunCalls;

/// The failure of a call, as facts show it.
pub(crate) fn failure(error: CloudError) -> Failure {
    Failure {
        call: error.operation.to_owned(),
        kind: match error.class {
            ErrorClass::Unauthorized => FailureKind::Denied,
            ErrorClass::NoAnswer => FailureKind::Unreachable,
            _ => FailureKind::Other,
        },
        code: error.code,
        message: error.message,
    }
}
