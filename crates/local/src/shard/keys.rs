//! How does each row get its key?
//!
//! The layout of states on disk: the tests pin every form, and none may change without a new
//! [`super::meta::FORMAT`]. Numbers are big-endian, so that their order is the order of bytes. A
//! host name is reversed and ends in a 0 byte, so that a domain's hosts are neighbours and no
//! name is a prefix of another.
//!
//! | family | key |
//! |---|---|
//! | `url` | space u32, reversed host, 0, id u128 |
//! | `queue` | space u32, reversed host, 0, band u8, seq u64; without the last two: the queue's heads |
//! | `due` | time u64, reversed host, 0, id u128 |
//! | `host` | space u32, reversed host, 0, kind u8; robots: then scheme u8, port u16 |
//! | `visit`, `fresh` | seq u64 |
//! | `outbox` | receiver u16, seq u64 |
//! | `grant` | visit u64 |
//! | `meta` | a name, see [`super::meta`] |

use ports::{PortError, PortResult};
use types::host::reverse_into;
use types::{HostKey, Origin, QueueKey, Scheme, ShardId, Timestamp, UrlId};

/// Our own canonical world. Other numbers are for foreign frontiers.
pub const SPACE_OURS: u32 = 0;

const SPACE_BYTES: usize = 4;
const ID_BYTES: usize = 16;
const QUEUE_KEY_BYTES: usize = 9;

/// What a row of the `host` family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum HostKind {
    State = 0,
    /// Written by format 1 only.
    Queue = 1,
    Site = 2,
    Robots = 3,
    /// What was said of the host; a version that does not know these rows overlooks them.
    Rule = 4,
}

/// What all keys of a host begin with, in the families that have a space.
pub fn host_prefix(host: &str) -> Vec<u8> {
    let mut reversed = String::with_capacity(host.len());
    reverse_into(host, &mut reversed);
    let mut key = Vec::with_capacity(SPACE_BYTES + reversed.len() + 1 + ID_BYTES);
    key.extend_from_slice(&SPACE_OURS.to_be_bytes());
    key.extend_from_slice(reversed.as_bytes());
    key.push(0);
    key
}

/// Beyond all keys of the host with this prefix.
pub fn after_host(prefix: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    *key.last_mut().expect("a prefix ends in 0") = 1;
    key
}

/// What all keys of our own space begin with.
pub const fn ours() -> [u8; SPACE_BYTES] {
    SPACE_OURS.to_be_bytes()
}

pub fn url(prefix: &[u8], id: UrlId) -> Vec<u8> {
    joined(prefix, &id.to_be_bytes())
}

pub fn queue(prefix: &[u8], key: QueueKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(prefix.len() + QUEUE_KEY_BYTES);
    out.extend_from_slice(prefix);
    out.push(key.band);
    out.extend_from_slice(&key.seq.to_be_bytes());
    out
}

/// Stands before all entries of the queue, so that a walk over hosts meets it first.
pub fn heads(prefix: &[u8]) -> &[u8] {
    prefix
}

/// `prefix` is the host's.
pub fn due(at: Timestamp, prefix: &[u8], id: UrlId) -> Vec<u8> {
    let mut out = at.micros().to_be_bytes().to_vec();
    out.extend_from_slice(&prefix[SPACE_BYTES..]);
    out.extend_from_slice(&id.to_be_bytes());
    out
}

pub fn host(prefix: &[u8], kind: HostKind) -> Vec<u8> {
    joined(prefix, &[kind as u8])
}

pub fn robots(prefix: &[u8], origin: &Origin) -> Vec<u8> {
    let scheme = match origin.scheme {
        Scheme::Http => 0,
        Scheme::Https => 1,
    };
    let [high, low] = origin.port.to_be_bytes();
    joined(prefix, &[HostKind::Robots as u8, scheme, high, low])
}

pub fn outbox(to: ShardId, seq: u64) -> Vec<u8> {
    let mut out = to.0.to_be_bytes().to_vec();
    out.extend_from_slice(&seq.to_be_bytes());
    out
}

