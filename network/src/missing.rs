//! A field that a launch needs and that no source supplies.

use std::fmt;

use capa_api::conditions::Reason;

use crate::merge::{Problem, UnlabelledKind};

/// A field of the network contract without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingField<'a> {
    /// The field of the contract.
    pub field: &'static str,
    /// The field of a machine's spec that also supplies the value.
    pub spec_field: &'static str,
    /// The kind of the infrastructure object, if the object was not read.
    pub unlabelled: Option<&'a UnlabelledKind>,
}

impl<'a> MissingField<'a> {
    /// The region.
    pub const fn region(unlabelled: Option<&'a UnlabelledKind>) -> Self {
        Self { field: "region", spec_field: "region", unlabelled }
    }

    /// The subnets.
    pub const fn subnets(unlabelled: Option<&'a UnlabelledKind>) -> Self {
        Self { field: "subnets", spec_field: "subnet", unlabelled }
    }
}

impl fmt::Display for MissingField<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, spec_field, .. } = self;
        write!(formatter, "no source supplies {field}: ")?;
        match self.unlabelled {
            Some(kind) => write!(formatter, "{kind}; add the label")?,
            None => write!(formatter, "let the cluster's infrastructure object publish status.network.{field}")?,
        }
        // The spec of a machine cannot change.
        write!(formatter, ", or set spec.template.spec.{spec_field} in a new AWSMachineTemplate")
    }
}

impl From<MissingField<'_>> for Problem {
    fn from(missing: MissingField<'_>) -> Self {
        Self::new(Reason::MissingField, missing.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_is_never_to_be_set_on_a_machine() {
        assert_eq!(
            MissingField::subnets(None).to_string(),
            "no source supplies subnets: let the cluster's infrastructure object publish status.network.subnets, or \
             set spec.template.spec.subnet in a new AWSMachineTemplate"
        );
    }

    #[test]
    fn a_missing_field_of_an_unlabelled_kind_names_the_label() {
        let kind = UnlabelledKind { group: "example.org".into(), kind: "Landscape".into() };
        assert_eq!(
            MissingField::region(Some(&kind)).to_string(),
            "no source supplies region: the CRD of Landscape in group example.org does not have the label \
             infrastructure.cluster.x-k8s.io/machine-network: v1, so status.network of a Landscape is not read; add \
             the label, or set spec.template.spec.region in a new AWSMachineTemplate"
        );
    }
}
