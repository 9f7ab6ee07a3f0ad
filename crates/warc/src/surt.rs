//! Under which key is a URL found in an index?
//!
//! Its SURT: the host's labels reversed, then path and sorted query, so that a domain's pages
//! stand together: `com,example)/path?a=1&b=2`. The key is a *loose* form: scheme, `www.`,
//! default port, user, fragment, case, session ids and repeated escapes are gone, so that look-up
//! finds a page however it was linked. The rules, odd ones included, are those of the Python
//! package `surt`, because pywb and cdxj-indexer look up by its keys; a table made by running it
//! (`tests/fixtures/surt.tsv`) holds us to them.
//!
//! Not here: the canonical form that decides what is fetched (`types`); that one keeps a page's
//! identity, this one blurs it. Host names come in punycode, as everywhere in lycosa.

use std::borrow::Cow;
use std::net::Ipv4Addr;

mod session;
use session::{strip_from_path, strip_from_query};

/// The key; a URL that cannot be taken apart (say, with a port that is no number) is its own.
#[must_use]
pub fn surt(url: &str) -> String {
    if url.is_empty() {
        return "-".to_owned();
    }
    if url.starts_with("filedesc") {
        return url.to_owned();
    }
    let key = key(url.trim_ascii().as_bytes()).unwrap_or_else(|| url.as_bytes().to_vec());
    String::from_utf8_lossy(&key).into_owned()
}

fn key(url: &[u8]) -> Option<Vec<u8>> {
    let mut url: Vec<u8> = url.iter().copied().filter(|b| !b"\n\r\t".contains(b)).collect();
    if scheme_len(&url).is_none() {
        url.splice(..0, *b"http://");
    }
    let url = strip_repeated_protocol(&url);
    let scheme_len = scheme_len(url)?;
    let scheme = url[..scheme_len].to_ascii_lowercase();
    let rest = &url[scheme_len + 1..];
    let rest = rest.split(|&byte| byte == b'#').next().unwrap_or(rest);
    let (rest, query) = match rest.iter().position(|&byte| byte == b'?') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &[][..]),
    };
    let (authority, path) = split_authority(rest);
    let (mut host, port) = host_and_port(authority)?;
    let mut path = Cow::Borrowed(path);
    if host.is_empty() && !path.is_empty() && scheme.starts_with(b"http") {
        // "http:////example.com/x"
        let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
        let mut parts = path[start..].splitn(2, |&byte| byte == b'/');
        host = parts.next().unwrap_or_default().to_ascii_lowercase();
        path = [b"/", parts.next().unwrap_or_default()].concat().into();
    }

    let host = normal_host(&host);

    let mut key = Vec::with_capacity(url.len());
    if host.is_empty() {
        key.extend_from_slice(&scheme);
        key.push(b':');
    } else {
        push_reversed(&mut key, strip_www(&host));
        let default = [(&b"http"[..], 80), (b"https", 443)].contains(&(&scheme, port));
        if port != 0 && !default {
            key.extend_from_slice(format!(":{port}").as_bytes());
        }
        key.push(b')');
    }
    push_path(&mut key, &path, !host.is_empty());
    push_query(&mut key, query, host.is_empty() && path.is_empty());
    Some(key)
}

fn scheme_len(url: &[u8]) -> Option<usize> {
    let colon = url.iter().position(|&byte| byte == b':')?;
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let starts = url.first().is_some_and(u8::is_ascii_alphabetic);
    (starts && url[..colon].iter().all(legal)).then_some(colon)
}

/// "http://https://example.com" is https.
fn strip_repeated_protocol(url: &[u8]) -> &[u8] {
    let protocol = |url: &[u8]| {
        let found = [&b"http://"[..], b"https://"].into_iter().find(|p| url.starts_with(p));
        found.map(<[u8]>::len)
    };
    let mut url = url;
    while let Some(len) = protocol(url)
        && protocol(&url[len..]).is_some()
    {
        url = &url[len..];
    }
    url
}

