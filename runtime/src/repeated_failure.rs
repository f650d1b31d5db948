//! The log lines about a request that is repeated until it succeeds: one for its failure, and one for its success.

use std::error::Error;

use tracing::{debug, info, warn};

use crate::errors::{answer, described};

/// The advice for a request that the API server forbids.
const PERMISSION_HINT: &str =
    "the ServiceAccount of the manager lacks this permission: apply the RBAC manifests of the release";

/// The last failure of a repeated request.
#[derive(Debug)]
pub struct RepeatedFailure {
    attempted: String,
    last: Option<String>,
}

impl RepeatedFailure {
    /// A request that has not failed yet. `attempted` is a phrase with a verb: `watch AWSMachine`.
    pub fn new(attempted: impl Into<String>) -> Self {
        Self { attempted: attempted.into(), last: None }
    }

    /// Records a failure of the request, and logs a warning unless the last failure was the same.
    pub fn failed(&mut self, error: &(dyn Error + 'static)) {
        let hint = answer(error).filter(|status| status.is_forbidden()).map(|_| PERMISSION_HINT);
        self.log(described(error), hint);
    }

    /// Records that the request got no answer in time.
    pub fn timed_out(&mut self) {
        self.log("no answer in time".to_owned(), None);
    }

    fn log(&mut self, error: String, hint: Option<&str>) {
        let attempted = &self.attempted;
        if self.last.as_ref() == Some(&error) {
            debug!(%error, "failed to {attempted} again");
            return;
        }
        warn!(%error, hint, "failed to {attempted}, trying again");
        self.last = Some(error);
    }

    /// Records the success of the request, and logs it if the request had failed before.
    pub fn succeeded(&mut self) {
        if self.last.take().is_some() {
            info!("it is possible again to {}", self.attempted);
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::logging::LogFormat;
    use crate::testing::logged;

    fn answered(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("no", reason).with_code(code).boxed())
    }

    #[test]
    fn a_failure_is_logged_once_until_it_changes_or_ends() {
        let log = logged(LogFormat::Text, 0, || {
            let mut failure = RepeatedFailure::new("watch Widget");
            failure.succeeded();
            for _ in 0..3 {
                failure.failed(&answered(500, "InternalError"));
            }
            for _ in 0..3 {
                failure.timed_out();
            }
            failure.succeeded();
            failure.succeeded();
            failure.timed_out();
        });
        let told: Vec<_> = log.iter().map(|line| line.split_once(": ").unwrap().1).collect();
        let late = "failed to watch Widget, trying again error=no answer in time";
        let refused = "failed to watch Widget, trying again error=the API server answered 500 InternalError: no";
        assert_eq!(told, [refused, late, "it is possible again to watch Widget", late]);
    }

    #[test]
    fn a_forbidden_request_has_a_hint_at_the_manifests() {
        let log = logged(LogFormat::Text, 0, || {
            RepeatedFailure::new("watch Widget").failed(&answered(403, "Forbidden"));
        });
        assert!(log[0].contains("403 Forbidden") && log[0].contains("RBAC manifests"), "{log:?}");
    }
}
