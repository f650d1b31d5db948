//! Answers, and refusals in the format of the called service.

use serde_json::{Value, json};

use super::protocol;
use super::xml::{Element, XmlError};

/// The caller in the message of a refusal. No object that a tenant sees may contain it.
pub const CALLER: &str = "arn:aws:sts::111122223333:assumed-role/planted-manager-role/i-0123456789abcdef0";

/// An answer to the client.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// A refusal by the emulated AWS.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    /// A refusal by its code alone, with the words and the status of the service.
    pub(super) fn injected(code: &str, service: &str) -> Self {
        match (code, service) {
            ("RequestLimitExceeded", "ec2") => Self::new(503, code, "Request limit exceeded."),
            // The other services use another code for throttling.
            ("RequestLimitExceeded", "secretsmanager" | "ssm") => {
                Self::new(400, "ThrottlingException", "Rate exceeded")
            }
            ("RequestLimitExceeded", "s3") => Self::new(503, "SlowDown", "Please reduce your request rate."),
            ("RequestLimitExceeded", _) => Self::new(400, "Throttling", "Rate exceeded"),
            ("UnauthorizedOperation", _) => {
                // The details are encrypted, so they differ from answer to answer.
                let details = format!("{}{}", fresh_id(), fresh_id());
                let message = format!(
                    "You are not authorized to perform this operation. User: {CALLER} is not authorized to perform \
                     this action because no identity-based policy allows it. Encoded authorization failure message: "
                );
                Self::new(403, code, format!("{message}{details}"))
            }
            _ => Self::new(status_of(code), code, format!("The request cannot be served: {code}.")),
        }
    }

    /// The refusal as an answer. EC2 and S3 have envelopes of their own among the services that answer in XML.
    pub(super) fn answer(&self, service: &str) -> Answer {
        if protocol::is_json(service) {
            return Answer {
                status: self.status,
                body: json!({"__type": self.code, "message": self.message}).to_string().into_bytes(),
            };
        }
        let reason = [Element::text("Code", &self.code), Element::text("Message", &self.message)];
        let envelope = if service == "ec2" {
            let errors = Element::parent("Errors", vec![Element::parent("Error", reason.to_vec())]);
            Element::parent("Response", vec![errors, Element::text("RequestID", "-")])
        } else if service == "s3" {
            Element::parent("Error", [&reason[..], &[Element::text("RequestId", "-")]].concat())
        } else {
            let [code, message] = reason;
            let error = Element::parent("Error", vec![Element::text("Type", "Sender"), code, message]);
            Element::parent("ErrorResponse", vec![error, Element::text("RequestId", "-")])
        };
        // Writing into memory cannot fail; an empty body would still carry the status.
        Answer { status: self.status, body: envelope.write().unwrap_or_default() }
    }
}

/// EC2's HTTP status for an error code: server errors are 5xx, and a lack of capacity is one of them.
fn status_of(code: &str) -> u16 {
    match code {
        "AuthFailure" => 401,
        "Unavailable" | "ServiceUnavailable" => 503,
        "InternalError" | "InternalFailure" | "InternalStatus" => 500,
        _ if code.starts_with("Insufficient") && code.ends_with("Capacity") => 500,
        _ => 400,
    }
}

/// A new id in the form of AWS's request ids.
fn fresh_id() -> String {
    let random = format!("{:032x}", fastrand::u128(..));
    let (parts, last) = random.split_at(20);
    let (first, rest) = parts.split_at(8);
    let (second, rest) = rest.split_at(4);
    let (third, fourth) = rest.split_at(4);
    format!("{first}-{second}-{third}-{fourth}-{last}")
}

impl Answer {
    /// The success of an action of EC2, with these fields.
    pub(super) fn of(action: &str, fields: Vec<Element>) -> Self {
        let request_id = Element::text("requestId", "-");
        let fields = std::iter::once(request_id).chain(fields).collect();
        let response = Element::parent(&format!("{action}Response"), fields);
        Self {
            status: 200,
            // Writing into memory cannot fail.
            body: response.write().unwrap_or_default(),
        }
    }

