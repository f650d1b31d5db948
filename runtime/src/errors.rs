//! Errors in the form of the log: every cause once, and without the debug output of libraries.

use std::error::Error;

use kube::core::Status;

/// The error and its causes, outermost first. Many errors repeat their cause in their own text; the result contains it
/// once. The text may name the ServiceAccount of the manager, so it is for the log, and must not be written to objects
/// that tenants can read.
pub fn described(error: &(dyn Error + 'static)) -> String {
    let mut told = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let (own, cause) = own_words(error);
        if !own.is_empty() && !told.contains(&own) {
            if !told.is_empty() {
                told.push_str(": ");
            }
            told.push_str(&own);
        }
        next = cause;
    }
    told
}

/// The answer with which the API server refused a request, anywhere among the causes.
pub(crate) fn answer<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    let mut causes = std::iter::successors(Some(error), |error| Error::source(*error));
    causes.find_map(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status.as_ref()),
        _ => None,
    })
}

/// The text that an error adds to the text of its cause, and the cause.
fn own_words<'a>(error: &'a (dyn Error + 'static)) -> (String, Option<&'a (dyn Error + 'static)>) {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        // kube adds the debug form of the answer.
        let Status { code, reason, message, .. } = status.as_ref();
        return (format!("the API server answered {code} {reason}: {message}"), None);
    }
    let text = error.to_string();
    let Some(cause) = error.source() else {
        return (text, None);
    };
    let own = text.strip_suffix(&cause.to_string()).map(|own| own.trim_end_matches([':', ' ']));
    (own.unwrap_or(&text).to_owned(), Some(cause))
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher;
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("failed to read Secret team/one")]
    struct Outer(#[source] kube::Error);

    #[derive(Debug, Error)]
    #[error("connection failed: {0}")]
    struct Repeating(#[source] std::io::Error);

    fn forbidden() -> kube::Error {
        let status = Status::failure("secrets \"one\" is forbidden", "Forbidden");
        kube::Error::Api(status.with_code(403).boxed())
    }

    #[test]
    fn an_answer_of_the_server_has_no_debug_form() {
        let said = "the API server answered 403 Forbidden: secrets \"one\" is forbidden";
        let read = Outer(forbidden());
        assert_eq!(described(&read), format!("failed to read Secret team/one: {said}"));
        let listed = watcher::Error::InitialListFailed(forbidden());
        let expected = format!("failed to perform initial object list: {said}");
        assert_eq!(described(&listed), expected);
        assert_eq!(answer(&listed).map(|status| status.code), Some(403));
    }

    #[test]
    fn a_cause_that_an_error_repeats_is_told_once() {
        let error = Repeating(std::io::Error::other("refused"));
        assert_eq!(described(&error), "connection failed: refused");
        assert!(answer(&error).is_none());
    }
}
