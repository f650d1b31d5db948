//! How a user changes the spec of a machine, which is immutable. Pure.

use std::fmt;

use capa_api::meta;
use kube::api::ObjectMeta;

/// The object that a user creates to change a field of a machine's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement<'a> {
    /// A new template that replaces the template with this name, from which the machine was created.
    Template(&'a str),
    /// A new machine that replaces this one, which was created by hand.
    Machine,
}

impl<'a> Replacement<'a> {
    /// The replacement of the AWSMachine with this metadata.
    pub(crate) fn of(machine: &'a ObjectMeta) -> Self {
        let template = meta::annotation(machine, meta::CLONED_FROM_NAME_ANNOTATION);
        template.map_or(Self::Machine, Self::Template)
    }
}

impl fmt::Display for Replacement<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(name) => write!(formatter, "make a new template in place of AWSMachineTemplate/{name}"),
            Self::Machine => formatter.write_str("make a new AWSMachine in place of this one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    #[test]
    fn a_machine_from_a_template_names_the_template() {
        let cloned = read(&format!("{{annotations: {{{}: workers}}}}", meta::CLONED_FROM_NAME_ANNOTATION));
        assert_eq!(Replacement::of(&cloned), Replacement::Template("workers"));
        assert_eq!(Replacement::of(&ObjectMeta::default()), Replacement::Machine);
    }
}
