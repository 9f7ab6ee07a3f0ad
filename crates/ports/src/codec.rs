//! How does what we know become bytes, so that the next version still reads them?
//!
//! Every stored value begins with the version of its layout; the rest is postcard. A new layout
//! gets a new number and a reader for the old one; nothing is ever guessed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{PortError, PortErrorKind, PortResult};

/// The layout that this version writes.
pub const LAYOUT: u8 = 1;

/// The bytes of a value, with the version in front.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let bytes = vec![LAYOUT];
    postcard::to_extend(value, bytes).expect("our types serialise: no maps of unknown length")
}

/// As [`encode`], to the end of a buffer that is there already.
pub fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) {
    let mut buffer = std::mem::take(bytes);
    buffer.push(LAYOUT);
    *bytes =
        postcard::to_extend(value, buffer).expect("our types serialise: no maps of unknown length");
}

/// The value again. `what` names it in the error.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> PortResult<T> {
    decode_borrowed(what, bytes)
}

/// As [`decode`], for a type that borrows its texts from the bytes. A struct that has only the
/// first fields of the stored one reads just these.
pub fn decode_borrowed<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> PortResult<T> {
    Ok(decode_first(what, bytes)?.0)
}

/// As [`decode_borrowed`], and what follows the value.
pub fn decode_first<'a, T: Deserialize<'a>>(
    what: &str,
    bytes: &'a [u8],
) -> PortResult<(T, &'a [u8])> {
    match bytes.split_first() {
        Some((&LAYOUT, rest)) => postcard::take_from_bytes(rest)
            .map_err(|error| PortError::corrupt(format!("read {what}"), error)),
        Some((version, _)) => Err(PortError::new(
            PortErrorKind::Version,
            format!("read {what}"),
            format_args!("written in layout {version}; this lycosa reads layout {LAYOUT}"),
        )),
        None => Err(PortError::corrupt(format!("read {what}"), "the value is empty")),
    }
}

/// Appends a value to one that is encoded already; it is read by [`decode_more`].
pub fn encode_more<T: Serialize>(value: &T, bytes: &mut Vec<u8>) {
    let buffer = std::mem::take(bytes);
    *bytes =
        postcard::to_extend(value, buffer).expect("our types serialise: no maps of unknown length");
}

/// What follows a value ([`decode_first`]): a further one, to the end; none if nothing follows, as in
/// rows of versions that did not know it.
pub fn decode_more<T: DeserializeOwned>(what: &str, rest: &[u8]) -> PortResult<Option<T>> {
    if rest.is_empty() {
        return Ok(None);
    }
    let corrupt = |error: &dyn std::fmt::Display| PortError::corrupt(format!("read {what}"), error);
    match postcard::take_from_bytes(rest).map_err(|error| corrupt(&error))? {
        (value, []) => Ok(Some(value)),
        (_, more) => Err(corrupt(&format_args!("{} bytes too many", more.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CrawlUrl, Discovery, Record, Timestamp};

    fn record() -> Record {
        let url = CrawlUrl::parse("http://www.example.org/some/path?x=1").unwrap();
        let found = Discovery {
            at: Timestamp::from_secs(1_794_774_000),
            depth: 3,
            hops: 0,
            seed: false,
            band: 4,
        };
        Record::new(url, found)
    }

    #[test]
    fn a_record_comes_back_and_a_waiting_one_is_small() {
        let record = record();
        let bytes = encode(&record);
        assert_eq!(decode::<Record>("a record", &bytes).unwrap(), record);
        // The budget is 100 bytes beyond the text, keys included; this is the value's share.
        let beyond = bytes.len() - record.url.as_str().len();
        assert!(beyond <= 24, "{beyond} bytes beyond the URL's text");
    }

    #[test]
    fn what_follows_a_value_is_there_whole_or_not_at_all() {
        let mut bytes = encode(&7_u32);
        let (first, rest) = decode_first::<u32>("a number", &bytes).unwrap();
        assert_eq!((first, decode_more::<u32>("a debt", rest).unwrap()), (7, None));
        encode_more(&70_000_u32, &mut bytes);
        let (_, rest) = decode_first::<u32>("a number", &bytes).unwrap();
        assert_eq!(decode_more::<u32>("a debt", rest).unwrap(), Some(70_000));
        let cut = decode_more::<u32>("a debt", &rest[..1]).unwrap_err();
        let longer = decode_more::<u32>("a debt", &[rest, &[0]].concat()).unwrap_err();
        assert_eq!((cut.kind, longer.kind), (PortErrorKind::Corrupt, PortErrorKind::Corrupt));
    }

    #[test]
    fn another_layout_is_named_not_guessed() {
        let mut bytes = encode(&record());
        bytes[0] = 99;
        let error = decode::<Record>("a record", &bytes).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Version);
        assert!(error.to_string().contains("layout 99"), "{error}");
        for cut in 1..20 {
            assert!(decode::<Record>("a record", &encode(&record())[..cut]).is_err());
        }
        assert!(decode::<Record>("a record", &[]).is_err());
    }
}
