//! The machine image of a machine spec. Pure.

use capa_api::machine::AWSMachineSpec;

/// The image that the spec names by id.
pub(crate) fn image_id(spec: &AWSMachineSpec) -> Option<&str> {
    spec.ami.as_ref()?.id.as_deref().filter(|id| !id.is_empty())
}
