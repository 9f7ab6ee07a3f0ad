//! When do two texts name one page?
//!
//! The canonical form: WHATWG parse and serialisation; http and https only; host in lower case,
//! IDNA, final dot off; default port, user info and fragment off; dot segments resolved; escapes
//! of unreserved characters decoded and hex digits in upper case; query parameters sorted by
//! name (stable, values untouched, empty ones dropped), session ids and tracking parameters
//! removed; the `?` of an empty query off. The path is otherwise untouched.
//!
//! Always: the form of a form is itself (`parse(parse(x)) == parse(x)`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::plain::Plain;
use crate::url::{Base, CrawlUrl, UrlError};

/// Longer texts are refused before they are parsed. Scope has a limit of its own, far below.
pub const URL_BYTES_MAX: usize = 64 * 1024;

/// Parameters that name a session or a campaign, never a page. A final `*` matches any ending;
/// case does not count.
pub const NOISE_PARAMETERS: &[&str] = &[
    // Campaigns and clicks.
    "utm_*",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "fbclid",
    "msclkid",
    "yclid",
    "ymclid",
    "twclid",
    "ttclid",
    "igshid",
    "igsh",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "__hssc",
    "__hstc",
    "__hsfp",
    "hsctatracking",
    "vero_id",
    "vero_conv",
    "oly_anon_id",
    "oly_enc_id",
    "wickedid",
    "rb_clickid",
    "s_cid",
    "epik",
    "srsltid",
    "_openstat",
    "ml_subscriber",
    "ml_subscriber_hash",
    // Sessions.
    "phpsessid",
    "jsessionid",
    "aspsessionid*",
    "cfid",
    "cftoken",
    "oscsid",
    "zenid",
    "sessid",
    "sessionid",
    "session_id",
];

/// How URLs are brought into canonical form.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CanonSettings {
    /// Query parameters removed from every URL (sessions and campaigns); a final `*` matches any
    /// ending, case does not count. An empty list removes none. `jsessionid` is removed from paths
    /// as well.
    pub strip_parameters: Vec<String>,
    /// More parameters to remove, beside the list above.
    pub strip_parameters_extra: Vec<String>,
    /// `true` takes the final slash off every path but `/`.
    pub strip_trailing_slash: bool,
    /// `true` takes `index.html`, `index.htm`, `index.php` and `default.asp(x)` off the end of a path.
    pub strip_index_page: bool,
}

impl Default for CanonSettings {
    fn default() -> Self {
        Self {
            strip_parameters: NOISE_PARAMETERS.iter().map(|&name| name.to_owned()).collect(),
            strip_parameters_extra: Vec::new(),
            strip_trailing_slash: false,
            strip_index_page: false,
        }
    }
}

/// The rules, ready to be applied.
#[derive(Debug, Clone)]
pub struct Canon {
    exact: Vec<Box<[u8]>>,
    prefixes: Vec<Box<[u8]>>,
    strip_path_session: bool,
    strip_trailing_slash: bool,
    strip_index_page: bool,
}

impl Default for Canon {
    fn default() -> Self {
        Self::new(&CanonSettings::default())
    }
}

impl Canon {
    pub fn new(settings: &CanonSettings) -> Self {
        let mut exact = Vec::new();
        let mut prefixes = Vec::new();
        for name in settings.strip_parameters.iter().chain(&settings.strip_parameters_extra) {
            let name = name.to_ascii_lowercase();
            match name.strip_suffix('*') {
                Some(prefix) => prefixes.push(prefix.as_bytes().into()),
                None => exact.push(name.as_bytes().into()),
            }
        }
        exact.sort();
        exact.dedup();
        let strip_path_session = exact.binary_search(&b"jsessionid".as_slice().into()).is_ok();
        Self {
            exact,
            prefixes,
            strip_path_session,
            strip_trailing_slash: settings.strip_trailing_slash,
            strip_index_page: settings.strip_index_page,
        }
    }

