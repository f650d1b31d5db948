//! Faults of single calls.

use std::time::Duration;

use capa_cloud::CloudError;
use capa_cloud::managed::{Call, ChangeAnswer};

/// What goes wrong with a call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// AWS refuses the call with this code. The call takes no effect.
    Refused(&'static str),
    /// AWS throttles the call. The call takes no effect.
    Throttled,
    /// The provider's own limits allow the call only after this time. It is not made.
    Deferred(Duration),
    /// The call takes effect, and its answer is lost.
    AnswerLost,
    /// The call is lost on its way: it has neither an effect nor an answer.
    NoEffect,
    /// The process ends just before the call.
    CrashBefore,
    /// The process ends after the call has taken effect and before the process has its answer.
    CrashAfter,
    /// As [`Fault::CrashAfter`], and the calls that are made at the same time take effect, too, without an answer.
    CrashInFlight,
}

impl Fault {
    /// Whether the call takes effect, as far as AWS's rules allow it.
    pub fn takes_effect(self) -> bool {
        matches!(self, Self::AnswerLost | Self::CrashAfter | Self::CrashInFlight)
    }

    /// Whether the process ends.
    pub fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::CrashInFlight)
    }

    /// The answer that the caller gets; `None` if the caller ends.
    pub(crate) fn answer(self, call: &Call<String>) -> Option<Result<ChangeAnswer, CloudError>> {
        let action = call.action();
        match self {
            Self::Refused(code) => Some(Err(refusal(action, code))),
            Self::Throttled => {
                let code = match call {
                    Call::Ec2(_) => "RequestLimitExceeded",
                    Call::Elb(_) => "Throttling",
                };
                Some(Err(refusal(action, code)))
            }
            Self::Deferred(after) => Some(Err(CloudError::deferred(action, after))),
            Self::AnswerLost | Self::NoEffect => Some(Err(CloudError::no_answer(action, "the answer was lost"))),
            Self::CrashBefore | Self::CrashAfter | Self::CrashInFlight => None,
        }
    }
}

/// A refusal that does not follow from AWS's rules.
pub(crate) fn refusal(action: &'static str, code: &str) -> CloudError {
    let message = match code {
        "UnauthorizedOperation" => format!("You are not authorized to perform: ec2:{action}"),
        "AccessDenied" => format!("User is not authorized to perform: elasticloadbalancing:{action}"),
        _ => format!("The test refuses {action}"),
    };
    CloudError::answered(action, code, &message)
}
