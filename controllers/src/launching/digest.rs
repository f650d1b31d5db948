//! Digests in text. Pure.

use std::fmt::Write as _;

/// The bytes in lower case hexadecimal digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing into a String does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
