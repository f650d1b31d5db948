//! The errors that the SDK does not retry.

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use capa_cloud::{ErrorClass, classify};

use super::error_code::error_code;

/// Keeps the SDK from retrying a throttled call. Its retries would bypass the provider's own rate limits, and multiply
/// the calls exactly when AWS demands fewer. The caller waits for another turn instead.
#[derive(Debug)]
pub(crate) struct ThrottlesAreNotRetried;

impl ClassifyRetry for ThrottlesAreNotRetried {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let has_failed = matches!(context.output_or_error(), Some(Err(_)));
        let code = context.response().filter(|_| has_failed).and_then(error_code);
        match code.as_deref().map(classify) {
            Some(ErrorClass::Throttled) => RetryAction::RetryForbidden,
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "ThrottlesAreNotRetried"
    }
}
