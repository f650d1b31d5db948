//! The reconcilers, one room a kind
