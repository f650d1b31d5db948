//! Converts the bootstrap Secret to the user data of an instance. Pure. No message contains bootstrap data.

use std::fmt;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachineSpec, BootstrapDelivery};
use capa_cloud::UserData;
use k8s_openapi::api::core::v1::Secret;

use super::compression::gzip;

/// The first bytes of data in the format gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Converts the Secret to user data, or returns the condition with the reason why the Secret cannot be used.
pub(crate) fn user_data(
    spec: &AWSMachineSpec,
    secret: Option<&Secret>,
    name: &str,
) -> Result<UserData, ConditionUpdate> {
    let not_ready = |reason, message: String| ConditionType::BootstrapDataReady.is_false(reason, message);
    let Some(secret) = secret else {
        return Err(not_ready(
            Reason::WaitingForBootstrapData,
            format!("the bootstrap Secret {name} that the Machine names does not exist yet"),
        ));
    };
    let value = |key: &str| {
        secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .map(|bytes| bytes.0.as_slice())
    };
    let Some(data) = value("value").filter(|data| !data.is_empty()) else {
        return Err(not_ready(
            Reason::WaitingForBootstrapData,
            format!("the bootstrap Secret {name} has nothing under key value yet"),
        ));
    };
    let format = value("format").map_or_else(|| "cloud-config".into(), String::from_utf8_lossy);
    if format != "cloud-config" || spec.ignition.is_some() {
        return Err(not_ready(
            Reason::UnsupportedFormat,
            format!("only bootstrap format cloud-config is supported, Secret {name} or spec.ignition asks for another"),
        ));
    }
    if spec.effective_bootstrap_delivery() != BootstrapDelivery::Inline {
        return Err(not_ready(
            Reason::StorageNotSupported,
            "bootstrap data through Secrets Manager or SSM is not supported yet, and it is never sent inline unasked: \
             set cloudInit.insecureSkipSecretsManager: true on the machine template"
                .to_owned(),
        ));
    }
    let compresses = !spec.effective_uncompressed_user_data();
    let sent = if compresses { gzip(data) } else { data.to_vec() };
    if sent.len() > UserData::MAX_BYTES {
        let too_large = TooLarge {
            secret: name,
            bytes: sent.len(),
            packing: Packing::of(data, compresses),
        };
        return Err(not_ready(Reason::TooLarge, too_large.to_string()));
    }
    Ok(UserData::new(sent))
}

/// Bootstrap data that EC2 does not accept.
struct TooLarge<'a> {
    secret: &'a str,
    /// Number of bytes that would be sent.
    bytes: usize,
    packing: Packing,
}

/// Whether compression makes bootstrap data smaller.
enum Packing {
    /// The data is sent compressed.
    Done,
    /// The data in the Secret is compressed already.
    InSecret,
    /// The data is not compressed, and has this number of bytes compressed.
    Possible(usize),
}

impl Packing {
    fn of(data: &[u8], compresses: bool) -> Self {
        if data.starts_with(&GZIP) {
            Self::InSecret
        } else if compresses {
            Self::Done
        } else {
            Self::Possible(gzip(data).len())
        }
    }
}

