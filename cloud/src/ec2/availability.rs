//! The state of a resource that can be used once it is available.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// The state of a VPC, subnet, image, placement group or VPC endpoint, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum Availability {
    /// AWS is creating the resource.
    #[default]
    Pending,
    /// The resource can be used. EC2's reference spells the states of a VPC endpoint with a capital.
    #[serde(alias = "Available")]
    Available,
    /// A state in which the resource cannot be used.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_state_keeps_its_word() {
        for (word, state) in [
            ("pending", Availability::Pending),
            ("available", Availability::Available),
            ("Deleting", Availability::Other("Deleting".to_owned())),
        ] {
            assert_eq!((Availability::from(word), state.to_string().as_str()), (state.clone(), word));
            let json = format!("\"{word}\"");
            assert_eq!(serde_json::to_string(&state).unwrap(), json);
            assert_eq!(serde_json::from_str::<Availability>(&json).unwrap(), state);
        }
        let with_capital = serde_json::from_str::<Availability>("\"Available\"").unwrap();
        assert_eq!((with_capital, Availability::from("Available")), (Availability::Available, Availability::Available));
    }
}
