//! Controller plumbing: lease, backoff, panic isolation, readiness, status writer, metrics, logs
