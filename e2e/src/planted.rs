//! The search for planted secrets in the leftovers of a test: as plain text, in base64, compressed, and as lists of
//! bytes.

use std::io::Read as _;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::GzDecoder;

/// The depth of nested encodings. The deepest is base64 in base64, such as user data in a Secret's data.
const DEPTH: usize = 3;

/// The least length of a candidate, in base64 characters or bytes: no secret is shorter.
const SHORTEST: usize = 16;

/// The limit for the decompressed content of a gzip stream: no user data is longer.
const LARGEST: u64 = 1 << 20;

const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// An engine that accepts base64 cut anywhere, with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the `secrets` that `text` contains: plain, percent-encoded, in base64, as a list of bytes, or compressed by
/// gzip.
pub fn found<'a>(text: &[u8], secrets: &'a [String]) -> Vec<&'a str> {
    let mut unseen: Vec<&str> = secrets.iter().map(String::as_str).collect();
    search(text, &mut unseen, DEPTH);
    let seen = |secret: &&str| !unseen.contains(secret);
    secrets.iter().map(String::as_str).filter(seen).collect()
}

/// Removes from `unseen` the secrets in the text, and in anything that the text encodes.
fn search(text: &[u8], unseen: &mut Vec<&str>, depth: usize) {
    unseen.retain(|secret| !contains(text, secret.as_bytes()));
    let Some(depth) = depth.checked_sub(1).filter(|_| !unseen.is_empty()) else {
        return;
    };
    if text.contains(&b'%') {
        search(&percent_decoded(text), unseen, depth);
    }
    let unwrapped = runs(text).flat_map(decoded).chain(lists(text)).chain(streams(text));
    unwrapped.for_each(|bytes| search(&bytes, unseen, depth));
}

fn contains(text: &[u8], secret: &[u8]) -> bool {
    text.windows(secret.len()).any(|window| window == secret)
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let pairs = form_urlencoded::parse(text);
    pairs
        .flat_map(|(key, value)| {
            [key.into_owned(), "=".to_owned(), value.into_owned(), "&".to_owned()].concat().into_bytes()
        })
        .collect()
}

/// The runs of characters that may be base64, in the usual alphabet or the one for URLs.
fn runs(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    text.split(move |byte| !is_base64(byte)).filter(|run| run.len() >= SHORTEST)
}

/// The decoded bytes of a run, for each possible start of the base64 in it.
fn decoded(run: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let usual: Vec<u8> = run
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    (0..4).filter_map(move |start| {
        let rest = usual.get(start..)?;
        // A single character after whole groups encodes no byte.
        let end = rest.len() - usize::from(rest.len() % 4 == 1);
        LENIENT.decode(rest.get(..end)?).ok()
    })
}

/// The lists of decimal numbers that may be bytes in Rust's debug format, on one line or on many.
fn lists(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    // Within JSON a line break is written as `\n`.
    let is_list = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace() || b",\\n".contains(byte);
    text.split(move |byte| !is_list(byte))
        .map(|list| list.split(|byte| *byte == b',').filter_map(number).collect())
        .filter(|bytes: &Vec<u8>| bytes.len() >= SHORTEST)
}

fn number(item: &[u8]) -> Option<u8> {
    let digits = item.iter().filter(|byte| byte.is_ascii_digit());
    let text: String = digits.map(|digit| char::from(*digit)).collect();
    text.parse().ok()
}

/// The decompressed contents of the gzip streams in some bytes.
fn streams(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let begins = |at: &usize| bytes.get(*at..).is_some_and(|rest| rest.starts_with(&GZIP));
    (0..bytes.len()).filter(begins).filter_map(|at| {
        let mut content = Vec::new();
        let stream = GzDecoder::new(bytes.get(at..)?);
        // A truncated stream has been decompressed as far as possible.
        let _ = stream.take(LARGEST).read_to_end(&mut content);
        (!content.is_empty()).then_some(content)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const SECRET: &str = "planted/join+token.0123456789abcdef";

    fn user_data() -> String {
        format!("#cloud-config\n# {SECRET}\n{}", "x".repeat(100))
    }

    fn compressed() -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(user_data().as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_secret_is_found_in_every_wrapping() {
        let plain = user_data();
        let wrapped = [
            plain.clone(),
            BASE64_STANDARD.encode(&plain),
            // The secret is not at the start, so that its own base64 does not occur in the text.
            format!("{{\"body\":\"ab/cde{}\"}}", BASE64_STANDARD.encode(&plain)),
            BASE64_URL_SAFE_NO_PAD.encode(&plain),
            BASE64_STANDARD.encode(compressed()),
            BASE64_STANDARD.encode(BASE64_STANDARD.encode(compressed())),
            form_urlencoded::Serializer::new(String::new())
                .append_pair("Action", "RunInstances")
                .append_pair("UserData", &BASE64_STANDARD.encode(compressed()))
                .finish(),
            // Rust's debug format of bytes: on one line, on many lines, and on many lines within JSON.
            format!("{:?}", plain.as_bytes()),
            format!("ByteString({:#?})", plain.as_bytes()),
            format!("{:#?}", plain.as_bytes()).escape_debug().to_string(),
            format!("{:?}", compressed()),
            format!("{:?}", BASE64_STANDARD.encode(&plain).as_bytes()),
        ];
        let secrets = ["another".repeat(5), SECRET.to_owned()];
        for text in wrapped {
            let log = format!("INFO launching: {text} (done)");
            assert_eq!(found(log.as_bytes(), &secrets), [SECRET], "{log}");
        }
        assert_eq!(found(&compressed(), &secrets), [SECRET], "a raw body");
    }

    #[test]
    fn an_absent_secret_is_not_found() {
        let log = format!("INFO user data of {} bytes {}", compressed().len(), BASE64_STANDARD.encode("x".repeat(500)));
        assert!(found(log.as_bytes(), &[SECRET.to_owned()]).is_empty());
    }
}
