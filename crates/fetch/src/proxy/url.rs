//! How is a proxy written down?

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::sheet::BasicAuth;

/// `http://user:password@host:port` or `socks5://host:port`. Shown without the password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProxyUrl {
    pub(super) kind: Kind,
    pub(super) auth: Option<BasicAuth>,
    pub(super) host: Box<str>,
    pub(super) port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Http,
    Socks5,
}

impl Kind {
    const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Socks5 => "socks5",
        }
    }
}

impl ProxyUrl {
    fn text(&self, auth: Option<&str>) -> String {
        let at = auth.map_or(String::new(), |auth| format!("{auth}@"));
        format!("{}://{at}{}:{}", self.kind.scheme(), self.host, self.port)
    }

    pub fn has_password(&self) -> bool {
        self.auth.is_some()
    }
}

impl FromStr for ProxyUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // It may hold a password, so it is not repeated.
        let bad = || {
            "this is no proxy: write http://host:port or socks5://host:port, with user:password@ \
             before the host where it asks for it"
                .to_owned()
        };
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(bad)?;
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "http" => Kind::Http,
            "socks5" => Kind::Socks5,
            _ => return Err(bad()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (auth, place) = match rest.rsplit_once('@') {
            Some((auth, place)) => (Some(auth.parse().map_err(|_| bad())?), place),
            None => (None, rest),
        };
        let (host, port) = place.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
        let is_host = |char: char| char.is_ascii_alphanumeric() || "-_.:[]".contains(char);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(bad());
        }
        Ok(Self { kind, auth, host: host.into(), port })
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(self.auth.as_ref().map(ToString::to_string).as_deref()))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for ProxyUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ProxyUrl> for String {
    fn from(proxy: ProxyUrl) -> Self {
        let auth = proxy.auth.clone().map(Self::from);
        proxy.text(auth.as_deref())
    }
}

impl JsonSchema for ProxyUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "proxy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "proxy" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_shown_without_its_password() {
        for (text, shown) in [
            ("http://p.test:3128", "http://p.test:3128"),
            ("HTTP://ann:a@b:c@p.test:3128/", "http://ann:…@p.test:3128"),
            ("socks5://[::1]:1080", "socks5://[::1]:1080"),
        ] {
            let proxy: ProxyUrl = text.parse().unwrap();
            assert_eq!(proxy.to_string(), shown);
            assert_eq!(String::from(proxy.clone()).parse::<ProxyUrl>().unwrap(), proxy);
        }
        for bad in [
            "p.test:1",
            "ftp://p.test:1",
            "http://p.test",
            "http://:1",
            "http://p.test:0",
            "http://x@p:1",
        ] {
            assert!(bad.parse::<ProxyUrl>().unwrap_err().contains("socks5://host:port"), "{bad}");
        }
    }
}
