//! Which text does a sitemap's body hold?
//!
//! Out of gzip first, however often it was packed (servers pack what is packed already), then out
//! of its encoding. Declarations lie: a text that is valid UTF-8 is UTF-8, whatever is declared.

use std::borrow::Cow;
use std::io::Read as _;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::bufread::MultiGzDecoder;

use super::BYTES_MAX;
use crate::charset;
use crate::complaints::Complaints;

/// Layers of gzip that are taken off: the file, and a server that packs everything.
const LAYERS_MAX: usize = 3;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The body as text, cut at the limit.
pub(super) fn text<'b>(
    body: &'b [u8],
    content_type: Option<&str>,
    complaints: &mut Complaints,
) -> Cow<'b, str> {
    let mut bytes = Cow::Borrowed(body);
    for _ in 0..LAYERS_MAX {
        if !bytes.starts_with(&GZIP) {
            break;
        }
        bytes = Cow::Owned(unpack(&bytes, complaints));
    }
    if bytes.len() > BYTES_MAX {
        complaints.add(format!("longer than {BYTES_MAX} bytes: the rest is not read"));
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = &bytes[..BYTES_MAX],
            Cow::Owned(bytes) => bytes.truncate(BYTES_MAX),
        }
    }
    match bytes {
        Cow::Borrowed(bytes) => decode(bytes, content_type),
        Cow::Owned(bytes) => Cow::Owned(decode(&bytes, content_type).into_owned()),
    }
}

/// One byte beyond the limit tells that there is more; a bomb is not unpacked any further.
fn unpack(packed: &[u8], complaints: &mut Complaints) -> Vec<u8> {
    let mut out = Vec::new();
    let mut unpacked = MultiGzDecoder::new(packed).take(BYTES_MAX as u64 + 1);
    if let Err(error) = unpacked.read_to_end(&mut out) {
        // Padding behind the last member is common, and whole sitemaps stand before it.
        complaints.add(format!("damaged gzip after {} bytes: {error}", out.len()));
    }
    out
}

pub(super) fn decode<'b>(bytes: &'b [u8], content_type: Option<&str>) -> Cow<'b, str> {
    if Encoding::for_bom(bytes).is_none() {
        if let Some(encoding) = bare_utf_16(bytes) {
            return encoding.decode_without_bom_handling(bytes).0;
        }
        if let Ok(text) = str::from_utf8(bytes)
            && !text.contains('\u{1b}')
        {
            return Cow::Borrowed(text);
        }
    }
    let (text, charset) = charset::decode(bytes, content_type, None, true);
    // Said to be UTF-8, and is not: where no character came out right, it is the old default.
    let is_mojibake = charset.name == UTF_8.name()
        && text.contains('\u{fffd}')
        && text.chars().all(|c| c.is_ascii() || c == '\u{fffd}');
    if is_mojibake {
        return WINDOWS_1252.decode_without_bom_handling(bytes).0;
    }
    text
}

/// UTF-16 without a mark: every second byte of markup is zero.
fn bare_utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let start: Vec<_> = bytes.chunks_exact(2).take(8).collect();
    let zeros = |at: usize| {
        start.len() == 8 && start.iter().all(|pair| (pair[at] == 0) && pair[1 - at] != 0)
    };
    if zeros(1) {
        Some(UTF_16LE)
    } else if zeros(0) {
        Some(UTF_16BE)
    } else {
        None
    }
}
