//! What calls do to resources, and what a lookup shows of one kind of resource. Pure.

use serde::{Deserialize, Serialize};

use crate::CloudError;

/// What a repeated call does if the first call took effect without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat<'a> {
    /// The call creates a second resource. The SDK does not retry such a call.
    CreatesSecond,
    /// The call returns the resource of the first call, because both calls have this client token.
    Token(&'a str),
    /// AWS refuses the call, or the call changes nothing.
    Idempotent,
}

/// What a call does to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call creates the resource.
    Create,
    /// The call changes the resource.
    Change,
    /// The call deletes the resource, or ends its use.
    Delete,
}

/// The answer of AWS to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeAnswer {
    /// The id of the resource that the call created.
    Made(String),
    /// The call is done. The next lookup shows its effect.
    Done,
}

/// What a lookup shows of one kind of resource. A resource does not count as absent if the lookup did not ask for it,
/// or if AWS did not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen<T> {
    /// The lookup did not ask.
    #[default]
    NotAsked,
    /// AWS did not answer with the resources.
    Failed(CloudError),
    /// The answer.
    Shown(T),
}

impl<T> Seen<T> {
    /// The answer; `None` without one.
    pub fn shown(&self) -> Option<&T> {
        match self {
            Self::Shown(seen) => Some(seen),
            Self::NotAsked | Self::Failed(_) => None,
        }
    }

    /// Checks that there is an answer.
    ///
    /// # Errors
    /// The error of AWS; `None` if the lookup did not ask.
    pub fn answer(&self) -> Result<(), Option<&CloudError>> {
        match self {
            Self::Shown(_) => Ok(()),
            Self::Failed(error) => Err(Some(error)),
            Self::NotAsked => Err(None),
        }
    }
}

impl<T> From<Result<T, CloudError>> for Seen<T> {
    fn from(answer: Result<T, CloudError>) -> Self {
        answer.map_or_else(Self::Failed, Self::Shown)
    }
}

/// The form of `capa-rs plan --facts`: the answer, or nothing.
impl<T: Serialize> Serialize for Seen<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Seen<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seen = Option::deserialize(deserializer)?;
        Ok(seen.map_or(Self::NotAsked, Self::Shown))
    }
}
