//! Converts the bootstrap Secret to the user data of an instance. Pure. No message contains bootstrap data.

use std::io::Write;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachineSpec, BootstrapDelivery};
use capa_cloud::UserData;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::Secret;

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
    let data = if spec.effective_uncompressed_user_data() {
        data.to_vec()
    } else {
        gzip(data)
    };
    if data.len() > UserData::MAX_BYTES {
        return Err(not_ready(
            Reason::TooLarge,
            format!(
                "the user data has {} bytes, EC2 accepts {}: shorten it or set uncompressedUserData: false to \
                 compress it",
                data.len(),
                UserData::MAX_BYTES
            ),
        ));
    }
    Ok(UserData::new(data))
}

/// Compresses data without a time stamp, so that equal data gives equal bytes and a repeated launch has the same
/// parameters.
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(data).and_then(|()| encoder.finish());
    // Writing to memory cannot fail, and EC2 accepts uncompressed data as well.
    written.unwrap_or_else(|_| data.to_vec())
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

    #[test]
    fn compression_makes_room_below_the_limit() {
        let large = secret(&[("value", &vec![b'x'; UserData::MAX_BYTES + 1])]);
        let spec = spec(&format!("{INLINE}, uncompressedUserData: false"));
        assert!(user_data(&spec, Some(&large), "boot").is_ok());
    }
}
