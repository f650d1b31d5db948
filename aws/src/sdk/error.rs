//! Converts SDK errors to the errors of `cloud`.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sts::operation::assume_role_with_web_identity::AssumeRoleWithWebIdentityError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::{ConnectorError, SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use capa_cloud::{CloudError, ErrorClass, withheld_words};

/// Converts an SDK error. Credentials are fetched inside a call, so their errors appear as sources of the call's error.
pub(crate) fn from_sdk<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> CloudError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if let Some(credentials) = find::<CredentialsError>(error) {
        return from_credentials(credentials);
    }
    match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            match answer.err().code() {
                Some(code) => answered(operation, code, answer.err().message().unwrap_or_default()),
                None => CloudError::no_answer(operation, format!("HTTP {status} without an error code")),
            }
        }
        SdkError::TimeoutError(_) => CloudError::no_answer(operation, "no answer in time"),
        SdkError::ResponseError(_) => CloudError::no_answer(operation, "the answer could not be read"),
        SdkError::DispatchFailure(failure) => {
            CloudError::no_answer(operation, connection_failure(failure.as_connector_error()))
        }
        _ => CloudError::no_answer(operation, format!("the call could not be made: {}", innermost(error))),
    }
}

/// The error for an answer of AWS. If the error withholds AWS's message, the message goes to the log.
fn answered(operation: &'static str, code: &str, words: &str) -> CloudError {
    if let Some(words) = withheld_words(code, words) {
        tracing::info!(operation, code, words, "AWS refused a call");
    }
    CloudError::answered(operation, code, words)
}

/// Converts an STS error for the caller that needs the credentials: each refusal of STS, including the refusal of a
/// malformed policy, leaves the caller unauthorized.
pub(crate) fn from_sts<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> CloudError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let status = error.raw_response().map_or(0, |response| response.status().as_u16());
    let mut error = from_sdk(operation, error);
    let open = match error.class {
        ErrorClass::Throttled => true,
        ErrorClass::NoAnswer => error.code.is_none() || status >= 500,
        _ => false,
    };
    if !open {
        error.class = ErrorClass::Unauthorized;
    }
    error
}

fn from_credentials(error: &CredentialsError) -> CloudError {
    if let Some(cause) = find::<CloudError>(error) {
        return cause.clone();
    }
    if let Some(cause) = find::<SdkError<AssumeRoleWithWebIdentityError, HttpResponse>>(error) {
        return from_sts("AssumeRoleWithWebIdentity", cause);
    }
    match error {
        CredentialsError::ProviderTimedOut(_) => {
            CloudError::no_answer("credentials", "the source of the manager's own credentials did not answer in time")
        }
        CredentialsError::CredentialsNotLoaded(_) => CloudError::credentials(
            "the manager has no credentials of its own: neither environment nor profile, web identity, pod identity or \
             instance profile gives any",
        ),
        CredentialsError::InvalidConfiguration(_) => {
            CloudError::credentials("the configuration of the manager's own credentials is invalid")
        }
        // The source may answer again, such as an agent of EKS Pod Identity that is restarting.
        CredentialsError::Unhandled(_) => silent_source(),
        _ if find::<ConnectorError>(error).is_some() => silent_source(),
        _ => CloudError::credentials("the source of the manager's own credentials refuses to give any"),
    }
}

fn silent_source() -> CloudError {
    CloudError::no_answer("credentials", "the source of the manager's own credentials gave no usable answer")
}

fn connection_failure(error: Option<&ConnectorError>) -> String {
    match error {
        Some(error) if error.is_timeout() => "no connection in time".to_owned(),
        Some(error) => format!("connection failed: {}", innermost(error)),
        None => "connection failed".to_owned(),
    }
}

/// The innermost cause. The outer errors only repeat it.
fn innermost(error: &(dyn Error + 'static)) -> String {
    chain(error).last().map_or_else(String::new, ToString::to_string)
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(|cause| cause.downcast_ref::<T>())
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::operation::describe_vpcs::DescribeVpcsError;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;
    use aws_smithy_types::error::ErrorMetadata;

    use super::*;

    type Failure = SdkError<DescribeVpcsError, HttpResponse>;

    fn answered(status: u16, code: Option<&str>, message: &str) -> Failure {
        let mut metadata = ErrorMetadata::builder().message(message);
        if let Some(code) = code {
            metadata = metadata.code(code);
        }
        let response = HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::empty());
        SdkError::service_error(DescribeVpcsError::generic(metadata.build()), response)
    }

    fn credentials(cause: CloudError) -> Failure {
        SdkError::construction_failure(CredentialsError::provider_error(cause))
    }

    #[test]
    fn the_class_follows_the_error_code_and_not_the_status() {
        let error = from_sdk("RunInstances", &answered(500, Some("InsufficientInstanceCapacity"), "none left"));
        assert_eq!(error.class, ErrorClass::InsufficientCapacity);
        assert_eq!(error.to_string(), "RunInstances: InsufficientInstanceCapacity: none left");
    }

    #[test]
    fn an_answer_without_a_code_counts_as_no_answer() {
        let error = from_sdk("DescribeVpcs", &answered(502, None, "<html>"));
        assert_eq!(error, CloudError::no_answer("DescribeVpcs", "HTTP 502 without an error code"));
    }

    #[test]
    fn missing_answers_are_distinguished_by_their_cause() {
        let timeout: Failure = SdkError::timeout_error("late");
        assert_eq!(from_sdk("DescribeVpcs", &timeout).class, ErrorClass::NoAnswer);
        let refused = ConnectorError::io(std::io::Error::other("connection refused").into());
        let refused: Failure = SdkError::dispatch_failure(refused);
        assert_eq!(
            from_sdk("DescribeVpcs", &refused),
            CloudError::no_answer("DescribeVpcs", "connection failed: connection refused")
        );
    }

    #[test]
    fn credential_errors_have_the_code_and_message_of_sts() {
        let refusal = CloudError::answered("AssumeRole", "AccessDenied", "not allowed");
        assert_eq!(from_sdk("DescribeVpcs", &credentials(refusal.clone())), refusal);
        let silence = CloudError::no_answer("AssumeRole", "no answer in time");
        assert_eq!(from_sdk("DescribeVpcs", &credentials(silence.clone())), silence);
    }

    #[test]
    fn absent_credentials_are_unauthorized() {
        let none: Failure = SdkError::construction_failure(CredentialsError::not_loaded("secret detail"));
        let error = from_sdk("DescribeVpcs", &none);
        assert_eq!(error.class, ErrorClass::Unauthorized);
        assert!(!error.to_string().contains("secret detail"));
    }

    #[test]
    fn a_refusal_of_sts_is_unauthorized_its_failure_is_not() {
        let class = |status, code: &str| from_sts("AssumeRole", &answered(status, Some(code), "")).class;
        assert_eq!(class(403, "AccessDenied"), ErrorClass::Unauthorized);
        assert_eq!(class(400, "MalformedPolicyDocument"), ErrorClass::Unauthorized);
        assert_eq!(class(403, "RegionDisabledException"), ErrorClass::Unauthorized);
        assert_eq!(class(400, "Throttling"), ErrorClass::Throttled);
        assert_eq!(class(500, "InternalFailure"), ErrorClass::NoAnswer);
    }
}
