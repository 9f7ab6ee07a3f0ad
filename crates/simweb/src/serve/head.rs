//! What does a request ask for?
//!
//! As much of HTTP/1.1 as crawlers send: a request line, headers, no body.

/// Longer heads are refused with 431.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Headers that an answer can depend on. Others are skipped.
pub(super) const KNOWN: [&str; 6] =
    ["host", "user-agent", "if-none-match", "if-modified-since", "accept-encoding", "connection"];

/// The head of a request; all parts are views into it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) target: &'a str,
    /// Without port; lower case is up to the reader.
    pub(super) host: &'a str,
    /// The known ones, names in lower case.
    pub(super) headers: Vec<(&'static str, &'a str)>,
    /// The client will close, or speaks HTTP/1.0.
    pub(super) closes: bool,
}

impl<'a> Head<'a> {
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Where the head ends, the empty line included.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// None for whatever is no request.
pub(super) fn parse(bytes: &[u8]) -> Option<Head<'_>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    let mut headers = Vec::with_capacity(KNOWN.len());
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        if let Some(known) = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(name)) {
            headers.push((*known, value.trim()));
        }
    }
    let mut head = Head { method, target, host: "", headers, closes: version == "HTTP/1.0" };
    let mut authority = head.header("host").unwrap_or("");
    // A proxy is asked with the whole URL.
    if let Some(rest) = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://")) {
        let slash = rest.find('/').unwrap_or(rest.len());
        authority = &rest[..slash];
        head.target = if slash < rest.len() { &rest[slash..] } else { "/" };
    }
    head.host = without_port(authority);
    head.closes |=
        head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    (head.target.starts_with('/') && !head.host.is_empty()).then_some(head)
}

pub(super) fn without_port(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_a_crawler_is_understood() {
        let text = b"GET /a?b=1 HTTP/1.1\r\nHost: a.test:8080\r\nUser-Agent: lycosa/0.1\r\n\
                     Accept: */*\r\nIF-NONE-MATCH: \"x\"\r\n\r\nrest";
        let end = end(text).unwrap();
        let head = parse(&text[..end]).unwrap();
        assert_eq!((head.method, head.target, head.host), ("GET", "/a?b=1", "a.test"));
        assert_eq!(head.header("if-none-match"), Some("\"x\""));
        assert_eq!(head.header("accept"), None);
        assert!(!head.closes);
        let head = parse(b"GET http://b.test/x HTTP/1.0\r\nhost: a.test\r\n\r\n").unwrap();
        assert_eq!((head.target, head.host, head.closes), ("/x", "b.test", true));
    }

    #[test]
    fn what_is_no_request_is_none() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET /\r\nhost: a\r\n\r\n",
            "GET / HTTP/2\r\nhost: a\r\n\r\n",
            "GET x HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nnonsense\r\n\r\n",
            "\x16\x03\x01\r\n\r\n",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
