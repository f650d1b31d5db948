//! Compression of bootstrap data. Pure.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses data without a time stamp, so that equal data gives equal bytes and a repeated launch has the same
/// parameters.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(data).and_then(|()| encoder.finish());
    // Writing to memory cannot fail, and EC2 accepts uncompressed data as well.
    written.unwrap_or_else(|_| data.to_vec())
}