/// A key of the families that are numbered.
pub const fn seq(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

fn joined(prefix: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(prefix.len() + rest.len());
    out.extend_from_slice(prefix);
    out.extend_from_slice(rest);
    out
}

/// The id at the end of a `url` or `due` key, or in a `queue` value.
pub fn read_id(bytes: &[u8]) -> PortResult<UrlId> {
    let id = bytes.last_chunk().ok_or_else(|| broken("a URL's id", bytes))?;
    Ok(UrlId::from_be_bytes(*id))
}

/// The ids in a value of `fresh`.
pub fn read_ids(bytes: &[u8]) -> PortResult<impl Iterator<Item = UrlId>> {
    let (ids, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(broken("the ids of new URLs", bytes));
    }
    Ok(ids.iter().map(|id| UrlId::from_be_bytes(*id)))
}

/// Is this key of `queue` that of a host's heads?
pub fn is_heads(key: &[u8]) -> bool {
    // A name has no 0 byte: an entry's key goes on after its prefix.
    read_host(key).is_ok_and(|(_, rest)| rest.is_empty())
}

/// The place at the end of a `queue` key.
pub fn read_queue(key: &[u8]) -> PortResult<QueueKey> {
    let [band, seq @ ..]: &[u8; QUEUE_KEY_BYTES] =
        key.last_chunk().ok_or_else(|| broken("a place in a queue", key))?;
    Ok(QueueKey { band: *band, seq: u64::from_be_bytes(*seq) })
}

/// Time, host prefix and id of a `due` key.
pub fn read_due(key: &[u8]) -> PortResult<(Timestamp, Vec<u8>, UrlId)> {
    let bad = || broken("a due time", key);
    let (time, rest) = key.split_first_chunk().ok_or_else(bad)?;
    let (host, id) = rest.split_last_chunk().ok_or_else(bad)?;
    let at = Timestamp::from_micros(u64::from_be_bytes(*time));
    Ok((at, joined(&ours(), host), UrlId::from_be_bytes(*id)))
}

/// The prefix of a `host` key, and what follows it.
pub fn read_host(key: &[u8]) -> PortResult<(&[u8], &[u8])> {
    let zero = key.iter().skip(SPACE_BYTES).position(|&byte| byte == 0);
    let end = zero.ok_or_else(|| broken("a host", key))? + SPACE_BYTES + 1;
    Ok(key.split_at(end))
}

/// The host of a prefix.
pub fn prefix_host(prefix: &[u8]) -> PortResult<HostKey> {
    let name = prefix.get(SPACE_BYTES..prefix.len().saturating_sub(1));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    Ok(HostKey::from_reversed(name.ok_or_else(|| broken("a host's name", prefix))?))
}

/// The origin of a robots row: its host, and what follows the prefix.
pub fn read_robots(host: HostKey, rest: &[u8]) -> PortResult<Origin> {
    let &[_, scheme, high, low] = rest else { return Err(broken("an origin", rest)) };
    let scheme = if scheme == 0 { Scheme::Http } else { Scheme::Https };
    Ok(Origin { scheme, host, port: u16::from_be_bytes([high, low]) })
}

/// Receiver and number of an `outbox` key.
pub fn read_outbox(key: &[u8]) -> PortResult<(ShardId, u64)> {
    let (to, seq) = key.split_first_chunk().ok_or_else(|| broken("a letter's number", key))?;
    Ok((ShardId(u16::from_be_bytes(*to)), read_seq(seq)?))
}

pub fn read_seq(key: &[u8]) -> PortResult<u64> {
    let seq = key.last_chunk().ok_or_else(|| broken("a number", key))?;
    Ok(u64::from_be_bytes(*seq))
}

fn broken(what: &str, bytes: &[u8]) -> PortError {
    PortError::corrupt(format!("read {what}"), format_args!("the row is {bytes:02x?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: UrlId = UrlId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    const ID_BE: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

    fn cat(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn every_layout_is_pinned() {
        let prefix = host_prefix("www.example.org");
        assert_eq!(prefix, b"\0\0\0\0org.example.www\0");
        assert_eq!(url(&prefix, ID), cat(&[b"\0\0\0\0org.example.www\0", ID_BE]));
        assert_eq!(
            queue(&prefix, QueueKey { band: 7, seq: 258 }),
            cat(&[b"\0\0\0\0org.example.www\0\x07", &[0, 0, 0, 0, 0, 0, 1, 2]])
        );
        assert_eq!(heads(&prefix), b"\0\0\0\0org.example.www\0");
        assert_eq!(
            due(Timestamp(3), &prefix, ID),
            cat(&[&[0, 0, 0, 0, 0, 0, 0, 3], b"org.example.www\0", ID_BE])
        );
        assert_eq!(host(&prefix, HostKind::State), b"\0\0\0\0org.example.www\0\x00");
        assert_eq!(host(&prefix, HostKind::Queue), b"\0\0\0\0org.example.www\0\x01");
        assert_eq!(host(&host_prefix("example.org"), HostKind::Site), b"\0\0\0\0org.example\0\x02");
        assert_eq!(host(&prefix, HostKind::Rule), b"\0\0\0\0org.example.www\0\x04");
        let origin =
            Origin { scheme: Scheme::Https, host: HostKey::new("www.example.org"), port: 443 };
        assert_eq!(robots(&prefix, &origin), b"\0\0\0\0org.example.www\0\x03\x01\x01\xbb");
        assert_eq!(outbox(ShardId(258), 5), [1, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(seq(9), [0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(host_prefix("10.0.0.1"), b"\0\0\0\x0010.0.0.1\0");
    }

    #[test]
    fn every_key_is_read_back() {
        let prefix = host_prefix("www.example.org");
        let place = QueueKey { band: 255, seq: u64::MAX - 1 };
        assert_eq!(read_queue(&queue(&prefix, place)).unwrap(), place);
        assert!(is_heads(heads(&prefix)) && !is_heads(&queue(&prefix, QueueKey::MIN)));
        assert_eq!(read_id(&url(&prefix, ID)).unwrap(), ID);
        let at = Timestamp::from_secs(77);
        assert_eq!(read_due(&due(at, &prefix, ID)).unwrap(), (at, prefix.clone(), ID));
        let key = host(&prefix, HostKind::Queue);
        assert_eq!(read_host(&key).unwrap(), (&prefix[..], &[1][..]));
        assert_eq!(prefix_host(&prefix).unwrap(), HostKey::new("www.example.org"));
        for (scheme, port) in [(Scheme::Http, 80), (Scheme::Https, 8443)] {
            let origin = Origin { scheme, host: HostKey::new("www.example.org"), port };
            let key = robots(&prefix, &origin);
            let (_, rest) = read_host(&key).unwrap();
            assert_eq!(read_robots(origin.host.clone(), rest).unwrap(), origin);
        }
        assert_eq!(read_outbox(&outbox(ShardId(3), 4)).unwrap(), (ShardId(3), 4));
        assert_eq!(read_seq(&seq(6)).unwrap(), 6);
    }

    #[test]
    fn garbage_is_refused_not_read() {
        assert!(read_id(b"short").is_err() && read_queue(b"short").is_err());
        assert!(read_due(b"0123456789").is_err() && read_host(b"\0\0\0\0abc").is_err());
        assert!(read_outbox(b"x").is_err() && read_seq(b"1234567").is_err());
        assert!(prefix_host(b"\0\0\0\0\xff\0").is_err() && prefix_host(b"").is_err());
    }

    #[test]
    fn a_hosts_keys_lie_together_and_end_before_the_next_host() {
        let a = host_prefix("a.test");
        let end = after_host(&a);
        let last = queue(&a, QueueKey::MAX);
        assert!(heads(&a) < queue(&a, QueueKey::MIN).as_slice() && last < end);
        for other in ["www.a.test", "a-b.test", "0.a.test"] {
            let other = host_prefix(other);
            assert!(other < a || other >= end, "{other:?} lies among another host's keys");
        }
    }
}
