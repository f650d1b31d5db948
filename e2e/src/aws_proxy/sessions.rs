//! The temporary credentials of AssumeRole, for tests that search for them in places that must not show them.

use std::fmt;

use super::answer::Answer;
use super::xml::Element;

/// One session of a role, with its secrets.
#[derive(Clone)]
pub struct Session {
    /// Public half of the key.
    pub access_key_id: String,
    /// Secret half.
    pub secret_access_key: String,
    /// The session token, which every call signed by the key carries.
    pub session_token: String,
    /// The answer of AssumeRole with all of this.
    pub answer: Vec<u8>,
}

impl Session {
    /// Reads a session; `tree` is the parsed `answer`.
    pub(super) fn read(tree: &Element, answer: &Answer) -> Self {
        let text = |name: &str| tree.find(name).map(|element| element.text.clone()).unwrap_or_default();
        Self {
            access_key_id: text("AccessKeyId"),
            secret_access_key: text("SecretAccessKey"),
            session_token: text("SessionToken"),
            answer: answer.body.clone(),
        }
    }

    /// The secrets that no log, event or condition may show.
    pub fn secrets(&self) -> [String; 2] {
        [self.secret_access_key.clone(), self.session_token.clone()]
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}
