//! Any bytes as an archive: warc.
//!
//! An input is a file. The same bytes are also read as gzip members, one for all and one for each
//! `WARC/` line, because a changed byte in a member seldom gets past its checksum.
//!
//! Holds: reading ends, and after damage goes on behind it; it gives the same through the smallest
//! window; a record that is called whole lies in the file and can be read alone from its offset;
//! what was read and is written again reads the same; the check and the cut of a torn tail agree
//! with the reader.

use std::io::{BufReader, Cursor, Write as _};

use flate2::write::GzEncoder;
use warc::{
    Capture, Compressor, Error, Extent, Fields, Framing, HEADER_BYTES_MAX, Header, HttpHead, Level,
    Reader, Record, RecordId, WarcDate, WarcFields, check as check_file, last_complete, surt,
};

use crate::{Shape, Target};

pub const TARGET: Target = Target { name: "warc", words: WORDS, seeds, check, inputs: 6_000 };

const WORDS: &[&[u8]] = &[
    b"WARC/1.1\r\n",
    b"WARC/1.0\r\n",
    b"WARC/",
    b"WARC-Type: response\r\n",
    b"WARC-Type: warcinfo\r\n",
    b"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n",
    b"WARC-Date: 2026-11-16T07:00:00Z\r\n",
    b"WARC-Target-URI: http://a.test/\r\n",
    b"WARC-Block-Digest: sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ\r\n",
    b"WARC-Payload-Digest: md5:x\r\n",
    b"WARC-Concurrent-To: <urn:uuid:00000000-0000-4000-8000-000000000002>\r\n",
    b"WARC-Truncated: length\r\n",
    b"Content-Type: application/http; msgtype=response\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"\r\n",
    b" folded\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"\x1f\x8b\x08\x00",
    b"\x1f\x8b\x08\xff",
    b"\x1f",
    b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\xe9",
];

/// A short archive of ours, as the crawler writes it.
fn seeds() -> Vec<Vec<u8>> {
    let mut fields = WarcFields::new();
    fields.push("outlink", "http://b.test/ L").push("title", "é\r\n");
    let capture = Capture {
        uri: "http://a.test/x",
        date: WarcDate::from_unix_seconds(1_794_812_400),
        warcinfo: None,
        ip: Some([192, 0, 2, 1].into()),
        protocols: &["http/1.1"],
    };
    let id = |number| RecordId::from_bits(number);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body: &[&[u8]] = &[b"5\r\nhello\r\n0\r\n\r\n"];
    let records = [
        Record::warcinfo(id(1), capture.date, "a.warc.gz", &fields),
        Record::request(&capture, id(2), b"GET /x HTTP/1.1\r\n\r\n", &[]).concurrent_to(id(3)),
        Record::response(&capture, id(3), head, body).concurrent_to(id(2)),
        Record::metadata(&capture, id(4), &fields).concurrent_to(id(3)),
    ];
    let (mut gzip, mut plain) = (Vec::new(), Vec::new());
    let mut compressor = Compressor::new(Level::DEFAULT);
    for record in records {
        let record = record.build().expect("no value of these ends its line");
        compressor.member(&record, &mut gzip);
        record.write_plain(&mut plain);
    }
    vec![gzip, plain]
}

fn check(input: &[u8]) -> Shape {
    let mut shape = Shape::default();
    check_bytes(input, &mut shape);
    if input.first() != Some(&0x1f) {
        check_bytes(&member(input), &mut shape);
        check_bytes(&members(input), &mut shape);
    }
    // Texts of an archive that are read by themselves.
    let text = String::from_utf8_lossy(input);
    assert!(!surt(&text).contains(['\n', ' ']) || text.contains(['\n', ' ']));
    if let Some(head) = HttpHead::parse(input) {
        shape.add_text(head.status());
        shape.add(u64::from(head.mime().is_some()));
    }
    shape
}

fn member(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all")
}

/// A member for each record, as far as one can tell from outside.
fn members(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let next = rest.windows(5).skip(1).position(|window| window == b"WARC/");
        let (one, behind) = rest.split_at(next.map_or(rest.len(), |at| at + 1));
        out.append(&mut member(one));
        rest = behind;
    }
    out
}

fn check_bytes(file: &[u8], shape: &mut Shape) {
    let all = read_all(Cursor::new(file), file.len());
    let slow = BufReader::with_capacity(3, Cursor::new(file));
    assert_same(&all, &read_all(slow, file.len()));
    let mut records = 0;
    for found in &all {
        match found {
            Found::Record { header, block, extent } => {
                records += 1;
                check_whole(file, header, block, extent, shape);
            }
            Found::Broken { why, .. } => shape.add_text(why),
        }
    }
    shape.add_size(records);

    let report = check_file(Cursor::new(file)).expect("memory can be read");
    assert_eq!(report.records, records as u64, "the check and the reader");
    let broken = all.iter().any(|found| matches!(found, Found::Broken { .. }));
    assert!(!broken || report.damage > 0, "the check does not see the damage");
    let tail = last_complete(file, 0).expect("memory can be read");
    assert!(tail.end <= file.len() as u64 && tail.records <= report.records);
    assert_eq!(tail.torn.is_none(), !broken, "the tail and the reader: {tail:?}");
    let kept = &file[..usize::try_from(tail.end).expect("it lies in the file")];
    let again = last_complete(kept, 0).expect("memory can be read");
    assert_eq!((again.records, again.end, again.torn), (tail.records, tail.end, None));
}

/// What the reader gives, one after the other.
#[derive(Debug, PartialEq)]
enum Found {
    Record { header: Header, block: Vec<u8>, extent: Extent },
    Broken { offset: u64, why: String },
}

