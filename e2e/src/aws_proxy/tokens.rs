//! RunInstances' idempotency as EC2 documents it: a ClientToken is valid in one zone of one region of one account. For
//! the same parameters the token repeats the first answer, for others the launch is refused. A failed launch does not
//! use up its token.

use std::collections::{BTreeMap, HashMap};

/// The scope of a ClientToken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenKey {
    pub(super) region: String,
    pub(super) zone: String,
    pub(super) token: String,
}

/// The earlier use of a ClientToken in its scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The token is unused: the launch proceeds.
    New,
    /// The token was used with the same parameters and got this answer.
    Same(Vec<u8>),
    /// The token was used with other parameters.
    Mismatch,
}

#[derive(Debug)]
struct Launch {
    parameters: BTreeMap<String, String>,
    answer: Vec<u8>,
}

/// The tokens of one account.
#[derive(Debug, Default)]
pub(super) struct Tokens(HashMap<TokenKey, Launch>);

impl Tokens {
    pub(super) fn look_up(&self, key: &TokenKey, parameters: &BTreeMap<String, String>) -> Known {
        match self.0.get(key) {
            None => Known::New,
            Some(launch) if launch.parameters == *parameters => Known::Same(launch.answer.clone()),
            Some(_) => Known::Mismatch,
        }
    }

    pub(super) fn remember(&mut self, key: TokenKey, parameters: BTreeMap<String, String>, answer: Vec<u8>) {
        self.0.insert(key, Launch { parameters, answer });
    }
}
