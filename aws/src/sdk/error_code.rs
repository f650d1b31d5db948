//! The error code in an answer of AWS. The SDK gives the code of an error only to callers that know the operation,
//! because each operation has a type of errors.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use quick_xml::Reader;
use quick_xml::events::Event;
use quick_xml::name::QName;
use serde_json::Value;

/// The header with the code, of services that answer in JSON. It precedes the code in the body.
const HEADER: &str = "x-amzn-errortype";

/// The code in a refusal; `None` if there is none, for example because a proxy has answered.
pub(crate) fn error_code(answer: &HttpResponse) -> Option<String> {
    if let Some(code) = answer.headers().get(HEADER) {
        return Some(without_namespace(code));
    }
    let body = std::str::from_utf8(answer.body().bytes()?).ok()?;
    in_json(body).or_else(|| in_xml(body))
}

fn in_json(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let code = body.get("code").or_else(|| body.get("__type"))?;
    code.as_str().map(without_namespace)
}

/// The text of the first element `Code`: that of the error, or that of the first one.
fn in_xml(body: &str) -> Option<String> {
    let mut reader = Reader::from_str(body);
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) if element.name() == QName("Code") => {
                let code = reader.read_text(element.name()).ok()?;
                return Some(code.into_inner().into_owned()).filter(|code| !code.is_empty());
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// The code without what AWS's protocols allow around it: `namespace#Code:http://address`.
fn without_namespace(code: &str) -> String {
    let code = code.split(':').next().unwrap_or(code);
    code.rsplit('#').next().unwrap_or(code).to_owned()
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    fn code(body: &'static str) -> Option<String> {
        error_code(&HttpResponse::new(StatusCode::try_from(400).unwrap(), SdkBody::from(body)))
    }

    #[test]
    fn the_code_is_found_in_the_answers_of_all_protocols() {
        let ec2 = "<Response><Errors><Error><Code>Throttling</Code><Message>no</Message></Error></Errors></Response>";
        let query = "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code></Error></ErrorResponse>";
        let s3 = "<?xml version=\"1.0\"?><Error><Code>Throttling</Code><Message>no</Message></Error>";
        let json = r#"{"__type": "com.amazon.coral#Throttling", "message": "no"}"#;
        let json_with_code = r#"{"code": "Throttling:http://address#there", "__type": "Other"}"#;
        for body in [ec2, query, s3, json, json_with_code] {
            assert_eq!(code(body).as_deref(), Some("Throttling"), "{body}");
        }
    }

    #[test]
    fn the_code_in_the_header_precedes_the_one_in_the_body() {
        let mut answer = HttpResponse::new(StatusCode::try_from(400).unwrap(), SdkBody::from("{}"));
        answer.headers_mut().insert(HEADER, "Throttling:http://address");
        assert_eq!(error_code(&answer).as_deref(), Some("Throttling"));
    }

    #[test]
    fn an_answer_of_something_else_has_no_code() {
        for body in [
            "",
            "bad gateway",
            "<html><body>bad gateway</body></html>",
            "[1]",
            "{\"message\": \"no\"}",
            "<Code>",
            "<Code></Code>",
        ] {
            assert_eq!(code(body), None, "{body}");
        }
    }
}
