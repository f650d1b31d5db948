//! One block for all instances that a deletion has to end. Pure.

use capa_api::conditions::Reason;

use crate::awsmachine::blocked::{Blocked, earlier};

/// The block of a deletion whose instances are blocked like this: its condition has the message of each instance, and
/// the next pass is the earliest of all. None without a block.
pub(in crate::awsmachine) fn merged(mut blocks: Vec<Blocked>) -> Option<Blocked> {
    // An instance that cannot be ended gives the reason, rather than one that is ending.
    blocks.sort_by_key(|blocked| blocked.condition.reason == Reason::Terminating);
    blocks.into_iter().reduce(|mut first, other| {
        let (message, added) = (&mut first.condition.message, &other.condition.message);
        if message != added {
            message.push_str("; ");
            message.push_str(added);
        }
        first.next = earlier(first.next, other.next);
        first
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use capa_api::conditions::ConditionType;
    use capa_runtime::reconcile::Next;

    use super::*;

    fn blocked(reason: Reason, message: &str, next: Next) -> Blocked {
        Blocked::new(ConditionType::InstanceReady.is_false(reason, message), next)
    }

    fn requeue(seconds: u64) -> Next {
        Next::Requeue(Duration::from_secs(seconds))
    }

    #[test]
    fn an_instance_that_cannot_be_ended_gives_the_reason() {
        let ending = blocked(Reason::Terminating, "one is being terminated", requeue(60));
        let refused = blocked(Reason::Unauthorized, "the other is refused", requeue(5));
        let merged = merged(vec![ending, refused]).expect("a block");
        assert_eq!(merged.condition.reason, Reason::Unauthorized);
        assert_eq!(
            merged.condition.message,
            "the other is refused; one is being terminated"
        );
        assert_eq!(merged.next, requeue(5));
    }

    #[test]
    fn the_earliest_pass_is_that_of_the_deletion() {
        let ending = |next| blocked(Reason::Terminating, "ending", next);
        let next = |nexts: Vec<Next>| merged(nexts.into_iter().map(ending).collect()).map(|blocked| blocked.next);
        assert_eq!(next(vec![]), None);
        assert_eq!(next(vec![Next::AwaitChange, requeue(7)]), Some(requeue(7)));
        assert_eq!(next(vec![requeue(7), requeue(5)]), Some(requeue(5)));
        assert_eq!(next(vec![requeue(7), Next::Retry]), Some(Next::Retry));
        let limited = Next::Deferred(Duration::from_secs(3));
        assert_eq!(next(vec![limited, requeue(7)]), Some(requeue(3)));
    }

    #[test]
    fn equal_messages_are_said_once() {
        let ending = || blocked(Reason::Terminating, "ending", Next::AwaitChange);
        let merged = merged(vec![ending(), ending()]).expect("a block");
        assert_eq!(merged.condition.message, "ending");
    }
}
