//! EC2's published request limits, per account, region and action:
//! <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>. A bucket starts full.

use std::collections::BTreeMap;

use jiff::Timestamp;

use capa_cloud::CloudError;

/// Tokens are counted in millionths: a refill of one token per second is one millionth per microsecond.
const TOKEN: i128 = 1_000_000;

/// The buckets of one account and region.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenBuckets {
    requests: BTreeMap<&'static str, TokenBucket>,
    resources: BTreeMap<&'static str, TokenBucket>,
}

#[derive(Clone, Debug)]
struct TokenBucket {
    millionths: i128,
    filled_at: Timestamp,
}

/// The capacity of a bucket in tokens, and its refill in tokens per second.
#[derive(Clone, Copy)]
struct Size {
    capacity: i128,
    refill: i128,
}

/// The bucket of an action. Every describe call here has filters or pages.
fn requests_of(action: &str) -> Size {
    let (capacity, refill) = match action {
        "RunInstances" | "StartInstances" => (5, 2),
        "TerminateInstances" => (100, 5),
        _ if action.starts_with("Describe") => (100, 20),
        _ => (50, 5),
    };
    Size { capacity, refill }
}

/// The bucket for the instances in the requests of an action, for the few actions that have one.
fn resources_of(action: &str) -> Option<Size> {
    let refill = match action {
        "RunInstances" | "StartInstances" => 2,
        "TerminateInstances" | "StopInstances" => 20,
        _ => return None,
    };
    Some(Size { capacity: 1000, refill })
}

impl TokenBuckets {
    /// Takes the tokens of a call for a number of instances, or refuses the call and takes no tokens.
    pub(super) fn acquire(&mut self, now: Timestamp, action: &'static str, instances: usize) -> Result<(), CloudError> {
        let request = filled(&mut self.requests, action, requests_of(action), now);
        let mut resource = resources_of(action).map(|size| filled(&mut self.resources, action, size, now));
        let wanted = i128::try_from(instances).unwrap_or(i128::MAX).saturating_mul(TOKEN);
        if request.millionths < TOKEN || resource.as_ref().is_some_and(|bucket| bucket.millionths < wanted) {
            return Err(exceeded(action));
        }
        request.millionths -= TOKEN;
        if let Some(bucket) = &mut resource {
            bucket.millionths -= wanted;
        }
        Ok(())
    }
}

/// The answer to a call beyond the limits.
pub(super) fn exceeded(action: &'static str) -> CloudError {
    CloudError::answered(action, "RequestLimitExceeded", "Request limit exceeded.")
}

fn filled<'a>(
    buckets: &'a mut BTreeMap<&'static str, TokenBucket>,
    action: &'static str,
    size: Size,
    now: Timestamp,
) -> &'a mut TokenBucket {
    let full = size.capacity * TOKEN;
    let bucket = buckets.entry(action).or_insert(TokenBucket { millionths: full, filled_at: now });
    let passed = now.duration_since(bucket.filled_at).as_micros().max(0);
    bucket.millionths = (bucket.millionths + passed * size.refill).min(full);
    bucket.filled_at = bucket.filled_at.max(now);
    bucket
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::time::after;
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn acquired(
        buckets: &mut TokenBuckets,
        now: Timestamp,
        action: &'static str,
        instances: usize,
        tries: usize,
    ) -> usize {
        (0..tries).filter(|_| buckets.acquire(now, action, instances).is_ok()).count()
    }

    #[test]
    fn a_burst_is_followed_by_the_refill() {
        let mut buckets = TokenBuckets::default();
        assert_eq!(acquired(&mut buckets, START, "RunInstances", 1, 10), 5);
        let second = after(START, Duration::from_millis(999));
        assert_eq!(acquired(&mut buckets, second, "RunInstances", 1, 10), 1);
        let third = after(START, Duration::from_secs(1));
        assert_eq!(acquired(&mut buckets, third, "RunInstances", 1, 10), 1);
        let later = after(START, Duration::from_secs(1000));
        assert_eq!(acquired(&mut buckets, later, "RunInstances", 1, 10), 5);
    }

    #[test]
    fn instances_count_besides_calls_and_a_refused_call_is_free() {
        let mut buckets = TokenBuckets::default();
        assert_eq!(acquired(&mut buckets, START, "TerminateInstances", 500, 3), 2);
        let error = buckets.acquire(START, "TerminateInstances", 1).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("RequestLimitExceeded"));
        let second = after(START, Duration::from_secs(1));
        assert_eq!(acquired(&mut buckets, second, "TerminateInstances", 20, 2), 1);
    }
}
