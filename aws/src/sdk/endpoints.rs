//! Service endpoints that the administrator configures, in the format of CAPA's flag.

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

/// Endpoints that replace AWS's own, by region and service. Parsed from
/// `region:service=url,service=url;region2:service=url` (flag `--service-endpoints`); an empty text means no endpoints.
/// Services have the lower-case names of AWS's endpoints: `ec2`, `elasticloadbalancing`, `secretsmanager`, `ssm`,
/// `sts`, and for the checks of infrastructure `iam`, `kms`, `s3`, `servicequotas`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceEndpoints {
    by_region: BTreeMap<String, BTreeMap<String, String>>,
}

/// The error of a text that is not a list of service endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseEndpointsError {
    /// A part between semicolons has no region.
    #[error("service endpoints: {0:?} is not of the form region:service=url,service=url")]
    Region(String),
    /// A part between commas is not a `service=url` pair.
    #[error("service endpoints of region {region}: {pair:?} is not of the form service=url")]
    Pair {
        /// The region of the part.
        region: String,
        /// The text between the commas.
        pair: String,
    },
    /// The URL has no scheme or no host.
    #[error("service endpoints of region {region}: {url:?} of {service} is not an http or https URL")]
    Url {
        /// The region of the URL.
        region: String,
        /// The service of the URL.
        service: String,
        /// The text in place of the URL.
        url: String,
    },
    /// The same service of the same region appears twice.
    #[error("service endpoints of region {region}: {service} is given twice")]
    Twice {
        /// The region.
        region: String,
        /// The service.
        service: String,
    },
}

impl ServiceEndpoints {
    /// The endpoint of a service in a region, if the administrator configured one.
    pub fn get(&self, region: &str, service: &str) -> Option<&str> {
        self.by_region.get(region)?.get(service).map(String::as_str)
    }

    fn insert(&mut self, region: &str, pair: &str) -> Result<(), ParseEndpointsError> {
        let (service, url) = pair
            .split_once('=')
            .map(|(service, url)| (service.trim(), url.trim()))
            .filter(|(service, _)| !service.is_empty())
            .ok_or_else(|| ParseEndpointsError::Pair { region: region.to_owned(), pair: pair.to_owned() })?;
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
            return Err(ParseEndpointsError::Url {
                region: region.to_owned(),
                service: service.to_owned(),
                url: url.to_owned(),
            });
        }
        let services = self.by_region.entry(region.to_owned()).or_default();
        match services.insert(service.to_owned(), url.to_owned()) {
            None => Ok(()),
            Some(_) => Err(ParseEndpointsError::Twice { region: region.to_owned(), service: service.to_owned() }),
        }
    }
}

impl FromStr for ServiceEndpoints {
    type Err = ParseEndpointsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut endpoints = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (region, pairs) = part
                .split_once(':')
                .map(|(region, pairs)| (region.trim(), pairs))
                .filter(|(region, _)| !region.is_empty() && !region.contains('='))
                .ok_or_else(|| ParseEndpointsError::Region(part.to_owned()))?;
            for pair in pairs.split(',') {
                endpoints.insert(region, pair)?;
            }
        }
        Ok(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_regions_and_services_are_read() {
        let endpoints: ServiceEndpoints =
            "eu-west-1:ec2=http://127.0.0.1:5000,sts=https://sts.example/path?a=b;us-east-1:ec2=https://ec2.example;"
                .parse()
                .unwrap();
        assert_eq!(endpoints.get("eu-west-1", "ec2"), Some("http://127.0.0.1:5000"));
        assert_eq!(endpoints.get("eu-west-1", "sts"), Some("https://sts.example/path?a=b"));
        assert_eq!(endpoints.get("us-east-1", "ec2"), Some("https://ec2.example"));
        assert_eq!(endpoints.get("us-east-1", "sts"), None);
        assert_eq!("".parse(), Ok(ServiceEndpoints::default()));
    }

    #[test]
    fn malformed_texts_are_refused_with_the_place() {
        let refused = |text: &str| text.parse::<ServiceEndpoints>().unwrap_err().to_string();
        assert!(refused("ec2=http://x").contains("region:service=url"));
        assert!(refused("eu-west-1").contains("\"eu-west-1\""));
        assert!(refused("eu-west-1:ec2").contains("service=url"));
        assert!(refused("eu-west-1:=http://x").contains("service=url"));
        assert!(refused("eu-west-1:ec2=x").contains("URL"));
        assert!(refused("eu-west-1:ec2=http://").contains("URL"));
        assert!(refused("eu-west-1:ec2=http://a,ec2=http://b").contains("twice"));
        assert!(refused("eu-west-1:ec2=http://a;eu-west-1:ec2=http://a").contains("twice"));
    }
}