    /// An absolute URL in canonical form.
    pub fn parse(&self, text: &str) -> Result<CrawlUrl, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong(text.len()));
        }
        let url = Url::parse(text).map_err(|error| syntax(text, error))?;
        self.finish(&url)
    }

    /// A link as it stands in a document, joined to the document's base.
    pub fn join(&self, base: &Base, href: &str) -> Result<CrawlUrl, UrlError> {
        let mut out = String::new();
        self.join_into(base, href, None, &mut out)?;
        CrawlUrl::from_canonical(&out)
    }

    /// The same into a buffer that the caller reuses: no allocation of ours for a link that turns
    /// out to be known. `out` is cleared first. `encode` writes the query in the encoding of its
    /// page, where that is not UTF-8.
    pub fn join_into(
        &self,
        base: &Base,
        href: &str,
        encode: url::EncodingOverride<'_>,
        out: &mut String,
    ) -> Result<(), UrlError> {
        if href.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong(href.len()));
        }
        if let Some(plain) = Plain::of(href) {
            match plain.origin {
                Some(origin) => {
                    out.clear();
                    out.push_str(origin);
                }
                None => push_origin(&base.0, out)?,
            }
            let path_start = out.len();
            out.push_str(plain.path);
            self.trim_path(path_start, out);
            if let Some(query) = plain.query {
                self.push_query(query, out);
            }
            return check_length(out);
        }
        let url = Url::options()
            .base_url(Some(&base.0))
            .encoding_override(encode)
            .parse(href)
            .map_err(|error| syntax(href, error))?;
        self.write(&url, out)
    }

    fn finish(&self, url: &Url) -> Result<CrawlUrl, UrlError> {
        let mut out = String::with_capacity(url.as_str().len());
        self.write(url, &mut out)?;
        CrawlUrl::from_canonical(&out)
    }

    pub(crate) fn write(&self, url: &Url, out: &mut String) -> Result<(), UrlError> {
        push_origin(url, out)?;
        let path_start = out.len();
        push_normal_escapes(url.path(), out);
        while self.strip_path_session
            && let Some(path) = without_session(&out[path_start..])
        {
            // What is left may be a dot segment, or an escape, that was none before.
            let mut url = url.clone();
            url.set_path(&path);
            out.truncate(path_start);
            push_normal_escapes(url.path(), out);
        }
        self.trim_path(path_start, out);
        if let Some(query) = url.query() {
            self.push_query(query, out);
        }
        check_length(out)
    }

    fn trim_path(&self, path_start: usize, out: &mut String) {
        // One may uncover the other: `/index.html/` and the like.
        let mut before = usize::MAX;
        while out.len() < before {
            before = out.len();
            if self.strip_index_page {
                let slash = out.rfind('/').unwrap_or(path_start);
                let last = &out[slash + 1..];
                if ["index.html", "index.htm", "index.php", "default.asp", "default.aspx"]
                    .iter()
                    .any(|page| last.eq_ignore_ascii_case(page))
                {
                    out.truncate(slash + 1);
                }
            }
            if self.strip_trailing_slash {
                while out.len() > path_start + 1 && out.ends_with('/') {
                    out.pop();
                }
            }
        }
    }

    fn push_query(&self, query: &str, out: &mut String) {
        let mut unescaped = String::new();
        let normal = if query.contains('%') {
            push_normal_escapes(query, &mut unescaped);
            unescaped.as_str()
        } else {
            query
        };
        let mut kept: Vec<(&str, &str)> = normal
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| (pair.split_once('=').map_or(pair, |(name, _)| name), pair))
            .filter(|(name, _)| !self.is_noise(name.as_bytes()))
            .collect();
        kept.sort_by_key(|(name, _)| *name);
        for (n, (_, pair)) in kept.iter().enumerate() {
            out.push(if n == 0 { '?' } else { '&' });
            out.push_str(pair);
        }
    }

    fn is_noise(&self, name: &[u8]) -> bool {
        // Names are short; lower-case them on the stack.
        let mut buffer = [0_u8; 32];
        let Some(lower) = buffer.get_mut(..name.len()) else {
            let lower = name.to_ascii_lowercase();
            return self.is_noise_lower(&lower);
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.is_noise_lower(lower)
    }

    fn is_noise_lower(&self, name: &[u8]) -> bool {
        self.exact.binary_search_by(|known| known.as_ref().cmp(name)).is_ok()
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Scheme, host and port; `out` is cleared first.
fn push_origin(url: &Url, out: &mut String) -> Result<(), UrlError> {
    out.clear();
    match url.scheme() {
        "http" => out.push_str("http://"),
        "https" => out.push_str("https://"),
        other => return Err(UrlError::Scheme(other.to_owned())),
    }
    let host = url.host_str().unwrap_or("");
    let host = host.strip_suffix('.').unwrap_or(host);
    // A name with an empty label is nobody's; without its dots it would be another's.
    if host.is_empty() || host.split('.').any(str::is_empty) {
        return Err(UrlError::NoHost(url.as_str().to_owned()));
    }
    out.push_str(host);
    if let Some(port) = url.port() {
        out.push(':');
        out.push_str(itoa(port, &mut [0; 5]));
    }
    Ok(())
}

/// Escapes and the base may have made it longer than what was given.
fn check_length(out: &str) -> Result<(), UrlError> {
    if out.len() > URL_BYTES_MAX { Err(UrlError::TooLong(out.len())) } else { Ok(()) }
}

fn syntax(text: &str, error: url::ParseError) -> UrlError {
    let hint = match error {
        url::ParseError::RelativeUrlWithoutBase if looks_like_host(text) => {
            format!("; did you mean http://{text}?")
        }
        _ => String::new(),
    };
    UrlError::Syntax(format!("`{}` is not a URL: {error}{hint}", clip(text)))
}

fn looks_like_host(text: &str) -> bool {
    text.contains('.') && !text.contains(char::is_whitespace) && !text.starts_with(['.', '/'])
}

/// The first 200 bytes or so, for a message.
fn clip(text: &str) -> &str {
    let end = text.char_indices().map(|(at, _)| at).nth(200).unwrap_or(text.len());
    &text[..end]
}

fn itoa(mut number: u16, buffer: &mut [u8; 5]) -> &str {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return std::str::from_utf8(&buffer[at..]).expect("digits are ASCII");
        }
    }
}

