//! The defaults of a machine's spec. No default is ever stored in the object.

use super::bootstrap::{IgnitionStorageType, SecretsBackend};
use super::options::{EksLookupType, HttpTokens, InstanceMetadataOptions, MarketType};
use super::spec::AWSMachineSpec;
use crate::common::ImageLookup;

/// Hop limit of the metadata service if the spec has no block for the metadata service. The limit is one hop more than
/// the instance needs, so that containers reach the metadata service too.
const METADATA_HOP_LIMIT: i64 = 2;

/// Maximum number of secrets that a spec can request: one call to Parameter Store deletes at most this many.
const MAX_REQUESTED_SECRETS: usize = 10;

/// The image lookup of machines without a lookup in their spec or their cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInImageLookup;

impl BuiltInImageLookup {
    /// Template of the image's name.
    pub const FORMAT: &str = "capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*";
    /// AWS account that publishes the images.
    pub const ORG: &str = "819546954734";
    /// Operating system.
    pub const BASE_OS: &str = "ubuntu-24.04";
}

/// The delivery of cloud-init bootstrap data to the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapDelivery {
    /// The user data contains the bootstrap data.
    Inline,
    /// An AWS service for secrets stores the bootstrap data.
    Secrets(SecretsBackend),
}

impl AWSMachineSpec {
    /// The effective image lookup. Each field comes from the machine, else from the cluster, else from the built-in
    /// lookup. Empty text counts as absent.
    pub fn effective_image_lookup(&self, cluster: Option<&ImageLookup>) -> ImageLookup {
        let pick = |own: &Option<String>, cluster: Option<&String>, built_in: &str| {
            let chosen =
                own.as_ref().filter(|text| !text.is_empty()).or_else(|| cluster.filter(|text| !text.is_empty()));
            Some(chosen.map_or_else(|| built_in.to_owned(), Clone::clone))
        };
        ImageLookup {
            format: pick(
                &self.image_lookup_format,
                cluster.and_then(|lookup| lookup.format.as_ref()),
                BuiltInImageLookup::FORMAT,
            ),
            org: pick(&self.image_lookup_org, cluster.and_then(|lookup| lookup.org.as_ref()), BuiltInImageLookup::ORG),
            base_os: pick(
                &self.image_lookup_base_os,
                cluster.and_then(|lookup| lookup.base_os.as_ref()),
                BuiltInImageLookup::BASE_OS,
            ),
        }
    }

    /// The family of EKS images in which the image is looked up. `None` if the image is looked up by name: the family
    /// has no effect if the machine or the cluster sets any field of that lookup. Empty text counts as absent.
    pub fn effective_eks_lookup_type(&self, cluster: Option<&ImageLookup>) -> Option<EksLookupType> {
        let own = [&self.image_lookup_format, &self.image_lookup_org, &self.image_lookup_base_os];
        let of_cluster = cluster.map(|lookup| [&lookup.format, &lookup.org, &lookup.base_os]);
        let mut parts = own.into_iter().chain(of_cluster.into_iter().flatten());
        if parts.any(|part| part.as_ref().is_some_and(|text| !text.is_empty())) {
            return None;
        }
        self.ami.as_ref()?.eks_lookup_type
    }

    /// Options of the metadata service for a new instance. Without a block in the spec, tokens are required and two
    /// hops are allowed.
    pub fn effective_metadata_options(&self) -> InstanceMetadataOptions {
        self.instance_metadata_options.clone().unwrap_or_else(|| InstanceMetadataOptions {
            http_tokens: HttpTokens::Required,
            http_put_response_hop_limit: METADATA_HOP_LIMIT,
            ..InstanceMetadataOptions::default()
        })
    }

    /// Whether user data is sent uncompressed. Only an explicit `false` compresses it.
    pub fn effective_uncompressed_user_data(&self) -> bool {
        self.uncompressed_user_data.unwrap_or(true)
    }

    /// The effective delivery of cloud-init bootstrap data. Default: Secrets Manager.
    pub fn effective_bootstrap_delivery(&self) -> BootstrapDelivery {
        let Some(cloud_init) = &self.cloud_init else {
            return BootstrapDelivery::Secrets(SecretsBackend::SecretsManager);
        };
        if cloud_init.insecure_skip_secrets_manager == Some(true) {
            return BootstrapDelivery::Inline;
        }
        BootstrapDelivery::Secrets(cloud_init.secure_secrets_backend.unwrap_or(SecretsBackend::SecretsManager))
    }

    /// The minimum number of secrets into which bootstrap data is divided.
    pub fn effective_secret_count(&self) -> usize {
        let of_spec = self.cloud_init.as_ref().and_then(|options| options.secret_count);
        let count = of_spec.and_then(|count| usize::try_from(count).ok());
        count.unwrap_or(1).clamp(1, MAX_REQUESTED_SECRETS)
    }

    /// Whether the cluster's bucket can store the bootstrap data. Without `ignition` in the spec, the bucket stores the
    /// data if the data is for Ignition.
    pub fn may_use_bucket(&self) -> bool {
        let ignition = self.ignition.as_ref();
        ignition.is_none_or(|ignition| ignition.storage_type == IgnitionStorageType::ClusterObjectStore)
    }

    /// The effective market: the one in the spec, else Spot if the spec has Spot options, else on-demand.
    pub fn effective_market_type(&self) -> MarketType {
        match (self.market_type, &self.spot_market_options) {
            (Some(market), _) => market,
            (None, Some(_)) => MarketType::Spot,
            (None, None) => MarketType::OnDemand,
        }
    }

