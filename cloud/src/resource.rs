//! What calls about resources do, and what a look shows of one kind of resource. Pure.

use serde::{Deserialize, Serialize};

use crate::CloudError;

/// What a second call does, if the first one took effect without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat<'a> {
    /// It makes a second resource. The SDK does not retry such a call.
    Doubles,
    /// It answers with the resource of the first call, because both have this client token.
    Token(&'a str),
    /// AWS refuses it, or it changes nothing.
    Harmless,
}

/// What a call does to the resource that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It makes the resource.
    Create,
    /// It changes the resource.
    Change,
    /// It ends the resource.
    Delete,
}

/// The answer of AWS to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The id of what the call made.
    Made(String),
    /// The call is done. The next look shows its effect.
    Done,
}

/// What a look shows of one kind of resource. What was not asked for, and what AWS refused to show, is not absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen<T> {
    /// The look did not ask.
    #[default]
    NotAsked,
    /// AWS did not answer with the resources.
    Failed(CloudError),
    /// The answer.
    Got(T),
}

impl<T> Seen<T> {
    /// The answer; `None` without one.
    pub fn got(&self) -> Option<&T> {
        match self {
            Self::Got(seen) => Some(seen),
            Self::NotAsked | Self::Failed(_) => None,
        }
    }

    /// Whether there is an answer; the error where AWS gave none, and none where nobody asked.
    ///
    /// # Errors
    /// There is no answer.
    pub fn answer(&self) -> Result<(), Option<&CloudError>> {
        match self {
            Self::Got(_) => Ok(()),
            Self::Failed(error) => Err(Some(error)),
            Self::NotAsked => Err(None),
        }
    }
}

impl<T> From<Result<T, CloudError>> for Seen<T> {
    fn from(answer: Result<T, CloudError>) -> Self {
        answer.map_or_else(Self::Failed, Self::Got)
    }
}

/// The form of `capa-rs plan --facts`: the answer, or nothing.
impl<T: Serialize> Serialize for Seen<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.got().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Seen<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seen = Option::deserialize(deserializer)?;
        Ok(seen.map_or(Self::NotAsked, Self::Got))
    }
}
