//! TLS for diagnostics, with a self-signed certificate that is generated at start. Clients authenticate with a token,
//! and do not verify the certificate.

use std::str::FromStr;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// The flag `--tls-min-version`, with the values of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// `VersionTLS12` or newer.
    #[default]
    Tls12,
    /// `VersionTLS13` or newer.
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            "VersionTLS10" | "VersionTLS11" => {
                Err(format!("{text} is not offered any more: use VersionTLS12 or VersionTLS13"))
            }
            _ => Err("expected VersionTLS12 or VersionTLS13".to_owned()),
        }
    }
}

impl TlsVersion {
    fn and_newer(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Tls12 => vec![&TLS13, &TLS12],
            Self::Tls13 => vec![&TLS13],
        }
    }
}

/// The reasons why the certificate cannot be generated or used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The certificate could not be generated.
    #[error("failed to make a certificate for the diagnostics server")]
    Make(#[from] rcgen::Error),
    /// rustls does not accept the certificate.
    #[error("failed to use the certificate of the diagnostics server")]
    Use(#[from] rustls::Error),
}

/// A TLS configuration with a self-signed certificate.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Generates a certificate whose key never leaves this process, for connections of at least this TLS version. The
    /// process must have installed rustls' default provider.
    pub fn self_signed(minimum: TlsVersion) -> Result<Self, CertificateError> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder_with_protocol_versions(&minimum.and_newer())
            .with_no_client_auth()
            .with_single_cert(vec![cert.into()], key)?;
        Ok(Self(Arc::new(config)))
    }

    /// The acceptor that performs the handshakes.
    pub(super) fn acceptor(self) -> TlsAcceptor {
        TlsAcceptor::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use axum::Router;
    use axum::routing::get;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::server;

    /// Verifies nothing, like Prometheus with `insecureSkipVerify`.
    #[derive(Debug)]
    struct NoVerification;

    impl ServerCertVerifier for NoVerification {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }

    /// The address of a server with this minimum version that sends a greeting.
    async fn greeting(minimum: TlsVersion) -> SocketAddr {
        let _ = aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Tls::self_signed(minimum).unwrap().acceptor();
        let router = Router::new().route("/", get(async || "hello"));
        tokio::spawn(server::serve(listener, Some(tls), router, CancellationToken::new()));
        address
    }

    async fn greeted(address: SocketAddr, versions: &[&'static SupportedProtocolVersion]) -> io::Result<String> {
        let config = ClientConfig::builder_with_protocol_versions(versions)
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerification))
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text.rsplit("\r\n").next().unwrap_or_default().to_owned())
    }

    #[tokio::test]
    async fn versions_below_the_minimum_are_refused() {
        let address = greeting(TlsVersion::Tls12).await;
        assert_eq!(greeted(address, &[&TLS12]).await.unwrap(), "hello");
        assert_eq!(greeted(address, &[&TLS13]).await.unwrap(), "hello");
        let address = greeting(TlsVersion::Tls13).await;
        assert!(greeted(address, &[&TLS12]).await.is_err());
        assert_eq!(greeted(address, &[&TLS13]).await.unwrap(), "hello");
    }

    #[tokio::test]
    async fn a_client_without_handshake_delays_no_other() {
        let address = greeting(TlsVersion::Tls12).await;
        let _silent = TcpStream::connect(address).await.unwrap();
        let mut rude = TcpStream::connect(address).await.unwrap();
        rude.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(greeted(address, &[&TLS13]).await.unwrap(), "hello");
    }

    #[test]
    fn versions_are_named_as_kubernetes_names_them() {
        assert_eq!("VersionTLS12".parse(), Ok(TlsVersion::Tls12));
        assert_eq!("VersionTLS13".parse(), Ok(TlsVersion::Tls13));
        for (text, says) in [("VersionTLS10", "not offered"), ("VersionTLS11", "not offered"), ("TLS13", "expected")] {
            assert!(text.parse::<TlsVersion>().unwrap_err().contains(says), "{text}");
        }
    }
}
