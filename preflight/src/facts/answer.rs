//! The answer to a call to AWS or to a Kubernetes API server, in the form in which the facts of a check are saved: a
//! value, a failure, or nothing because the call was not made.

use capa_cloud::{CloudError, ErrorClass};
use serde::{Deserialize, Serialize};

/// The answer to a call to AWS or to a Kubernetes API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer<T> {
    /// The call succeeded.
    Found(T),
    /// The call failed.
    Failed(Failure),
    /// The call was not made, because nothing needs it or because an earlier call failed.
    #[default]
    NotAsked,
}

/// The failure of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Action of the AWS API, for example `DescribeSubnets`.
    pub call: String,
    /// Kind of the failure.
    pub kind: FailureKind,
    /// AWS's error code; absent if no answer arrived, and for a Kubernetes API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Text of the error.
    pub message: String,
}

/// Kind of the failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The credentials are not valid, or may not make the call.
    Denied,
    /// No answer arrived: the endpoint could not be reached.
    Unreachable,
    /// Any other error.
    Other,
}

impl<T> Answer<T> {
    /// The value, if the call succeeded.
    pub const fn found(&self) -> Option<&T> {
        match self {
            Self::Found(value) => Some(value),
            Self::Failed(_) | Self::NotAsked => None,
        }
    }

    /// The failure of the call, if it failed.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Found(_) | Self::NotAsked => None,
        }
    }

    /// The same answer with a converted value.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Found(value) => Answer::Found(map(value)),
            Self::Failed(failure) => Answer::Failed(failure),
            Self::NotAsked => Answer::NotAsked,
        }
    }
}

impl<T> From<Result<T, CloudError>> for Answer<T> {
    fn from(answer: Result<T, CloudError>) -> Self {
        match answer {
            Ok(value) => Self::Found(value),
            Err(error) => Self::Failed(error.into()),
        }
    }
}

impl From<CloudError> for Failure {
    fn from(error: CloudError) -> Self {
        Self {
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
}