fn split_authority(rest: &[u8]) -> (&[u8], &[u8]) {
    let Some(after) = rest.strip_prefix(b"//") else { return (&[], rest) };
    after.split_at(after.iter().position(|&byte| byte == b'/').unwrap_or(after.len()))
}

/// Host without brackets and in lower case, port or 0; `None` for a port that is none.
fn host_and_port(authority: &[u8]) -> Option<(Vec<u8>, u16)> {
    let end = authority.iter().rposition(|&byte| byte != b':').map_or(0, |last| last + 1);
    let authority = &authority[..end];
    let host = authority.rsplit(|&byte| byte == b'@').next().unwrap_or(authority);
    let (host, port) = match host.iter().position(|&byte| byte == b'[') {
        Some(open) => {
            let (host, rest) = split_at_byte(&host[open + 1..], b']');
            (host, split_at_byte(rest, b':').1)
        }
        None => split_at_byte(host, b':'),
    };
    let digits = port.iter().all(u8::is_ascii_digit);
    let port = match std::str::from_utf8(port) {
        Ok("") => 0,
        Ok(port) if digits => port.parse().ok()?,
        _ => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

fn split_at_byte(bytes: &[u8], at: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&byte| byte == at) {
        Some(found) => (&bytes[..found], &bytes[found + 1..]),
        None => (bytes, &[]),
    }
}

/// Escapes undone and done again, in lower case, without double or outer dots; an address in its
/// usual spelling.
fn normal_host(host: &[u8]) -> Vec<u8> {
    let mut single = Vec::with_capacity(host.len());
    // One pass, as the model: "a....b" keeps two dots.
    let mut bytes = unescape_repeatedly(host).into_iter().peekable();
    while let Some(byte) = bytes.next() {
        single.push(byte);
        if byte == b'.' {
            bytes.next_if_eq(&b'.');
        }
    }
    let start = single.iter().position(|&byte| byte != b'.').unwrap_or(single.len());
    let end = single.iter().rposition(|&byte| byte != b'.').map_or(start, |last| last + 1);
    let host = &single[start..end];
    let mut out = Vec::with_capacity(host.len());
    match ipv4(host) {
        Some(ip) => out.extend_from_slice(ip.to_string().as_bytes()),
        None => push_escaped(&mut out, host),
    }
    out.make_ascii_lowercase();
    out
}

fn push_reversed(key: &mut Vec<u8>, host: &[u8]) {
    for (at, label) in host.split(|&byte| byte == b'.').rev().enumerate() {
        if at > 0 {
            key.push(b',');
        }
        key.extend_from_slice(label);
    }
}

/// `www.`, `www2.`, …
fn strip_www(host: &[u8]) -> &[u8] {
    let Some(rest) = host.strip_prefix(b"www") else { return host };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b".").unwrap_or(host)
}

/// An address in any of the spellings that C libraries take: `127.1`, `0177.0.0.1`, `2130706433`.
fn ipv4(host: &[u8]) -> Option<Ipv4Addr> {
    let text = std::str::from_utf8(host).ok()?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only the low 32 bits count, however long the number.
        let number = text
            .bytes()
            .fold(0_u32, |sum, digit| sum.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
        return Some(Ipv4Addr::from(number));
    }
    let parts: Vec<&str> = text.split('.').collect();
    let (last, front) = parts.split_last().filter(|(_, front)| front.len() < 4)?;
    let mut address = 0_u32;
    for (at, part) in front.iter().enumerate() {
        address |= number(part).filter(|&n| n < 256)? << (24 - 8 * at);
    }
    let room = 32 - 8 * u32::try_from(front.len()).ok()?;
    let last = number(last).filter(|&n| u64::from(n) < 1 << room)?;
    Some(Ipv4Addr::from(address | last))
}

