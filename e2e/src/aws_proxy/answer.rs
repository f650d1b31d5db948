//! Answers, and refusals in the shape that the asked service gives them.

use super::xml::{Element, XmlError};

/// What goes back to the client.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// A refusal by the emulated AWS.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// The answer that carries it: EC2 has an envelope of its own among the services of the Query protocol.
    pub(super) fn answer(&self, service: &str) -> Answer {
        let reason = [
            Element::text("Code", self.code),
            Element::text("Message", &self.message),
        ];
        let envelope = if service == "ec2" {
            let errors = Element::parent("Errors", vec![Element::parent("Error", reason.to_vec())]);
            Element::parent("Response", vec![errors, Element::text("RequestID", "refused")])
        } else {
            let [code, message] = reason;
            let error = Element::parent("Error", vec![Element::text("Type", "Sender"), code, message]);
            Element::parent("ErrorResponse", vec![error, Element::text("RequestId", "refused")])
        };
        // Writing into memory cannot fail; an empty body would still carry the status.
        Answer {
            status: self.status,
            body: envelope.write().unwrap_or_default(),
        }
    }
}

impl Answer {
    pub(super) fn succeeded(&self) -> bool {
        self.status < 300
    }

    pub(super) fn tree(&self) -> Result<Element, XmlError> {
        Element::parse(&String::from_utf8_lossy(&self.body))
    }

    /// The same answer with another body.
    pub(super) fn with_tree(&self, tree: &Element) -> Result<Self, XmlError> {
        Ok(Self {
            status: self.status,
            body: tree.write()?,
        })
    }

    /// AWS's error code, where this is an error.
    pub(super) fn error_code(&self) -> Option<String> {
        if self.succeeded() {
            return None;
        }
        self.tree().ok()?.find("Code").map(|code| code.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_envelope_of_its_service() {
        let refusal = Refusal::new(401, "AuthFailure", "no");
        let ec2 = refusal.answer("ec2");
        assert_eq!(ec2.tree().unwrap().text_at(&["Errors", "Error", "Code"]), "AuthFailure");
        let sts = refusal.answer("sts");
        assert_eq!(sts.tree().unwrap().text_at(&["Error", "Code"]), "AuthFailure");
        assert_eq!((sts.status, sts.error_code().as_deref()), (401, Some("AuthFailure")));
    }
}
