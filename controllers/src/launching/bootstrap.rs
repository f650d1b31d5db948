//! The bootstrap data of an instance, from the bootstrap Secret. Pure. No message contains bootstrap data.

use std::fmt;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachineSpec, BootstrapDelivery, Ignition, IgnitionStorageType, SecretsBackend};
use capa_cloud::UserData;
use k8s_openapi::api::core::v1::Secret;

use super::boot_hook;
use super::compression::gzip;
use super::ignition;

/// The formats in the Secrets of bootstrap providers.
const CLOUD_CONFIG: &str = "cloud-config";
const IGNITION: &str = "ignition";

/// The first bytes of data in the format gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bootstrap data, and the way in which the instance gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapData {
    /// The user data is the bootstrap data.
    Inline(UserData),
    /// The service keeps the bootstrap data, and the user data fetches it.
    Stored(SecretsBackend, UserData),
    /// The cluster's bucket keeps the bootstrap data, and the user data refers to it.
    InBucket(UserData),
}

/// The program on the instance that reads bootstrap data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// cloud-init.
    CloudConfig,
    /// Ignition.
    Ignition,
    /// Another program, which reads the user data as the bootstrap provider writes it: of Windows, Talos or
    /// Bottlerocket.
    Other,
}

/// The format of the bootstrap data in the Secret; `None` without data. Without a format in the Secret, machines with
/// `spec.ignition` have data for Ignition, and others a cloud-config.
pub(crate) fn format_of(spec: &AWSMachineSpec, secret: &Secret) -> Option<Format> {
    let data = secret.data.as_ref().filter(|data| data.contains_key("value"))?;
    let given = data.get("format").filter(|format| !format.0.is_empty());
    let usual = if spec.ignition.is_some() { IGNITION } else { CLOUD_CONFIG };
    match given.map_or(usual.as_bytes(), |format| format.0.as_slice()) {
        format if format == CLOUD_CONFIG.as_bytes() => Some(Format::CloudConfig),
        format if format == IGNITION.as_bytes() => Some(Format::Ignition),
        _ => Some(Format::Other),
    }
}

/// The bootstrap data in the Secret, or the condition with the reason why the Secret cannot be used.
pub(crate) fn bootstrap_data(
    spec: &AWSMachineSpec,
    secret: Option<&Secret>,
    name: &str,
) -> Result<BootstrapData, ConditionUpdate> {
    let Some(secret) = secret else {
        return Err(not_ready(
            Reason::WaitingForBootstrapData,
            format!("the bootstrap Secret {name} that the Machine names does not exist yet"),
        ));
    };
    let value = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    let Some(data) = value("value").filter(|data| !data.is_empty()) else {
        return Err(not_ready(
            Reason::WaitingForBootstrapData,
            format!("the bootstrap Secret {name} has nothing under key value yet"),
        ));
    };
    match (format_of(spec, secret), &spec.ignition) {
        (Some(Format::CloudConfig), None) => cloud_config(spec, data, name),
        (Some(Format::Ignition), ignition) => for_ignition(spec, ignition.as_ref(), data, name),
        (Some(Format::Other) | None, None) => inline(data.to_vec(), name, || Packing::AsItIs),
        (_, Some(_)) => Err(not_ready(
            Reason::UnsupportedFormat,
            format!(
                "the bootstrap data in Secret {name} is not for Ignition, and spec.ignition is for machines with \
                 Ignition: leave it out of a new AWSMachineTemplate, or set format: ignition in the bootstrap \
                 configuration"
            ),
        )),
    }
}

fn cloud_config(spec: &AWSMachineSpec, data: &[u8], name: &str) -> Result<BootstrapData, ConditionUpdate> {
    if let BootstrapDelivery::Secrets(backend) = spec.effective_bootstrap_delivery() {
        if !boot_hook::hands_over(data) {
            let message = format!(
                "the bootstrap data in Secret {name} is neither a cloud-config nor a script, and the boot hook that \
                 fetches it from {backend} hands over nothing else to cloud-init: set \
                 cloudInit.insecureSkipSecretsManager: true in a new AWSMachineTemplate, so that the data is the user \
                 data"
            );
            return Err(not_ready(Reason::UnsupportedFormat, message));
        }
        return Ok(BootstrapData::Stored(backend, UserData::new(data.to_vec())));
    }
    let compresses = !spec.effective_uncompressed_user_data();
    let sent = if compresses { gzip(data) } else { data.to_vec() };
    inline(sent, name, || Packing::of(data, compresses))
}

/// Bootstrap data for Ignition. Without `spec.ignition`, it is kept in the cluster's bucket, as CAPA keeps it.
fn for_ignition(
    spec: &AWSMachineSpec,
    ignition: Option<&Ignition>,
    data: &[u8],
    name: &str,
) -> Result<BootstrapData, ConditionUpdate> {
    let in_user_data = ignition.filter(|ignition| ignition.storage_type == IgnitionStorageType::UnencryptedUserData);
    let Some(ignition) = in_user_data else {
        return Ok(BootstrapData::InBucket(UserData::new(data.to_vec())));
    };
    let compresses = !spec.effective_uncompressed_user_data();
    let sent = ignition::user_data(ignition, data, compresses);
    inline(sent, name, || Packing::of_ignition(ignition, data, compresses))
}

