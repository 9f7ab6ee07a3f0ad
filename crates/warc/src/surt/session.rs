//! Which parts of a path or a query are a session, and no part of the page's name?
//!
//! The kinds that the Python package knows, and no others: a key must be found by those tools.
//! All input is in lower case already.

use std::borrow::Cow;

/// ASP.NET puts a session into the path: `/(S(24 characters))/page.aspx`, `/(24 characters)/…`.
pub(super) fn strip_from_path(path: &[u8]) -> Cow<'_, [u8]> {
    let mut path = Cow::Borrowed(path);
    for is_session in [is_session_list as fn(&[u8]) -> bool, is_session_id] {
        let mut segments = Vec::new();
        let mut start = 0;
        while let Some(len) = path[start..].iter().position(|&byte| byte == b'/') {
            segments.push(start..start + len);
            start += len + 1;
        }
        // The last one that a page follows.
        let found = segments.into_iter().rev().find(|segment| {
            segment.start > 0
                && is_session(&path[segment.clone()])
                && names_aspx(&path[segment.end + 1..])
        });
        if let Some(segment) = found {
            path = [&path[..segment.start], &path[segment.end + 1..]].concat().into();
        }
    }
    path
}

fn names_aspx(rest: &[u8]) -> bool {
    let before_query = rest.split(|&byte| byte == b'?').next().unwrap_or(rest);
    before_query.windows(5).skip(1).any(|window| window == b".aspx")
}

/// `(24 characters)`
fn is_session_id(segment: &[u8]) -> bool {
    let inner = segment.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|id| id.len() == 24 && id.iter().all(u8::is_ascii_alphanumeric))
}

/// `(A(24 characters)B(24 characters)…)`
fn is_session_list(segment: &[u8]) -> bool {
    let inner = segment.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|list| {
        let parts = list.chunks(27);
        let part = |part: &[u8]| {
            part.first().is_some_and(u8::is_ascii_alphabetic) && is_session_id(&part[1..])
        };
        !list.is_empty() && parts.into_iter().all(part)
    })
}

/// Length of the session id that starts here.
type SessionLen = fn(&[u8]) -> Option<usize>;

/// Takes off one session id of each known kind: the last that a `&` or the end follows. A `&`
/// before it stays.
pub(super) fn strip_from_query(mut query: Vec<u8>) -> Vec<u8> {
    let kinds: [SessionLen; 5] = [
        |rest| fixed(rest, b"jsessionid=", 32),
        |rest| fixed(rest, b"phpsessid=", 32),
        |rest| fixed(rest, b"sid=", 32),
        asp_session,
        cold_fusion,
    ];
    for session_len in kinds {
        let found = (0..query.len()).rev().find_map(|at| {
            let end = at + session_len(&query[at..])?;
            [None, Some(&b'&')].contains(&query.get(end)).then_some((at, end))
        });
        if let Some((at, end)) = found {
            query.drain(at..query.len().min(end + 1));
        }
    }
    query
}

fn fixed(rest: &[u8], name: &[u8], len: usize) -> Option<usize> {
    let value = rest.strip_prefix(name)?.get(..len)?;
    value.iter().all(u8::is_ascii_alphanumeric).then_some(name.len() + len)
}

fn asp_session(rest: &[u8]) -> Option<usize> {
    let rest = rest.strip_prefix(b"aspsessionid")?.get(..8 + 1 + 24)?;
    let letters = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_alphabetic);
    (letters(&rest[..8]) && rest[8] == b'=' && letters(&rest[9..])).then_some(12 + rest.len())
}

fn cold_fusion(rest: &[u8]) -> Option<usize> {
    let value_len = |rest: &[u8]| {
        let len = rest.iter().position(|&byte| byte == b'&').unwrap_or(rest.len());
        (len > 0).then_some(len)
    };
    let cfid = 5 + value_len(rest.strip_prefix(b"cfid=")?)?;
    let cftoken = value_len(rest[cfid..].strip_prefix(b"&cftoken=")?)?;
    Some(cfid + 9 + cftoken)
}