impl fmt::Display for TooLarge<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, most, secret) = (self.bytes, UserData::MAX_BYTES, self.secret);
        write!(formatter, "the user data has {bytes} bytes, and EC2 accepts {most}: ")?;
        let shorten = format!("shorten the bootstrap data in Secret {secret}");
        match self.packing {
            Packing::Done => write!(formatter, "it is compressed, so {shorten}"),
            Packing::InSecret => write!(formatter, "it is compressed in the Secret already, so {shorten}"),
            Packing::Possible(compressed) if compressed > most => {
                write!(formatter, "compressed it has {compressed}, so {shorten}")
            }
            Packing::Possible(compressed) => write!(
                formatter,
                "compressed it has {compressed}: set spec.template.spec.uncompressedUserData: false in a new \
                 AWSMachineTemplate, or {shorten}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &[u8])]) -> Secret {
        let data = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())))
            .collect();
        Secret {
            data: Some(data),
            ..Secret::default()
        }
    }

    fn spec(yaml: &str) -> AWSMachineSpec {
        serde_saphyr::from_str(&format!("{{instanceType: t3.large, {yaml}}}")).unwrap()
    }

    const INLINE: &str = "cloudInit: {insecureSkipSecretsManager: true}";

    fn refusal(spec_yaml: &str, secret: Option<&Secret>) -> Reason {
        user_data(&spec(spec_yaml), secret, "boot").unwrap_err().reason
    }

    #[test]
    fn inline_data_is_passed_on_as_it_is() {
        let secret = secret(&[("value", b"#cloud-config"), ("format", b"cloud-config")]);
        assert_eq!(
            user_data(&spec(INLINE), Some(&secret), "boot").unwrap().expose(),
            b"#cloud-config"
        );
    }

    #[test]
    fn data_is_compressed_on_request_to_the_same_bytes_each_time() {
        let secret = secret(&[("value", b"#cloud-config")]);
        let spec = spec(&format!("{INLINE}, uncompressedUserData: false"));
        let first = user_data(&spec, Some(&secret), "boot").unwrap();
        assert_eq!(first, user_data(&spec, Some(&secret), "boot").unwrap());
        let mut plain = Vec::new();
        GzDecoder::new(first.expose()).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, b"#cloud-config");
    }

    #[test]
    fn what_cannot_be_handed_over_is_refused_with_its_reason() {
        let good = secret(&[("value", b"#cloud-config")]);
        let ignition = secret(&[("value", b"{}"), ("format", b"ignition")]);
        let large = secret(&[("value", &vec![b'x'; UserData::MAX_BYTES + 1])]);
        assert_eq!(refusal(INLINE, None), Reason::WaitingForBootstrapData);
        assert_eq!(refusal(INLINE, Some(&secret(&[]))), Reason::WaitingForBootstrapData);
        assert_eq!(refusal(INLINE, Some(&ignition)), Reason::UnsupportedFormat);
        assert_eq!(
            refusal("ignition: {version: '3.4'}", Some(&good)),
            Reason::UnsupportedFormat
        );
        assert_eq!(refusal("publicIP: false", Some(&good)), Reason::StorageNotSupported);
        assert_eq!(refusal(INLINE, Some(&large)), Reason::TooLarge);
    }

    #[test]
    fn the_message_about_storage_names_the_field_that_helps() {
        let good = secret(&[("value", b"#cloud-config")]);
        let refused = user_data(&spec("cloudInit: {}"), Some(&good), "boot").unwrap_err();
        assert!(
            refused.message.contains("cloudInit.insecureSkipSecretsManager: true"),
            "{}",
            refused.message
        );
    }

    /// Bytes that compression does not make smaller.
    fn random(length: usize) -> Vec<u8> {
        let mut state: u32 = 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn compression_is_advised_only_where_it_helps() {
        let compressed = format!("{INLINE}, uncompressedUserData: false");
        let most = UserData::MAX_BYTES;
        let packed = gzip(&random(most));
        let table: [(&str, Vec<u8>, &str); 5] = [
            (
                INLINE,
                vec![b'x'; most + 1],
                "set spec.template.spec.uncompressedUserData: false in a new",
            ),
            (INLINE, random(most + 1), "so shorten the bootstrap data in Secret boot"),
            (
                INLINE,
                packed.clone(),
                "it is compressed in the Secret already, so shorten",
            ),
            (
                &compressed,
                packed,
                "it is compressed in the Secret already, so shorten",
            ),
            (
                &compressed,
                random(most + 1),
                "it is compressed, so shorten the bootstrap data in Secret boot",
            ),
        ];
        for (row, (spec_yaml, data, expected)) in table.into_iter().enumerate() {
            let secret = secret(&[("value", &data)]);
            let message = user_data(&spec(spec_yaml), Some(&secret), "boot").unwrap_err().message;
            assert!(message.contains(expected), "{row}: {message}");
            let advises = message.contains("uncompressedUserData");
            assert_eq!(advises, row == 0, "{row}: {message}");
        }
    }

    #[test]
    fn compression_makes_room_below_the_limit() {
        let large = secret(&[("value", &vec![b'x'; UserData::MAX_BYTES + 1])]);
        let spec = spec(&format!("{INLINE}, uncompressedUserData: false"));
        assert!(user_data(&spec, Some(&large), "boot").is_ok());
    }
}
