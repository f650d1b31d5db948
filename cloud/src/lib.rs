//! What the reconcilers know of AWS: model, traits, error classes. No SDK.
