//! How are the streams of a PDF packed?
//!
//! Flate, LZW, run lengths, the two forms in ASCII, and the predictors of PNG. Pictures have filters
//! of their own, which are left packed: there is no text in them.
//!
//! Always: what comes out is bounded by the budget; what was unpacked before damage is kept.

use std::io::Read as _;

use super::object::{Dict, Object, from_hex, is_space};

/// Filters on top of each other.
const FILTERS_MAX: usize = 4;

/// Unpacks a stream into at most `bytes_max` bytes. None: it is packed in a way that no text is.
/// `get` looks up what may be a reference.
pub(super) fn unpack(
    dict: &Dict,
    packed: &[u8],
    bytes_max: usize,
    get: &dyn Fn(&Object) -> Object,
) -> Option<Vec<u8>> {
    let value = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| dict.get(name));
        found.map_or(Object::Null, get)
    };
    let filters = listed(value(["Filter", "F"]), get);
    let settings = listed(value(["DecodeParms", "DP"]), get);
    let mut bytes = packed[..packed.len().min(bytes_max)].to_vec();
    for (at, filter) in filters.iter().take(FILTERS_MAX).enumerate() {
        let settings = settings.get(at).and_then(Object::dict);
        bytes = match filter.name()? {
            b"FlateDecode" | b"Fl" => predicted(inflate(&bytes, bytes_max), settings),
            b"LZWDecode" | b"LZW" => {
                let early = settings.and_then(|dict| dict.get("EarlyChange")?.number());
                predicted(unpack_lzw(&bytes, early != Some(0.0), bytes_max), settings)
            }
            b"ASCIIHexDecode" | b"AHx" => from_hex(bytes.split(|&b| b == b'>').next()?),
            b"ASCII85Decode" | b"A85" => unpack_base85(&bytes),
            b"RunLengthDecode" | b"RL" => unpack_runs(&bytes, bytes_max),
            b"Crypt" => bytes,
            _ => return None,
        };
    }
    Some(bytes)
}

fn listed(object: Object, get: &dyn Fn(&Object) -> Object) -> Vec<Object> {
    match object {
        Object::List(list) => list.iter().map(get).collect(),
        Object::Null => Vec::new(),
        one => vec![one],
    }
}

fn inflate(packed: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let limit = bytes_max as u64;
    // Damage ends it; what came before is kept, so the error tells nothing more.
    let whole = flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut out);
    if whole.is_err() && out.is_empty() {
        // Some writers leave out the two bytes in front.
        let _kept = flate2::read::DeflateDecoder::new(packed).take(limit).read_to_end(&mut out);
    }
    out
}

fn unpack_lzw(packed: &[u8], early: bool, bytes_max: usize) -> Vec<u8> {
    const CLEAR: usize = 256;
    const END: usize = 257;
    let mut out = Vec::new();
    // Each entry is a piece of what is out already, and one byte more.
    let mut entries: Vec<(usize, usize)> = Vec::new();
    let (mut bits, mut have, mut width) = (0_u32, 0, 9);
    let mut last: Option<(usize, usize)> = None;
    for &byte in packed {
        bits = bits << 8 | u32::from(byte);
        have += 8;
        if have < width {
            continue;
        }
        have -= width;
        let code = (bits >> have) as usize & ((1 << width) - 1);
        match code {
            CLEAR => {
                entries.clear();
                (width, last) = (9, None);
                continue;
            }
            END => break,
            _ => {}
        }
        // What was written last and the first byte of what comes now, which will follow it in
        // `out`: so an entry may be used before it is whole.
        if let Some((start, length)) = last
            && entries.len() < 4096 - 258
        {
            entries.push((start, length + 1));
        }
        let from = out.len();
        if code < CLEAR {
            out.push(code as u8);
        } else if let Some(&(start, length)) = entries.get(code - 258) {
            for at in start..start + length {
                out.push(out[at]);
            }
        } else {
            break;
        }
        last = Some((from, out.len() - from));
        width = match 258 + entries.len() + usize::from(early) {
            0..=511 => 9,
            512..=1023 => 10,
            1024..=2047 => 11,
            _ => 12,
        };
        if out.len() >= bytes_max {
            break;
        }
    }
    out.truncate(bytes_max);
    out
}

fn unpack_base85(packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(packed.len() / 5 * 4);
    let (mut group, mut digits) = (0_u32, 0);
    for &byte in packed.iter().filter(|byte| !is_space(**byte)) {
        match byte {
            b'z' if digits == 0 => out.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                digits += 1;
                if digits == 5 {
                    out.extend(group.to_be_bytes());
                    (group, digits) = (0, 0);
                }
            }
            b'~' => break,
            _ => {}
        }
    }
    if digits > 1 {
        for _ in digits..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        out.extend(&group.to_be_bytes()[..digits - 1]);
    }
    out
}