    pub(super) fn succeeded(&self) -> bool {
        self.status < 300
    }

    /// Gives the answer a request id of its own, as every answer of AWS has.
    pub(super) fn stamp(&mut self) {
        let body = String::from_utf8_lossy(&self.body);
        for name in ["requestId", "RequestId", "RequestID"] {
            let (start, end) = (format!("<{name}>"), format!("</{name}>"));
            if let Some((before, rest)) = body.split_once(&start)
                && let Some((_, after)) = rest.split_once(&end)
            {
                self.body = format!("{before}{start}{}{end}{after}", fresh_id()).into_bytes();
                return;
            }
        }
    }

    pub(super) fn tree(&self) -> Result<Element, XmlError> {
        Element::parse(&String::from_utf8_lossy(&self.body))
    }

    /// The same answer with another body.
    pub(super) fn with_tree(&self, tree: &Element) -> Result<Self, XmlError> {
        Ok(Self { status: self.status, body: tree.write()? })
    }

    /// AWS's error code; `None` for a success.
    pub(super) fn error_code(&self) -> Option<String> {
        if self.succeeded() {
            return None;
        }
        if let Ok(tree) = self.tree() {
            return tree.find("Code").map(|code| code.text.clone());
        }
        let answer: Value = serde_json::from_slice(&self.body).ok()?;
        // The name may have that of its shape before it.
        let name = answer.get("__type")?.as_str()?;
        Some(name.rsplit('#').next().unwrap_or(name).to_owned())
    }
}

/// The refusal of an answer of moto that is no XML.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
pub(super) fn unreadable(error: XmlError) -> Refusal {
    Refusal::new(500, "InternalError", format!("moto's answer: {error}"))
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
        let s3 = refusal.answer("s3");
        assert_eq!(s3.tree().unwrap().text_at(&["Code"]), "AuthFailure");
        let kms = refusal.answer("kms");
        assert_eq!((kms.status, kms.error_code().as_deref()), (401, Some("AuthFailure")));
    }

    #[test]
    fn the_code_in_json_has_no_name_of_its_shape() {
        let answer = Answer { status: 400, body: br#"{"__type": "com.amazonaws.kms#NotFoundException"}"#.to_vec() };
        assert_eq!(answer.error_code().as_deref(), Some("NotFoundException"));
    }

    #[test]
    fn no_two_answers_have_the_same_request_id() {
        let mut answers = Vec::new();
        for (service, field) in [("ec2", "RequestID"), ("ec2", "RequestID"), ("sts", "RequestId")] {
            let mut answer = Refusal::new(401, "AuthFailure", "no").answer(service);
            answer.stamp();
            let id = answer.tree().unwrap().text_at(&[field]).to_owned();
            assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(!answers.contains(&id));
            answers.push(id);
        }
    }

    #[test]
    fn an_injected_code_has_the_status_that_ec2_gives_it() {
        for (code, status) in [
            ("InsufficientInstanceCapacity", 500),
            ("RequestLimitExceeded", 503),
            ("InternalError", 500),
            ("Unavailable", 503),
            ("UnauthorizedOperation", 403),
            ("AuthFailure", 401),
            ("InvalidAMIID.NotFound", 400),
            ("VcpuLimitExceeded", 400),
        ] {
            let answer = Refusal::injected(code, "ec2").answer("ec2");
            assert_eq!((answer.status, answer.error_code().as_deref()), (status, Some(code)));
        }
        let sts = Refusal::injected("RequestLimitExceeded", "sts").answer("sts");
        assert_eq!((sts.status, sts.error_code().as_deref()), (400, Some("Throttling")));
        let ssm = Refusal::injected("RequestLimitExceeded", "ssm").answer("ssm");
        assert_eq!((ssm.status, ssm.error_code().as_deref()), (400, Some("ThrottlingException")));
    }
}
