//! Invalid values in messages. Pure.

/// Maximum number of characters of an invalid value that a message repeats.
const MAX_SHOWN_CHARACTERS: usize = 64;

/// The beginning of an invalid value, for a message about it.
pub(crate) fn shortened(value: &str) -> String {
    value.chars().take(MAX_SHOWN_CHARACTERS).collect()
}