fn number(part: &str) -> Option<u32> {
    let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match part.strip_prefix('0') {
        _ if !digits => None,
        Some("") => Some(0),
        Some(octal) => u32::from_str_radix(octal, 8).ok(),
        None => part.parse().ok(),
    }
}

fn push_path(key: &mut Vec<u8>, path: &[u8], of_host: bool) {
    let mut path = unescape_repeatedly(path);
    if of_host {
        path = resolve_dots(&path);
    }
    let mut escaped = Vec::with_capacity(path.len());
    push_escaped(&mut escaped, &path);
    escaped.make_ascii_lowercase();
    let mut path = strip_from_path(&escaped);
    if path.len() > 1
        && let Some(shorter) = path.strip_suffix(b"/")
    {
        path = Cow::Owned(shorter.to_vec());
    }
    key.extend_from_slice(&path);
}

fn resolve_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/').skip(1) {
        match part {
            b"." => {}
            // One that leads above the root stays, as the model leaves it.
            b".." if kept.pop().is_none() => kept.push(part),
            b".." => {}
            _ => kept.push(part),
        }
    }
    let mut out = vec![b'/'];
    if let Some((last, front)) = kept.split_last() {
        for part in front.iter().filter(|part| !part.is_empty()) {
            out.extend_from_slice(part);
            out.push(b'/');
        }
        out.extend_from_slice(last);
    }
    out
}

fn push_query(key: &mut Vec<u8>, query: &[u8], alone: bool) {
    let mut escaped = Vec::with_capacity(query.len());
    push_escaped(&mut escaped, &unescape_repeatedly(query));
    escaped.make_ascii_lowercase();
    let query = strip_from_query(escaped);
    if query.is_empty() {
        return;
    }
    // Neither host nor path: a query needs something to stand on.
    if alone {
        key.push(b'/');
    }
    let mut pairs: Vec<(&[u8], Option<&[u8]>)> = query
        .split(|&byte| byte == b'&')
        .map(|pair| match pair.iter().position(|&byte| byte == b'=') {
            Some(at) => (&pair[..at], Some(&pair[at + 1..])),
            None => (pair, None),
        })
        .collect();
    pairs.sort();
    for (at, (name, value)) in pairs.into_iter().enumerate() {
        key.push(if at == 0 { b'?' } else { b'&' });
        key.extend_from_slice(name);
        if let Some(value) = value {
            key.push(b'=');
            key.extend_from_slice(value);
        }
    }
}

/// Takes escapes off until there are none: `%2541` is `A`. In one pass, because a hostile URL can
/// be wrapped a thousand times: an escape that another one completes is taken off right there.
fn unescape_repeatedly(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        out.push(byte);
        while let [.., b'%', high, low] = out[..]
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            out.truncate(out.len() - 3);
            out.push(u8::try_from(high * 16 + low).expect("two hex digits"));
        }
    }
    out
}

/// Escapes what is not printable ASCII, and `%` and `#`.
fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' && byte != b'#' {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::surt;

    #[test]
    fn keys_are_those_of_the_python_package() {
        let table = include_str!("../tests/fixtures/surt.tsv");
        let rows: Vec<_> = table.lines().filter_map(|line| line.split_once('\t')).collect();
        assert!(rows.len() >= 100);
        for (url, key) in rows {
            assert_eq!(surt(url), key, "{url}");
        }
    }

    #[test]
    fn escapes_within_escapes_are_taken_off() {
        assert_eq!(surt("http://a.test/%2%341"), "test,a)/$1");
        let wrapped = format!("http://a.test/%{}41", "25".repeat(100_000));
        assert_eq!(surt(&wrapped), "test,a)/a");
    }

    #[test]
    fn even_nonsense_has_a_key() {
        for url in
            ["", ":", "://", "http:", "http://", "http://[", "%", "http://%/%", "?", "#", "@"]
        {
            assert!(!surt(url).is_empty() || url.is_empty());
        }
        assert_eq!(surt(""), "-");
    }
}
