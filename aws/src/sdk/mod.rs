//! The parts that all calls share: configuration, credentials, endpoints, retries, rate limits, pages, errors, metrics.

pub(crate) mod call_runner;
pub(crate) mod clients;
pub(crate) mod config;
mod credentials;
pub(crate) mod endpoints;
mod error;
mod error_code;
mod http;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod pages;
pub(crate) mod regions;
pub(crate) mod replacements;
mod retries;
