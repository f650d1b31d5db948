//! Listeners for addresses in the syntax of Go programs.

use std::io;

use thiserror::Error;
use tokio::net::TcpListener;

/// The reasons why a server cannot listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Not `host:port` or `:port`.
    #[error("{address:?} is not an address: expected host:port or :port")]
    Malformed {
        /// The address as given.
        address: String,
    },
    /// The operating system refused.
    #[error("failed to listen on {address}")]
    Bind {
        /// The address as given.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Listens on `host:port`, or with `:port` on every address of the host, IPv6 and IPv4.
pub async fn bind(address: &str) -> Result<TcpListener, ListenError> {
    let bound = match split(address)? {
        // On a host without IPv6 only the second address exists.
        ("", port) => match TcpListener::bind(("::", port)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
        },
        (host, port) => TcpListener::bind((host, port)).await,
    };
    bound.map_err(|source| ListenError::Bind { address: address.to_owned(), source })
}

fn split(address: &str) -> Result<(&str, u16), ListenError> {
    let malformed = || ListenError::Malformed { address: address.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let port = port.parse().map_err(|_| malformed())?;
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_programs_read_them() {
        assert_eq!(split(":9440").unwrap(), ("", 9440));
        assert_eq!(split("127.0.0.1:8443").unwrap(), ("127.0.0.1", 8443));
        assert_eq!(split("[::1]:8443").unwrap(), ("::1", 8443));
        for malformed in ["9440", ":http", "host", ":70000"] {
            assert!(matches!(split(malformed), Err(ListenError::Malformed { .. })), "{malformed}");
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error_that_names_it() {
        let taken = bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        assert_eq!(bind(&address).await.unwrap_err().to_string(), format!("failed to listen on {address}"));
    }
}
