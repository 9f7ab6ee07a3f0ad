//! What do the heads of request and answer say?
//!
//! The request's fields are put together here. The answer's head is read from the recorded bytes
//! and not from hyper, which forgets the order of the fields; hyper has checked it before, so
//! this reading is short.
//!
//! Informational answers (100 Continue, 103 Early Hints) and empty lines before the status line
//! are no part of the answer: they are cut off the front of the record.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, FROM, HOST, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, TRANSFER_ENCODING, USER_AGENT,
};
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};
use http_body_util::Empty;
use ports::{Purpose, Request};

use crate::error::Error;
use crate::settings::FetchSettings;
use crate::sheet::RequestSheets;

const ACCEPT_PAGE: HeaderValue =
    HeaderValue::from_static("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
const ACCEPT_ROBOTS: HeaderValue = HeaderValue::from_static("text/plain,*/*;q=0.8");
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");

/// Fields that are ours alone: they say what is in the message, or steer the connection.
const RESERVED: [&str; 9] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "upgrade",
    "expect",
    "if-none-match",
    "if-modified-since",
];

fn bad(name: &str, why: &str) -> Error {
    Error::Header { name: name.into(), why: why.into() }
}

/// Fields that the user has asked for.
pub(crate) fn extra_fields(
    headers: &BTreeMap<String, String>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let mut extra = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&&*lower) {
            return Err(bad(name, "lycosa sets it itself"));
        }
        let value = HeaderValue::from_str(value)
            .map_err(|_| bad(name, "its value is not printable ASCII"))?;
        let name = HeaderName::from_bytes(lower.as_bytes())
            .map_err(|_| bad(name, "this is not a field name"))?;
        extra.push((name, value));
    }
    Ok(extra)
}

/// Who we say we are, to everybody.
#[derive(Debug, Clone, Default)]
pub struct Introduction {
    /// The whole `User-Agent` field.
    pub user_agent: String,
    /// An address for the `From` field, if there is to be one.
    pub from: Option<String>,
}

/// The fields that every request has, and those for some hosts only.
#[derive(Debug)]
pub(crate) struct RequestFields {
    user_agent: HeaderValue,
    from: Option<HeaderValue>,
    extra: Vec<(HeaderName, HeaderValue)>,
    pub(crate) sheets: RequestSheets,
}

impl RequestFields {
    pub(crate) fn new(
        who: &Introduction,
        settings: &FetchSettings,
        sheets: RequestSheets,
    ) -> Result<Self, Error> {
        let printable = |name: &str, value: &str| {
            let value = HeaderValue::from_str(value);
            value.map_err(|_| bad(name, "its value is not printable ASCII"))
        };
        let user_agent = printable("user-agent", &who.user_agent)?;
        let from = who.from.as_deref().map(|from| printable("from", from)).transpose()?;
        Ok(Self { user_agent, from, extra: extra_fields(&settings.headers)?, sheets })
    }

    /// The request as hyper takes it; none if the URL cannot be written as one. `cookies` as the jar
    /// gives them.
    pub(crate) fn request(
        &self,
        request: &Request,
        cookies: Option<String>,
    ) -> Option<http::Request<Empty<Bytes>>> {
        let url = &request.url;
        let path = Bytes::copy_from_slice(url.path_and_query().as_bytes());
        let path = PathAndQuery::from_maybe_shared(path).ok()?;
        let accept = match request.purpose {
            Purpose::Page => ACCEPT_PAGE,
            Purpose::Robots => ACCEPT_ROBOTS,
        };
        let mut fields = HeaderMap::with_capacity(8);
        fields.insert(HOST, HeaderValue::from_str(url.authority()).ok()?);
        fields.insert(USER_AGENT, self.user_agent.clone());
        fields.insert(ACCEPT, accept);
        fields.insert(ACCEPT_ENCODING, ENCODINGS);
        if let Some(from) = &self.from {
            fields.insert(FROM, from.clone());
        }
        for (name, value) in &self.extra {
            fields.insert(name, value.clone());
        }
        self.sheets.add(url, cookies, &mut fields);
        // A validator that is not printable was never a good one: ask plainly then.
        let validator = |text: &Option<Box<str>>| HeaderValue::from_str(text.as_deref()?).ok();
        if let Some(etag) = validator(&request.validators.etag) {
            fields.insert(IF_NONE_MATCH, etag);
        }
        if let Some(date) = validator(&request.validators.last_modified) {
            fields.insert(IF_MODIFIED_SINCE, date);
        }
        let mut built = http::Request::new(Empty::new());
        *built.method_mut() = Method::GET;
        *built.uri_mut() = Uri::from(path);
        *built.headers_mut() = fields;
        Some(built)
    }
}

/// Looks for the final answer's head in what was received, going on where it stopped: a head
/// that comes byte by byte is read once and not a thousand times.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    start: usize,
    /// Up to here nothing ends a head.
    at: usize,
}