    /// The effective key pair: the machine's, else the cluster's. An empty name means no key pair.
    pub fn effective_ssh_key_name<'a>(&'a self, cluster: Option<&'a str>) -> Option<&'a str> {
        self.ssh_key_name.as_deref().or(cluster).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{CloudInit, SpotMarketOptions, Switch};

    #[test]
    fn image_lookup_parts_come_from_machine_cluster_or_built_in() {
        let machine = AWSMachineSpec { image_lookup_org: Some("1".to_owned()), ..AWSMachineSpec::default() };
        let cluster =
            ImageLookup { org: Some("2".to_owned()), base_os: Some("flatcar".to_owned()), format: Some(String::new()) };
        let lookup = machine.effective_image_lookup(Some(&cluster));
        assert_eq!(lookup.org.as_deref(), Some("1"));
        assert_eq!(lookup.base_os.as_deref(), Some("flatcar"));
        assert_eq!(lookup.format.as_deref(), Some(BuiltInImageLookup::FORMAT));
        assert_eq!(AWSMachineSpec::default().effective_image_lookup(None).org.as_deref(), Some("819546954734"));
    }

    #[test]
    fn a_lookup_by_name_takes_the_place_of_the_eks_family() {
        let machine = |more: &str| -> AWSMachineSpec {
            let yaml = format!("{{instanceType: t3.large, ami: {{eksLookupType: AmazonLinux2023}}{more}}}");
            serde_saphyr::from_str(&yaml).unwrap()
        };
        let family = Some(EksLookupType::AmazonLinux2023);
        let silent = machine("");
        let empty = ImageLookup { format: Some(String::new()), ..ImageLookup::default() };
        assert_eq!(silent.effective_eks_lookup_type(None), family);
        assert_eq!(silent.effective_eks_lookup_type(Some(&empty)), family);
        let flatcar = ImageLookup { base_os: Some("flatcar".to_owned()), ..ImageLookup::default() };
        assert_eq!(silent.effective_eks_lookup_type(Some(&flatcar)), None);
        for part in ["imageLookupFormat: a", "imageLookupOrg: '1'", "imageLookupBaseOS: flatcar"] {
            let named = machine(&format!(", {part}"));
            assert_eq!(named.effective_eks_lookup_type(None), None, "{part}");
        }
    }

    #[test]
    fn metadata_options_require_tokens_only_without_a_block() {
        let silent = AWSMachineSpec::default().effective_metadata_options();
        assert_eq!((silent.http_tokens, silent.http_put_response_hop_limit), (HttpTokens::Required, 2));
        assert_eq!(silent.http_endpoint, Switch::Enabled);

        let empty_block: AWSMachineSpec =
            serde_json::from_str(r#"{"instanceType": "m7i.large", "instanceMetadataOptions": {}}"#).unwrap();
        let loose = empty_block.effective_metadata_options();
        assert_eq!((loose.http_tokens, loose.http_put_response_hop_limit), (HttpTokens::Optional, 1));
    }

    #[test]
    fn bootstrap_data_goes_inline_only_when_the_spec_says_so() {
        let with = |cloud_init| AWSMachineSpec { cloud_init, ..AWSMachineSpec::default() };
        let secrets_manager = BootstrapDelivery::Secrets(SecretsBackend::SecretsManager);
        assert_eq!(with(None).effective_bootstrap_delivery(), secrets_manager);
        assert_eq!(with(Some(CloudInit::default())).effective_bootstrap_delivery(), secrets_manager);
        let ssm = CloudInit {
            insecure_skip_secrets_manager: Some(false),
            secure_secrets_backend: Some(SecretsBackend::SsmParameterStore),
            ..CloudInit::default()
        };
        let through_ssm = BootstrapDelivery::Secrets(SecretsBackend::SsmParameterStore);
        assert_eq!(with(Some(ssm)).effective_bootstrap_delivery(), through_ssm);
        let inline = CloudInit { insecure_skip_secrets_manager: Some(true), ..CloudInit::default() };
        assert_eq!(with(Some(inline)).effective_bootstrap_delivery(), BootstrapDelivery::Inline);
    }

    #[test]
    fn user_data_is_compressed_only_on_an_explicit_false() {
        let with = |flag| AWSMachineSpec { uncompressed_user_data: flag, ..AWSMachineSpec::default() };
        assert!(with(None).effective_uncompressed_user_data());
        assert!(with(Some(true)).effective_uncompressed_user_data());
        assert!(!with(Some(false)).effective_uncompressed_user_data());
    }

    #[test]
    fn spot_options_alone_make_a_spot_instance() {
        let mut spec = AWSMachineSpec::default();
        assert_eq!(spec.effective_market_type(), MarketType::OnDemand);
        spec.spot_market_options = Some(SpotMarketOptions::default());
        assert_eq!(spec.effective_market_type(), MarketType::Spot);
        spec.market_type = Some(MarketType::OnDemand);
        assert_eq!(spec.effective_market_type(), MarketType::OnDemand);
    }

    #[test]
    fn an_empty_key_name_is_no_key_and_hides_the_clusters() {
        let with =
            |name: Option<&str>| AWSMachineSpec { ssh_key_name: name.map(str::to_owned), ..AWSMachineSpec::default() };
        assert_eq!(with(None).effective_ssh_key_name(None), None);
        assert_eq!(with(None).effective_ssh_key_name(Some("ops")), Some("ops"));
        assert_eq!(with(Some("mine")).effective_ssh_key_name(Some("ops")), Some("mine"));
        assert_eq!(with(Some("")).effective_ssh_key_name(Some("ops")), None);
    }
}
