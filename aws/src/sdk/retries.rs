//! The errors that the SDK does not retry.

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use capa_cloud::{ErrorClass, classify};

use super::metrics::code;

/// Keeps the SDK from retrying a throttled call. Its retries would bypass the provider's own rate limits, and multiply
/// the calls exactly when AWS demands fewer. The caller waits for another turn instead.
#[derive(Debug)]
pub(crate) struct ThrottlesAreNotRetried;

impl ClassifyRetry for ThrottlesAreNotRetried {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context.output_or_error().and_then(Result::err);
        let code = error.and_then(|error| error.as_operation_error()).and_then(code);
        match code.as_deref().map(classify) {
            Some(ErrorClass::Throttled) => RetryAction::RetryForbidden,
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "ThrottlesAreNotRetried"
    }
}
