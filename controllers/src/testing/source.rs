//! Network sources in memory.

use serde_json::{Value, json};

use crate::kubernetes_api::{SourceOutcome, SourceRead, SourceRequest};

/// A network source, or the failure of its read.
#[derive(Clone)]
pub(crate) enum FakeSource {
    /// An object of a kind with the label of the network contract, or of a kind that needs no label.
    Object(Value),
    /// The read has this outcome.
    Outcome(SourceOutcome),
}

impl FakeSource {
    /// An object with a `status.network`.
    pub(crate) fn published(network: &Value) -> Self {
        Self::Object(json!({"status": {"network": network}}))
    }

    /// An object without a `status.network`.
    pub(crate) fn unpublished() -> Self {
        Self::Object(json!({}))
    }

    pub(super) fn read(self, name: &str, request: &SourceRequest) -> SourceRead {
        let description = request.kind.built_in(true).unwrap();
        let outcome = match self {
            Self::Outcome(outcome) => outcome,
            Self::Object(mut object) => {
                object["metadata"]["name"] = json!(name);
                let (name, network) = description.network(&request.kind, &[object], request.role);
                let network = network.map(|network| network.map(Box::new));
                SourceOutcome::Described { name, network }
            }
        };
        SourceRead::described_by(&description, request, outcome)
    }
}

impl From<SourceOutcome> for FakeSource {
    fn from(outcome: SourceOutcome) -> Self {
        Self::Outcome(outcome)
    }
}

/// The outcome of reading an object whose conversion webhook does not exist.
pub(crate) fn unreadable() -> SourceOutcome {
    SourceOutcome::Unreadable { code: Some(500), text: "failed to read it: 500 InternalError: no webhook".into() }
}
