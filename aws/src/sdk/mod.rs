//! What all calls have in common: configuration, credentials, endpoints, retries, request rates, pages, errors,
//! metrics.

pub(crate) mod caller;
pub(crate) mod config;
mod credentials;
pub(crate) mod endpoints;
mod error;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod pages;
pub(crate) mod regions;
pub(crate) mod replacements;
mod retries;
