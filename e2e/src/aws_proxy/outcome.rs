//! The outcome of a request: its answer, and how the caller gets it.

use super::answer::{Answer, Refusal};
use super::faults::Delay;
use super::journal::Fate;

/// The outcome of a request.
pub(super) struct Outcome {
    pub(super) answer: Answer,
    pub(super) replayed: bool,
    pub(super) fate: Fate,
    pub(super) held_back: Delay,
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self::after(answer, Delay::default())
    }
}

impl Outcome {
    /// An answer that is held back.
    pub(super) fn after(answer: Answer, held_back: Delay) -> Self {
        Self { answer, replayed: false, fate: Fate::Answered, held_back }
    }

    pub(super) fn lost_request(held_back: Delay) -> Self {
        let nothing = Answer { status: 0, body: Vec::new() };
        Self { fate: Fate::RequestLost, ..Self::after(nothing, held_back) }
    }
}

/// The answer that an injected error code gives.
pub(super) fn injected(code: &str, service: &str) -> Answer {
    Refusal::injected(code, service).answer(service)
}