impl Found {
    fn broken_at(&self) -> Option<u64> {
        match self {
            Self::Broken { offset, .. } => Some(*offset),
            Self::Record { .. } => None,
        }
    }
}

/// The same records, and damage at the same places.
///
/// Two things depend on the window, because an inflater that finds damage keeps to itself what it
/// has made in the same step: which damage of a member is seen first, and whether records before
/// the damage are, that share their member with it. So neither is compared.
fn assert_same(one: &[Found], other: &[Found]) {
    let damage: Vec<_> = one.iter().filter_map(Found::broken_at).collect();
    assert!(damage.iter().copied().eq(other.iter().filter_map(Found::broken_at)), "other damage");
    let certain = |found: &&Found| match found {
        Found::Record { extent, .. } => extent.length.is_some() || !damage.contains(&extent.offset),
        Found::Broken { .. } => false,
    };
    let (one, other) = (one.iter().filter(certain), other.iter().filter(certain));
    assert!(one.clone().eq(other.clone()), "{:?} and {:?}", one, other);
}

/// Reads and resyncs until the end, which must come.
fn read_all<R: std::io::BufRead + std::io::Seek>(input: R, bytes: usize) -> Vec<Found> {
    let mut reader = Reader::new(input);
    let mut all = Vec::new();
    let mut resynced = None;
    loop {
        match read_one(&mut reader) {
            Ok(Some(found)) => all.push(found),
            Ok(None) => return all,
            Err(error) => {
                let (offset, why) = match error {
                    Error::Truncated { offset } => (offset, "truncated".to_owned()),
                    Error::Damaged { offset, damage } => (offset, damage.to_string()),
                    error => panic!("memory cannot be read: {error}"),
                };
                all.push(Found::Broken { offset, why });
                let next = reader.resync().expect("memory can be read");
                let Some(next) = next else { return all };
                assert!(next <= bytes as u64 && resynced.is_none_or(|last| last < next));
                resynced = Some(next);
            }
        }
        // The shortest record has `WARC/`, a line end, a length and an empty line. In a member they
        // may be packed a thousand times, but no further.
        assert!(all.len() <= 1100 * (bytes + 1), "{} in {bytes} bytes", all.len());
    }
}

/// Longest block that is kept here.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

fn read_one<R: std::io::BufRead>(reader: &mut Reader<R>) -> Result<Option<Found>, Error> {
    let Some(header) = reader.next_record()? else { return Ok(None) };
    let block = reader.block(BLOCK_BYTES_MAX)?.unwrap_or_default();
    let extent = reader.finish()?.expect("a record was open");
    Ok(Some(Found::Record { header, block, extent }))
}

fn check_whole(file: &[u8], header: &Header, block: &[u8], extent: &Extent, shape: &mut Shape) {
    shape.add_text(header.fields.get("WARC-Type").unwrap_or("none"));
    shape.add_size(block.len());
    let fields = header.fields.iter().map(|(name, value)| name.len() + value.len());
    assert!(fields.sum::<usize>() <= 3 * HEADER_BYTES_MAX);
    assert_eq!(header.offset, extent.offset);
    if header.content_length <= BLOCK_BYTES_MAX {
        assert_eq!(header.content_length, block.len() as u64, "a whole block");
    }
    if let Some(length) = extent.length {
        let start = usize::try_from(extent.offset).expect("it lies in the file");
        let end = start + usize::try_from(length).expect("it lies in the file");
        assert!(start < end && end <= file.len(), "{extent:?} in {} bytes", file.len());
        let mut alone = Reader::at(&file[start..end], extent.offset);
        let found = read_one(&mut alone).expect("a whole record is read alone");
        let Some(Found::Record { header: one, block: same, .. }) = found else {
            panic!("nothing at {start}..{end}");
        };
        assert_eq!((&one, &same[..]), (header, block), "read alone");
        assert!(alone.next_record().expect("nothing behind it").is_none());
    } else {
        assert_eq!(extent.framing, Framing::Gzip, "a plain record has a length");
    }
    check_rewritten(&header.fields, block);
}

/// A record with these fields and this block, written and read.
fn check_rewritten(fields: &Fields, block: &[u8]) {
    let capture = Capture {
        uri: fields.get("WARC-Target-URI").unwrap_or("http://a.test/"),
        date: WarcDate::from_unix_seconds(0),
        warcinfo: None,
        ip: None,
        protocols: &[],
    };
    let head = warc::head_len(&[block]).unwrap_or(0);
    let (head, body) = block.split_at(head);
    let body = [body];
    let mut record = Record::response(&capture, RecordId::from_bits(1), head, &body);
    // Names that the writer gives itself would stand there twice.
    let ours = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("warc-") || name.starts_with("content-")
    };
    let others: Vec<_> = fields.iter().filter(|(name, _)| !ours(name)).collect();
    for (name, value) in &others {
        record = record.field(name, value);
    }
    let unsafe_value = |value: &str| value.bytes().any(|b| b.is_ascii_control() && b != b'\t');
    let refused = others.iter().any(|(_, value)| unsafe_value(value));
    let record = match record.build() {
        Ok(record) => record,
        Err(error) => return assert!(refused, "refused without need: {error}"),
    };
    assert!(!refused, "a value that could end its line was taken");
    let mut written = Vec::new();
    Compressor::new(Level::DEFAULT).member(&record, &mut written);
    let found = read_one(&mut Reader::new(&written[..])).expect("our own record is whole");
    let Some(Found::Record { header, block: again, .. }) = found else { panic!("nothing written") };
    let kept: Vec<_> = header.fields.iter().filter(|(name, _)| !ours(name)).collect();
    assert_eq!((kept, &again[..]), (others, block), "written and read");
}
