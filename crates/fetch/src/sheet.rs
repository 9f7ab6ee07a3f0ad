//! What does a request to this host have that others do not?
//!
//! Header fields, a password, cookies. All is chosen by the host of the URL that is asked for, anew
//! for every request: a redirect is another request, so nothing that is meant for one host reaches
//! another.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use types::{ByHost, CrawlUrl, Scheme};

use crate::error::Error;
use crate::head;

/// What a sheet says of requests to its hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestSheet {
    pub headers: BTreeMap<String, String>,
    pub basic_auth: Option<BasicAuth>,
    /// The password may also go over a connection without TLS.
    pub basic_auth_plain: bool,
    pub cookies: Option<bool>,
}

/// `user:password`. Shown without the password, written with it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BasicAuth(Box<str>);

impl BasicAuth {
    /// The value of the header field.
    fn header(&self) -> HeaderValue {
        let coded = format!("Basic {}", STANDARD.encode(self.0.as_bytes()));
        let mut value = HeaderValue::from_str(&coded).expect("Base64 is printable");
        value.set_sensitive(true);
        value
    }

    pub fn user(&self) -> &str {
        self.0.split_once(':').map_or("", |(user, _)| user)
    }

    pub(crate) fn password(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, password)| password)
    }
}

impl FromStr for BasicAuth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((user, _)) if !user.is_empty() && !text.contains(['\r', '\n', '\0']) => {
                Ok(Self(text.into()))
            }
            // What was written may be the password: it is not repeated.
            _ => Err("this is no name and password: write it as \"user:password\"".to_owned()),
        }
    }
}

impl TryFrom<String> for BasicAuth {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BasicAuth> for String {
    fn from(auth: BasicAuth) -> Self {
        auth.0.into()
    }
}

impl fmt::Display for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.user())
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl JsonSchema for BasicAuth {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "basic-auth".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "basic-auth" })
    }
}

/// The sheets, made ready.
#[derive(Debug, Default)]
pub(crate) struct RequestSheets(ByHost<Ready>);

#[derive(Debug)]
struct Ready {
    headers: Vec<(HeaderName, HeaderValue)>,
    auth: Option<HeaderValue>,
    auth_plain: bool,
    cookies: Option<bool>,
}

impl RequestSheets {
    pub(crate) fn new(sheets: &ByHost<RequestSheet>) -> Result<Self, Error> {
        let ready = |sheet: &RequestSheet| {
            Ok(Ready {
                headers: head::extra_fields(&sheet.headers)?,
                auth: sheet.basic_auth.as_ref().map(BasicAuth::header),
                auth_plain: sheet.basic_auth_plain,
                cookies: sheet.cookies,
            })
        };
        Ok(Self(sheets.try_map(ready)?))
    }

    /// Whether the host's cookies are kept.
    pub(crate) fn keeps_cookies(&self, host: &str) -> bool {
        self.0.find(host, |sheet| sheet.cookies).unwrap_or(false)
    }

    /// Puts what is meant for this URL's host among the fields. `cookies` as the jar gives them.
    pub(crate) fn add(&self, url: &CrawlUrl, cookies: Option<String>, fields: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        let mut sheets: Vec<&Ready> = self.0.all(url.host()).collect();
        // From the first word to the last, which covers those before.
        sheets.reverse();
        for sheet in sheets {
            for (name, value) in &sheet.headers {
                fields.insert(name, value.clone());
            }
            let private = url.scheme() == Scheme::Https || sheet.auth_plain;
            if let Some(auth) = sheet.auth.as_ref().filter(|_| private) {
                fields.insert(AUTHORIZATION, auth.clone());
            }
        }
        if let Some(cookies) = cookies.and_then(|text| HeaderValue::from_str(&text).ok()) {
            fields.insert(COOKIE, cookies);
        }
    }
}

/// Stars in the place of passwords in a request, as it goes to the archive: that is made to be handed
/// on.
pub(crate) fn star_secrets(request: &mut [u8]) {
    for line in request.split_mut(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        if line[..colon].eq_ignore_ascii_case(AUTHORIZATION.as_str().as_bytes()) {
            let value = &mut line[colon + 1..];
            value.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|b| *b = b'*');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(sheets: &[(&str, RequestSheet)], url: &str) -> Vec<String> {
        let sheets =
            sheets.iter().map(|(host, sheet)| (vec![host.parse().unwrap()], sheet.clone()));
        let sheets = RequestSheets::new(&sheets.collect()).unwrap();
        let mut fields = HeaderMap::new();
        sheets.add(&CrawlUrl::parse(url).unwrap(), Some("a=1".to_owned()), &mut fields);
        let mut lines: Vec<_> =
            fields.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    fn with_password(plain: bool) -> RequestSheet {
        let basic_auth = Some("ann:secret".parse().unwrap());
        RequestSheet { basic_auth, basic_auth_plain: plain, ..RequestSheet::default() }
    }

    #[test]
    fn a_password_goes_to_its_host_over_tls_and_nowhere_else() {
        let sheets = [("a.test", with_password(false))];
        let auth = "authorization: Basic YW5uOnNlY3JldA==";
        assert!(fields(&sheets, "https://a.test/").contains(&auth.to_owned()));
        for other in
            ["http://a.test/", "https://b.test/", "https://sub.a.test/", "https://a.test.b/"]
        {
            assert!(!fields(&sheets, other).iter().any(|line| line.starts_with("auth")), "{other}");
        }
        let plain = [("a.test", with_password(true))];
        assert!(fields(&plain, "http://a.test/").contains(&auth.to_owned()));
    }

    #[test]
    fn the_last_sheet_covers_those_before() {
        let with = |value: &str| RequestSheet {
            headers: BTreeMap::from([("X-A".to_owned(), value.to_owned())]),
            ..RequestSheet::default()
        };
        let sheets = [("*", with("all")), ("a.test", with("one"))];
        assert!(fields(&sheets, "http://a.test/").contains(&"x-a: one".to_owned()));
        assert!(fields(&sheets, "http://b.test/").contains(&"x-a: all".to_owned()));
    }

    #[test]
    fn a_password_is_neither_shown_nor_archived() {
        let auth: BasicAuth = "ann:secret".parse().unwrap();
        assert_eq!(format!("{auth} {auth:?}"), "ann:… ann:…");
        assert_eq!((auth.user(), auth.password()), ("ann", "secret"));
        let mut request =
            b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5u\r\nX: y\r\n\r\n".to_vec();
        star_secrets(&mut request);
        let text = String::from_utf8(request).unwrap();
        assert_eq!(text, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: ***** ****\r\nX: y\r\n\r\n");
        for bad in ["", "ann", ":x", "a:b\nc"] {
            assert!(!bad.parse::<BasicAuth>().unwrap_err().contains("ann"), "{bad}");
        }
    }
}