/// `/a;jsessionid=1F3/b` → `/a/b`: servlets put the session into the path. None if there is none.
fn without_session(path: &str) -> Option<String> {
    const MARK: &str = ";jsessionid=";
    let find = |text: &str| {
        text.match_indices(';').map(|(at, _)| at).find(|&at| {
            text.as_bytes()
                .get(at..at + MARK.len())
                .is_some_and(|m| m.eq_ignore_ascii_case(MARK.as_bytes()))
        })
    };
    find(path)?;
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = find(rest) {
        out.push_str(&rest[..at]);
        let tail = &rest[at + MARK.len()..];
        rest = &tail[tail.find([';', '/']).unwrap_or(tail.len())..];
    }
    out.push_str(rest);
    Some(out)
}

/// Decodes escapes of unreserved characters and writes hex digits in upper case. An escape whose
/// decoding would complete an escape with a stray `%` before it stays as it is, so that the
/// result is a fixed point: `%%37%31` must not become `%71` and then `q`.
fn push_normal_escapes(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'%') {
        out.push_str(text);
        return;
    }
    let mut stray: Option<usize> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            at += 1;
            continue;
        }
        out.push_str(&text[copied..at]);
        match (hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (Some(high), Some(low)) => {
                let byte = high << 4 | low;
                let completes = byte.is_ascii_hexdigit()
                    && stray.is_some_and(|s| {
                        let between = &out.as_bytes()[s + 1..];
                        between.len() <= 1 && between.iter().all(u8::is_ascii_hexdigit)
                    });
                if is_unreserved(byte) && !completes {
                    out.push(char::from(byte));
                } else {
                    out.push('%');
                    out.push(char::from(b"0123456789ABCDEF"[usize::from(high)]));
                    out.push(char::from(b"0123456789ABCDEF"[usize::from(low)]));
                }
                at += 3;
            }
            _ => {
                stray = Some(out.len());
                out.push('%');
                at += 1;
            }
        }
        copied = at;
    }
    out.push_str(&text[copied..]);
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    char::from(*digit?).to_digit(16).map(|value| value as u8)
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found while the fuzzer was written: `join_into` gave such a text as canonical, and nobody could read it.
    #[test]
    fn a_url_that_grows_too_long_is_told_so() {
        let canon = Canon::default();
        let base = Base::parse("http://a.test/").unwrap();
        let link = "é".repeat(URL_BYTES_MAX / 5);
        let error = Err(UrlError::TooLong("http://a.test/".len() + 6 * (URL_BYTES_MAX / 5)));
        assert_eq!(canon.join_into(&base, &link, None, &mut String::new()), error);
        assert_eq!(canon.join(&base, &link).map(|_| ()), error);
        assert_eq!(canon.parse(&format!("http://a.test/{link}")).map(|_| ()), error);
        let most = "x".repeat(URL_BYTES_MAX - "http://a.test/".len());
        assert_eq!(canon.join(&base, &most).unwrap().as_str().len(), URL_BYTES_MAX);
    }

    /// One line a rule: what goes in, what comes out.
    #[test]
    fn each_rule_holds() {
        let cases = "
            HTTP://Example.COM:80/a/../b?z=1&utm_source=x&a=2#f   http://example.com/b?a=2&z=1
            http://example.com                                    http://example.com/
            https://example.com:443/                              https://example.com/
            https://example.com:80/                               https://example.com:80/
            http://user:pw@example.com/                           http://example.com/
            http://example.com./                                  http://example.com/
            http://EXAMPLE.com/Path/                              http://example.com/Path/
            http://example.com//a//b                              http://example.com//a//b
            http://example.com/a/./b/../c                         http://example.com/a/c
            http://example.com/%7euser/%2f%c3%a9                  http://example.com/~user/%2F%C3%A9
            http://example.com/é                                  http://example.com/%C3%A9
            http://example.com/a%2Eb/%2e%2e/c                     http://example.com/c
            http://bücher.example/                                http://xn--bcher-kva.example/
            http://example.com/?                                  http://example.com/
            http://example.com/?&&                                http://example.com/
            http://example.com/?b=2&a=1&b=1                       http://example.com/?a=1&b=2&b=1
            http://example.com/?b&a=                              http://example.com/?a=&b
            http://example.com/?q=a+b&p=%7e%2f                    http://example.com/?p=~%2F&q=a+b
            http://example.com/?UTM_Medium=x&PHPSESSID=1&k=v      http://example.com/?k=v
            http://example.com/?gclid=1&fbclid=2                  http://example.com/
            http://example.com/a;jsessionid=1F.x?b=1              http://example.com/a?b=1
            http://example.com/a;JSESSIONID=1/b;v=2               http://example.com/a/b;v=2
            http://example.com/a/..;jsessionid=1                  http://example.com/
            http://example.com/x;jsession%69d=1                   http://example.com/x
            http://0x7f.1./                                       http://127.0.0.1/
            http://0x7f.1/                                        http://127.0.0.1/
            http://[0:0::1]:8080/                                 http://[::1]:8080/
            http://example.com/%%37%31                            http://example.com/%%371
            http://example.com/100%                               http://example.com/100%
        ";
        let cases: Vec<_> = cases.lines().filter(|line| !line.trim().is_empty()).collect();
        for line in &cases {
            let mut words = line.split_whitespace();
            let (input, want) = (words.next().unwrap(), words.next().unwrap());
            let url = CrawlUrl::parse(input).unwrap();
            assert_eq!(url.as_str(), want, "{input}");
            assert_eq!(CrawlUrl::parse(want).unwrap().as_str(), want, "not a fixed point: {want}");
        }
        assert_eq!(cases.len(), 29);
    }

    /// Texts made of the pieces that rules look at, in every mixture.
    #[test]
    fn the_form_of_a_form_is_itself() {
        const PIECES: &[&str] = &[
            "a",
            ".",
            "..",
            "/",
            "//",
            ";jsessionid=",
            ";jsession%69d=",
            ";JSESSIONID=1",
            ";v=2",
            "%",
            "%2e",
            "%2E",
            "%25",
            "2",
            "e",
            "6",
            "%36",
            "%2f",
            "%41",
            "index.html",
            "INDEX.htm/",
            "?",
            "&",
            "=",
            "utm_x=1",
            "%75tm_y",
            "sessionid",
            "#",
            "é",
            " ",
            "+",
            "\\",
            "'",
            "\"",
            "|",
            "^",
            "\t",
        ];
        const HOSTS: &[&str] =
            &["a.test", "A.test.", "a.test..", "0x7f.1", "1.2.3.4.", "[::1]:80", "u@b.test"];
        let all = CanonSettings {
            strip_trailing_slash: true,
            strip_index_page: true,
            ..CanonSettings::default()
        };
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut pick = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let mut formed = 0;
        for canon in [Canon::default(), Canon::new(&all)] {
            for _ in 0..100_000 {
                let mut text = format!("http://{}/", HOSTS[pick(HOSTS.len())]);
                for _ in 0..pick(12) {
                    text.push_str(PIECES[pick(PIECES.len())]);
                }
                let Ok(url) = canon.parse(&text) else { continue };
                formed += 1;
                let again = canon.parse(url.as_str()).unwrap();
                assert_eq!(again.as_str(), url.as_str(), "from {text:?}");
            }
        }
        assert!(formed > 100_000, "{formed}");
    }

    #[test]
    fn spaces_and_tabs_around_and_inside_are_handled_as_browsers_do() {
        let url = CrawlUrl::parse("  http://exa\tmple.com/a b ").unwrap();
        assert_eq!(url.as_str(), "http://example.com/a%20b");
    }

    #[test]
    fn what_is_not_http_is_refused_by_name() {
        assert_eq!(CrawlUrl::parse("ftp://a/").unwrap_err(), UrlError::Scheme("ftp".into()));
        assert_eq!(CrawlUrl::parse("mailto:a@b").unwrap_err(), UrlError::Scheme("mailto".into()));
        let error = CrawlUrl::parse("example.com/x").unwrap_err().to_string();
        assert!(error.contains("did you mean http://example.com/x?"), "{error}");
        assert!(matches!(CrawlUrl::parse("http://"), Err(UrlError::Syntax(_))));
        assert!(matches!(
            CrawlUrl::parse("http://."),
            Err(UrlError::NoHost(_) | UrlError::Syntax(_))
        ));
        for host in ["1.2.3.4..", "a..b", ".a.test", "a.test.."] {
            let error = CrawlUrl::parse(&format!("http://{host}/"));
            assert!(matches!(error, Err(UrlError::NoHost(_) | UrlError::Syntax(_))), "{host}");
        }
        let long = format!("http://a/{}", "x".repeat(URL_BYTES_MAX));
        assert!(matches!(CrawlUrl::parse(&long), Err(UrlError::TooLong(_))));
    }

    #[test]
    fn a_link_is_joined_to_its_base() {
        let canon = Canon::default();
        let base = Base::parse("http://a.test/x/y?q").unwrap();
        let join = |href: &str| canon.join(&base, href).unwrap().as_str().to_owned();
        assert_eq!(join("z"), "http://a.test/x/z");
        assert_eq!(join("/z?b=1&a=2"), "http://a.test/z?a=2&b=1");
        assert_eq!(join("//b.test"), "http://b.test/");
        assert_eq!(join("?p"), "http://a.test/x/y?p");
        assert_eq!(join("#top"), "http://a.test/x/y?q");
        assert_eq!(join(""), "http://a.test/x/y?q");
        assert_eq!(base.clone().rebased("/docs/").as_str(), "http://a.test/docs/");
        assert_eq!(base.clone().rebased("data:x").as_str(), base.as_str());
    }

    #[test]
    fn the_optional_rules_work_when_asked_for() {
        let canon = Canon::new(&CanonSettings {
            strip_trailing_slash: true,
            strip_index_page: true,
            strip_parameters: vec![],
            strip_parameters_extra: vec!["ref*".into()],
        });
        let parse = |text: &str| canon.parse(text).unwrap().as_str().to_owned();
        assert_eq!(parse("http://a.test/x/index.html"), "http://a.test/x");
        assert_eq!(parse("http://a.test/"), "http://a.test/");
        assert_eq!(parse("http://a.test/a;jsessionid=1"), "http://a.test/a;jsessionid=1");
        assert_eq!(parse("http://a.test/INDEX.php?utm_x=1&referrer=2"), "http://a.test/?utm_x=1");
    }
}
