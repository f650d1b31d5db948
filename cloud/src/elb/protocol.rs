//! Protocols of listeners, target groups and health checks.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// A protocol of a load balancer, of its targets or of their health check, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// TLS.
    Tls,
    /// TCP and UDP on the same port.
    TcpUdp,
    /// HTTP.
    Http,
    /// HTTPS.
    Https,
    /// Another protocol, for example `UDP`, or `SSL` of a Classic Load Balancer.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_the_words_of_aws() {
        for (word, protocol) in [
            ("TCP", Protocol::Tcp),
            ("TCP_UDP", Protocol::TcpUdp),
            ("HTTPS", Protocol::Https),
            ("UDP", Protocol::Other("UDP".to_owned())),
        ] {
            assert_eq!((Protocol::from(word), protocol.to_string().as_str()), (protocol.clone(), word));
            let json = format!("\"{word}\"");
            assert_eq!(serde_json::to_string(&protocol).unwrap(), json);
            assert_eq!(serde_json::from_str::<Protocol>(&json).unwrap(), protocol);
        }
    }
}
