//! The inputs of the AWS calls for an object. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A call for an object, and a hash of all its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallFingerprint {
    /// A hash of the call, without the inputs that may change.
    pub(crate) call: u64,
    /// A hash of the inputs that may change.
    pub(crate) inputs: u64,
}

impl CallFingerprint {
    /// The inputs `inputs` of a call. An object makes few different calls: users' input must not be part of `call`.
    pub(crate) fn of(call: &impl Hash, inputs: &impl Hash) -> Self {
        Self { call: hash(call), inputs: hash(inputs) }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