impl HeadScan {
    /// Where the head lies; none while it is incomplete. Lines may end without a carriage return,
    /// as hyper also takes them.
    pub(crate) fn find(&mut self, received: &[u8]) -> Option<Range<usize>> {
        loop {
            if self.at == self.start {
                let blank = received[self.start..].iter();
                self.start += blank.take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                self.at = self.start;
            }
            self.at += received[self.at..].iter().position(|&byte| byte == b'\n')?;
            let end = match received[self.at + 1..] {
                [b'\n', ..] => self.at + 2,
                [b'\r', b'\n', ..] => self.at + 3,
                // What comes next decides.
                [] | [b'\r'] => return None,
                _ => {
                    self.at += 1;
                    continue;
                }
            };
            if !is_informational(&received[self.start..end]) {
                return Some(self.start..end);
            }
            (self.start, self.at) = (end, end);
        }
    }
}

/// Whether this can be the beginning of an answer.
pub(crate) fn may_be_http(received: &[u8]) -> bool {
    let blank = received.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let start = &received[blank..];
    let len = start.len().min(5);
    start[..len] == b"HTTP/"[..len]
}

/// Where in a head the names of those `Content-Length` fields begin whose value is no length at
/// all. hyper would take none of the answer; browsers read such a body up to its end.
pub(crate) fn bad_lengths(head: &[u8]) -> Vec<usize> {
    let is_length = |part: &[u8]| {
        let digits = std::str::from_utf8(part.trim_ascii()).unwrap_or("");
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u64>().is_ok()
    };
    let mut bad = Vec::new();
    let mut at = 0;
    for line in head.split_inclusive(|&byte| byte == b'\n') {
        if let Some(colon) = line.iter().position(|&byte| byte == b':')
            && line[..colon].trim_ascii_end().eq_ignore_ascii_case(b"content-length")
            && !line[colon + 1..].split(|&byte| byte == b',').all(is_length)
        {
            bad.push(at);
        }
        at += line.len();
    }
    bad
}

/// 1xx, but not 101, which is the last word of a connection.
fn is_informational(head: &[u8]) -> bool {
    let status = head
        .split(|&byte| byte == b' ')
        .find(|part| !part.is_empty() && !part.starts_with(b"HTTP/"));
    matches!(status.map(<[u8]>::trim_ascii_end), Some([b'1', b, c, ..])
        if (*b, *c) != (b'0', b'1'))
}

/// The fields of a head: names in lower case, in the order of the wire. A folded line continues
/// the one before; a line that is no field is skipped, as hyper does.
pub(crate) fn fields(head: &[u8]) -> Vec<(Box<str>, Box<[u8]>)> {
    let mut fields: Vec<(Box<str>, Box<[u8]>)> = Vec::with_capacity(16);
    let lines = head.split(|&byte| byte == b'\n').skip(1);
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let [b' ' | b'\t', ..] = line {
            if let Some((_, value)) = fields.last_mut() {
                *value = [&**value, line.trim_ascii()].join(&b' ').into();
            }
            continue;
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let Ok(name) = std::str::from_utf8(line[..colon].trim_ascii_end()) else { continue };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            continue;
        }
        let mut name: Box<str> = name.into();
        name.make_ascii_lowercase();
        fields.push((name, line[colon + 1..].trim_ascii().into()));
    }
    fields
}

/// Writes the head of an answer that came without one, in the shape of HTTP/1.1.
pub(crate) fn write(out: &mut Vec<u8>, status: StatusCode, fields: &HeaderMap) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.extend_from_slice(b"\r\n");
    write_fields(out, fields);
}

