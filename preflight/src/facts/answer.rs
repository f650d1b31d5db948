//! The answer to a call to AWS: a value, a failure, or nothing because the call was not made.

use serde::{Deserialize, Serialize};

/// The answer to a call to AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer<T> {
    /// AWS answered.
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
    /// AWS's error code; absent if no answer arrived.
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
    /// The value, if AWS answered.
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

impl<T> From<Result<T, Failure>> for Answer<T> {
    fn from(result: Result<T, Failure>) -> Self {
        match result {
            Ok(value) => Self::Found(value),
            Err(failure) => Self::Failed(failure),
        }
    }
}
