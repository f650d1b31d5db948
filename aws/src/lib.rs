//! The only crate that names the AWS SDK: adapters, credentials, limits, instance store
