//! Server addresses.

use crate::ClientError;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The address of a server: `http://host[:port]`, port 7420 if none is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    host: String,
    port: u16,
}

/// The port that `opship serve` listens on unless told otherwise.
const DEFAULT_PORT: u16 = 7420;

impl ServerUrl {
    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` as the Host header and a socket address want it.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Is the server on this machine's loopback interface?
    pub fn is_loopback(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl FromStr for ServerUrl {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<ServerUrl, ClientError> {
        let refused = |detail: &str| ClientError::Refused(format!("'{text}' is not a server's address: {detail}"));
        if text.starts_with("https://") {
            return Err(refused("this build speaks http:// only; use it over loopback or a tunnel"));
        }
        let rest = text.strip_prefix("http://").ok_or_else(|| refused("write it as http://host:port"))?;
        let uri: http::Uri = format!("http://{}", rest.trim_end_matches('/'))
            .parse()
            .map_err(|_| refused("write it as http://host:port"))?;
        let authority = uri.authority().ok_or_else(|| refused("the host is missing"))?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(refused("only a host and a port belong here"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(refused("the host is missing"));
        }
        // What the name resolves to may be another address than the one that a local server has registered.
        let host = if host == "localhost" { "127.0.0.1".to_owned() } else { host };
        Ok(ServerUrl { host, port: authority.port_u16().unwrap_or(DEFAULT_PORT) })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_what_people_write_and_refuses_the_rest() {
        let url = |text: &str| text.parse::<ServerUrl>().map(|u| u.to_string());
        assert_eq!(url("http://127.0.0.1:7420").unwrap(), "http://127.0.0.1:7420");
        assert_eq!(url("http://example/").unwrap(), "http://example:7420");
        assert_eq!(url("http://[::1]:80").unwrap(), "http://[::1]:80");
        for bad in ["", "127.0.0.1:7420", "https://x", "http://", "http://x/y", "http://u@x", "http://x?y", "ftp://x"] {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert!("http://[::1]".parse::<ServerUrl>().unwrap().is_loopback());
        assert!(!"http://10.0.0.1".parse::<ServerUrl>().unwrap().is_loopback());
    }
}
