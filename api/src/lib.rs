//! The API of cluster-api-provider-aws-rs: CRD types, network contract, conditions, defaults