/// The same for a request.
pub(crate) fn write_request(out: &mut Vec<u8>, parts: &http::request::Parts) {
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(parts.uri.to_string().as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    write_fields(out, &parts.headers);
}

fn write_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    // A value cannot hold a line end: the type does not let it.
    for (name, value) in fields {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// The media type of a `Content-Type` value, without parameters, in lower case.
pub(crate) fn media_type(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
    String::from_utf8_lossy(value[..end].trim_ascii()).to_ascii_lowercase()
}

/// How long a server says that it keeps the connection (`Keep-Alive: timeout=5`).
pub(crate) fn keep_alive(fields: &HeaderMap) -> Option<Duration> {
    let value = fields.get("keep-alive")?.to_str().ok()?;
    let mut parts = value.split(',').filter_map(|part| part.split_once('='));
    let (_, secs) = parts.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    secs.trim().parse().ok().map(Duration::from_secs)
}

/// Whether chunks delimit the body: `chunked` is the last of its transfer codings.
pub(crate) fn is_chunked(fields: &HeaderMap) -> bool {
    let last = fields.get_all(TRANSFER_ENCODING).iter().next_back();
    let token = last.and_then(|value| value.as_bytes().rsplit(|&byte| byte == b',').next());
    token.is_some_and(|token| token.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use types::{CrawlUrl, Validators};

    use super::*;

    fn made(settings: &FetchSettings) -> Result<RequestFields, Error> {
        let who = Introduction { user_agent: "test".to_owned(), from: None };
        RequestFields::new(&who, settings, RequestSheets::default())
    }

    fn plain() -> RequestFields {
        made(&FetchSettings::default()).unwrap()
    }

    fn ask(url: &str) -> Request {
        Request {
            url: CrawlUrl::parse(url).unwrap(),
            address: Ipv4Addr::LOCALHOST.into(),
            purpose: Purpose::Page,
            validators: Validators::default(),
        }
    }

    #[test]
    fn every_canonical_url_can_be_requested_as_it_is_written() {
        // Whatever WHATWG leaves unescaped must pass hyper's own, narrower idea of a path.
        for byte in 0x20..0x7fu8 {
            let byte = char::from(byte);
            for url in [format!("http://a.test/x{byte}y"), format!("http://a.test/?q={byte}y")] {
                let request = ask(&url);
                let built = plain().request(&request, None);
                let built = built.unwrap_or_else(|| panic!("{url}"));
                assert_eq!(built.uri().to_string(), request.url.path_and_query(), "{url}");
            }
        }
        for url in ["http://a.test//", "http://a.test/ä?ö", "http://a.test/*", "http://a.test/%"]
        {
            let request = ask(url);
            let built = plain().request(&request, None).unwrap();
            assert_eq!(built.uri().to_string(), request.url.path_and_query());
        }
    }

    #[test]
    fn extra_fields_are_added_or_replace_ours_but_never_steer_the_message() {
        let settings = |name: &str, value: &str| FetchSettings {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..FetchSettings::default()
        };
        let fields = made(&settings("Accept", "text/plain")).unwrap();
        let built = fields.request(&ask("http://a.test/"), None).unwrap();
        assert_eq!(built.headers()[ACCEPT], "text/plain");
        for (name, value) in
            [("Host", "b.test"), ("Content-Length", "1"), ("a b", "c"), ("a", "\n")]
        {
            assert!(made(&settings(name, value)).is_err(), "{name}");
        }
        let who = Introduction { user_agent: "a\nb".to_owned(), from: None };
        let (settings, sheets) = (FetchSettings::default(), RequestSheets::default());
        assert!(RequestFields::new(&who, &settings, sheets).is_err());
    }

    #[test]
    fn the_head_of_the_final_answer_is_found() {
        let check = |received: &str, want: Option<&str>| {
            assert_eq!(
                HeadScan::default().find(received.as_bytes()).map(|range| &received[range]),
                want
            );
        };
        check("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", Some("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"));
        check("HTTP/1.1 200 OK\nA: b\n\nbody\n\n", Some("HTTP/1.1 200 OK\nA: b\n\n"));
        check("HTTP/1.1 200\r\n\r\n", Some("HTTP/1.1 200\r\n\r\n"));
        check("HTTP/1.1 101 Up\r\n\r\n", Some("HTTP/1.1 101 Up\r\n\r\n"));
        check("\r\n\nHTTP/1.1 200 OK\r\n\r\n", Some("HTTP/1.1 200 OK\r\n\r\n"));
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\n\r\n",
            Some("HTTP/1.1 404 No\r\n\r\n"),
        );
        check("HTTP/1.1 100\r\n\r\n\r\nHTTP/1.1 200\r\n\r\n", Some("HTTP/1.1 200\r\n\r\n"));
        check("HTTP/1.1 100 Continue\r\n\r\n", None);
        check("HTTP/1.1 200 OK\r\nA: b\r\n", None);
        check("", None);
    }

    #[test]
    fn fields_keep_their_order_and_repeats() {
        let head = b"HTTP/1.1 200 OK\r\nServer: x\r\nSet-Cookie: a=1\r\nVary:Accept\r\n\
            set-cookie:  b=2 \r\nnonsense\r\nX-Bytes: \xff\r\nX-Long: one\r\n  two\r\nName : y\r\n\r\n";
        let got = fields(head);
        let got: Vec<(&str, &[u8])> = got.iter().map(|(name, value)| (&**name, &**value)).collect();
        let want: [(&str, &[u8]); 7] = [
            ("server", b"x"),
            ("set-cookie", b"a=1"),
            ("vary", b"Accept"),
            ("set-cookie", b"b=2"),
            ("x-bytes", b"\xff"),
            ("x-long", b"one two"),
            ("name", b"y"),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn small_values() {
        assert_eq!(media_type(b" Text/HTML ; charset=utf-8"), "text/html");
        let secs = |text: &'static str| {
            let fields = HeaderMap::from_iter([(
                HeaderName::from_static("keep-alive"),
                HeaderValue::from_static(text),
            )]);
            keep_alive(&fields).map(|span| span.as_secs())
        };
        assert_eq!(secs("timeout=5, max=100"), Some(5));
        assert_eq!(secs("max=100, Timeout = 15"), Some(15));
        assert_eq!(secs("300"), None);
    }
}