fn unpack_runs(packed: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = packed;
    while let Some((&length, behind)) = rest.split_first() {
        let length = usize::from(length);
        if length < 128 {
            let end = (length + 1).min(behind.len());
            out.extend(&behind[..end]);
            rest = &behind[end..];
        } else if let (true, Some((&byte, behind))) = (length > 128, behind.split_first()) {
            out.resize(out.len() + 257 - length, byte);
            rest = behind;
        } else {
            break;
        }
        if out.len() >= bytes_max {
            break;
        }
    }
    out.truncate(bytes_max);
    out
}

/// Undoes the predictors of PNG: each row begins with the number of its own.
fn predicted(bytes: Vec<u8>, settings: Option<&Dict>) -> Vec<u8> {
    let setting = |name: &str, usual: f64| {
        settings.and_then(|dict| dict.get(name)?.number()).unwrap_or(usual)
    };
    if setting("Predictor", 1.0) < 10.0 {
        return bytes;
    }
    let bits_each = setting("BitsPerComponent", 8.0).clamp(1.0, 16.0);
    let bits = setting("Colors", 1.0).clamp(1.0, 32.0) * bits_each;
    let pixel = ((bits / 8.0).ceil() as usize).max(1);
    let row = ((setting("Columns", 1.0).clamp(1.0, 1e6) * bits / 8.0).ceil() as usize).max(1);
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    for line in bytes.chunks(row + 1) {
        let (kind, line) = (line[0], &line[1..]);
        let start = out.len();
        for (at, &byte) in line.iter().enumerate() {
            let left = if at >= pixel { out[start + at - pixel] } else { 0 };
            let up = if start >= row { out[start + at - row] } else { 0 };
            let corner =
                if at >= pixel && start >= row { out[start + at - pixel - row] } else { 0 };
            out.push(byte.wrapping_add(match kind {
                1 => left,
                2 => up,
                3 => ((u16::from(left) + u16::from(up)) / 2) as u8,
                4 => paeth(left, up, corner),
                _ => 0,
            }));
        }
        // A row that is cut is the last.
        if line.len() < row {
            break;
        }
    }
    out
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(up), i16::from(corner));
    let guess = a + b - c;
    let (to_a, to_b, to_c) = ((guess - a).abs(), (guess - b).abs(), (guess - c).abs());
    if to_a <= to_b && to_a <= to_c {
        left
    } else if to_b <= to_c {
        up
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::pdf::object::Parser;

    fn unpacked(dict: &str, packed: &[u8]) -> Option<Vec<u8>> {
        let Some(Object::Dict(dict)) = Parser::new(dict.as_bytes(), 0).next() else { panic!() };
        unpack(&dict, packed, 1_000, &Object::clone)
    }

    #[test]
    fn every_filter_gives_back_what_was_packed() {
        assert_eq!(unpacked("<<>>", b"as it is").unwrap(), b"as it is");
        assert_eq!(unpacked("<</Filter/ASCIIHexDecode>>", b"48 69>zz").unwrap(), b"Hi");
        assert_eq!(unpacked("<</Filter[/A85]>>", b"9jqo^~>").unwrap(), b"Man ");
        assert_eq!(unpacked("<</Filter[/A85]>>", b"9jqo~>").unwrap(), b"Man");
        assert_eq!(unpacked("<</Filter/RL>>", b"\x01ab\xfdc\x80x").unwrap(), b"abcccc");
        // The example of the standard.
        let lzw = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        let bytes = [45, 45, 45, 45, 45, 65, 45, 45, 45, 66];
        assert_eq!(unpacked("<</Filter/LZWDecode>>", &lzw).unwrap(), bytes);
        assert_eq!(unpacked("<</Filter/DCTDecode>>", b"x"), None);
    }

    #[test]
    fn rows_are_predicted_from_rows() {
        let dict = "<</Filter/RL/DecodeParms<</Predictor 12/Columns 3>>>>";
        let none = unpacked(dict, b"\x02abc").unwrap();
        assert_eq!(none, b"abc", "run lengths have no predictors");
        let rows = predicted(
            vec![2, 1, 2, 3, 2, 1, 1, 1, 1, 5, 1, 1],
            Parser::new(b"<</Predictor 12/Columns 3>>", 0).next().unwrap().dict(),
        );
        assert_eq!(rows, [1, 2, 3, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn damage_and_bombs_are_bounded() {
        assert_eq!(unpacked("<</Filter/FlateDecode>>", b"no zlib").unwrap(), b"");
        let many = b"\x81a".repeat(100);
        assert_eq!(unpacked("<</Filter/RL>>", &many).unwrap().len(), 1_000);
        unpacked("<</Filter/LZWDecode>>", &[0xff; 100]);
        unpacked("<</Filter[/Fl/Fl/Fl/Fl/Fl/Fl]>>", b"x");
        let odd = "<</Predictor 15/Columns 99999999999/BitsPerComponent 99999999999/Colors -3>>";
        predicted(vec![4; 100], Parser::new(odd.as_bytes(), 0).next().unwrap().dict());
    }
}