/// The user data, if EC2 accepts its size.
fn inline(sent: Vec<u8>, secret: &str, packing: impl FnOnce() -> Packing) -> Result<BootstrapData, ConditionUpdate> {
    if sent.len() > UserData::MAX_BYTES {
        let too_large = TooLarge { secret, bytes: sent.len(), packing: packing() };
        return Err(not_ready(Reason::TooLarge, too_large.to_string()));
    }
    Ok(BootstrapData::Inline(UserData::new(sent)))
}

fn not_ready(reason: Reason, message: String) -> ConditionUpdate {
    ConditionType::BootstrapDataReady.is_false(reason, message)
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
    /// Ignition of this version reads no compressed data.
    Unread,
    /// Only cloud-init and Ignition are known to read compressed data.
    AsItIs,
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

    fn of_ignition(ignition: &Ignition, data: &[u8], compresses: bool) -> Self {
        match ignition::compressed_size(ignition, data) {
            None => Self::Unread,
            Some(_) if compresses => Self::Done,
            Some(bytes) => Self::Possible(bytes),
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
            Packing::AsItIs => {
                write!(formatter, "data that is neither for cloud-init nor for Ignition is sent as it is, so {shorten}")
            }
            Packing::Unread => write!(
                formatter,
                "Ignition reads compressed data from version 3.1 on, so {shorten}, or set \
                 spec.template.spec.ignition.version in a new AWSMachineTemplate"
            ),
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
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
        Secret { data: Some(data), ..Secret::default() }
    }

    fn spec(yaml: &str) -> AWSMachineSpec {
        serde_saphyr::from_str(&format!("{{instanceType: t3.large, {yaml}}}")).unwrap()
    }

    const INLINE: &str = "cloudInit: {insecureSkipSecretsManager: true}";

    fn user_data(spec: &AWSMachineSpec, secret: Option<&Secret>) -> UserData {
        match bootstrap_data(spec, secret, "boot").unwrap() {
            BootstrapData::Inline(user_data) => user_data,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(spec_yaml: &str, secret: Option<&Secret>) -> Reason {
        bootstrap_data(&spec(spec_yaml), secret, "boot").unwrap_err().reason
    }

    #[test]
    fn inline_data_is_passed_on_as_it_is() {
        let secret = secret(&[("value", b"#cloud-config"), ("format", b"cloud-config")]);
        assert_eq!(user_data(&spec(INLINE), Some(&secret)).expose(), b"#cloud-config");
    }

    #[test]
    fn data_is_compressed_on_request_to_the_same_bytes_each_time() {
        let secret = secret(&[("value", b"#cloud-config")]);
        let spec = spec(&format!("{INLINE}, uncompressedUserData: false"));
        let first = user_data(&spec, Some(&secret));
        assert_eq!(first, user_data(&spec, Some(&secret)));
        let mut plain = Vec::new();
        GzDecoder::new(first.expose()).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, b"#cloud-config");
    }

    #[test]
    fn what_cannot_be_handed_over_is_refused_with_its_reason() {
        let large = secret(&[("value", &vec![b'x'; UserData::MAX_BYTES + 1])]);
        assert_eq!(refusal(INLINE, None), Reason::WaitingForBootstrapData);
        assert_eq!(refusal(INLINE, Some(&secret(&[]))), Reason::WaitingForBootstrapData);
        let other = secret(&[("value", b"[settings]"), ("format", b"bottlerocket")]);
        let explicit = secret(&[("value", b"#cloud-config"), ("format", b"cloud-config")]);
        for not_for_ignition in [&explicit, &other] {
            assert_eq!(refusal("ignition: {version: '3.4'}", Some(not_for_ignition)), Reason::UnsupportedFormat);
        }
        assert_eq!(refusal(INLINE, Some(&large)), Reason::TooLarge);
        // cloud-init reads this format only from user data, not from the configuration that the boot hook sets.
        let archive = secret(&[("value", b"#cloud-config-archive")]);
        for delivery in ["publicIP: false", "cloudInit: {secureSecretsBackend: ssm-parameter-store}"] {
            assert_eq!(refusal(delivery, Some(&archive)), Reason::UnsupportedFormat, "{delivery}");
        }
        assert_eq!(user_data(&spec(INLINE), Some(&archive)).expose(), b"#cloud-config-archive");
    }

    #[test]
    fn an_empty_format_counts_as_absent() {
        let unnamed = secret(&[("value", b"#cloud-config"), ("format", b"")]);
        assert_eq!(format_of(&spec(INLINE), &unnamed), Some(Format::CloudConfig));
        for entries in [&[("value", b"{}".as_slice()), ("format", b"")][..], &[("value", b"{}")]] {
            assert_eq!(format_of(&spec("ignition: {}"), &secret(entries)), Some(Format::Ignition));
        }
    }

    #[test]
    fn data_of_another_format_is_sent_as_it_is() {
        let script: &[u8] = b"<powershell>Join-Cluster</powershell>";
        let windows = secret(&[("value", script), ("format", b"powershell-xml")]);
        for delivery in ["", INLINE, "uncompressedUserData: false"] {
            let sent = bootstrap_data(&spec(delivery), Some(&windows), "boot").unwrap();
            assert_eq!(sent, BootstrapData::Inline(UserData::new(script.to_vec())), "{delivery}");
        }
        let large = vec![b'x'; UserData::MAX_BYTES + 1];
        let large = secret(&[("value", &large), ("format", b"powershell-xml")]);
        let told = bootstrap_data(&spec(""), Some(&large), "boot").unwrap_err();
        assert_eq!(told.reason, Reason::TooLarge);
        assert!(told.message.contains("sent as it is, so shorten"), "{}", told.message);
    }

    #[test]
    fn the_storage_of_ignition_decides_over_its_data() {
        let ignition = secret(&[("value", b"{}"), ("format", b"ignition")]);
        let data = || UserData::new(b"{}".to_vec());
        for (field, set, expected) in [
            ("ignition.storageType", "ignition: {storageType: UnencryptedUserData}", BootstrapData::Inline(data())),
            ("ignition.storageType", "ignition: {storageType: ClusterObjectStore}", BootstrapData::InBucket(data())),
            ("ignition", "ignition: {}", BootstrapData::InBucket(data())),
            ("nothing", "publicIP: false", BootstrapData::InBucket(data())),
            ("cloudInit", INLINE, BootstrapData::InBucket(data())),
        ] {
            let found = bootstrap_data(&spec(set), Some(&ignition), "boot");
            assert_eq!(found.unwrap(), expected, "{field}");
        }
    }

    #[test]
    fn data_for_ignition_is_compressed_where_its_version_reads_that() {
        let large = secret(&[("value", &vec![b'x'; UserData::MAX_BYTES + 1]), ("format", b"ignition")]);
        let sent = |version: &str, uncompressed: bool| {
            let ignition = format!("ignition: {{storageType: UnencryptedUserData, version: '{version}'}}");
            let spec = spec(&format!("{ignition}, uncompressedUserData: {uncompressed}"));
            bootstrap_data(&spec, Some(&large), "boot").map_err(|update| update.message)
        };
        assert!(sent("3.1", false).is_ok());
        let advised = sent("3.1", true).unwrap_err();
        assert!(advised.contains("set spec.template.spec.uncompressedUserData: false"), "{advised}");
        let unread = sent("2.3", false).unwrap_err();
        assert!(unread.contains("from version 3.1 on"), "{unread}");
    }

    #[test]
    fn data_for_a_service_has_any_size_and_is_never_sent_inline_unasked() {
        let data = [b"#!".as_slice(), &vec![b'x'; UserData::MAX_BYTES]].concat();
        let large = secret(&[("value", &data)]);
        for (spec_yaml, backend) in [
            ("cloudInit: {}", SecretsBackend::SecretsManager),
            ("publicIP: false", SecretsBackend::SecretsManager),
            ("cloudInit: {secureSecretsBackend: ssm-parameter-store}", SecretsBackend::SsmParameterStore),
        ] {
            let found = bootstrap_data(&spec(spec_yaml), Some(&large), "boot").unwrap();
            let BootstrapData::Stored(chosen, kept) = found else {
                panic!("{spec_yaml}: it is sent inline");
            };
            assert_eq!((chosen, kept.expose()), (backend, data.as_slice()));
        }
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
            (INLINE, vec![b'x'; most + 1], "set spec.template.spec.uncompressedUserData: false in a new"),
            (INLINE, random(most + 1), "so shorten the bootstrap data in Secret boot"),
            (INLINE, packed.clone(), "it is compressed in the Secret already, so shorten"),
            (&compressed, packed, "it is compressed in the Secret already, so shorten"),
            (&compressed, random(most + 1), "it is compressed, so shorten the bootstrap data in Secret boot"),
        ];
        for (row, (spec_yaml, data, expected)) in table.into_iter().enumerate() {
            let secret = secret(&[("value", &data)]);
            let message = bootstrap_data(&spec(spec_yaml), Some(&secret), "boot").unwrap_err().message;
            assert!(message.contains(expected), "{row}: {message}");
            let advises = message.contains("uncompressedUserData");
            assert_eq!(advises, row == 0, "{row}: {message}");
        }
    }

    #[test]
    fn compression_makes_room_below_the_limit() {
        let large = secret(&[("value", &vec![b'x'; UserData::MAX_BYTES + 1])]);
        let spec = spec(&format!("{INLINE}, uncompressedUserData: false"));
        assert!(user_data(&spec, Some(&large)).expose().len() < UserData::MAX_BYTES);
    }
}
