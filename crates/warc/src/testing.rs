//! Small files for tests: three records of one visit behind a warcinfo.

use crate::{
    Algorithm, Capture, Compressor, Level, Record, RecordId, TransferCoded, Visit, VisitIds,
    WarcDate, WarcFields,
};

pub(crate) const BODY: &[u8] = b"<p>hello, world";

pub(crate) fn capture() -> Capture<'static> {
    Capture {
        uri: "http://a.test/",
        date: WarcDate::from_unix_seconds(1_793_867_400),
        warcinfo: Some(RecordId::from_bits(1)),
        ip: Some([192, 0, 2, 1].into()),
        protocols: &["http/1.1"],
    }
}

pub(crate) fn response<'a>(body: &[&'a [u8]]) -> Record<'a> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    Record::response(&capture(), RecordId::from_bits(1), head, body).build().unwrap()
}

/// A gzip file, and where each of its four members ends.
pub(crate) fn gzip_file() -> (Vec<u8>, Vec<usize>) {
    let mut compressor = Compressor::new(Level::DEFAULT);
    let mut file = Vec::new();
    let mut fields = WarcFields::new();
    fields.push("software", "lycosa/0.1").push("format", "WARC File Format 1.1");
    let record = Record::warcinfo(RecordId::from_bits(1), capture().date, "a.warc.gz", &fields);
    let record = record.build().unwrap();
    let mut ends = vec![compressor.member(&record, &mut file).len];
    let mut metadata = WarcFields::new();
    metadata.push("outlink", "http://b.test/");
    let visit = Visit {
        capture: capture(),
        ids: VisitIds::derive(7),
        request: b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        response_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        response_body: &[BODY],
        response_rest: None,
        earlier: None,
        truncated: None,
        payload_type: Some("text/html"),
        metadata: Some(&metadata),
        algorithm: Algorithm::Sha1,
        transfer_coded: TransferCoded::Omit,
    };
    let members = compressor.visit(&visit, &mut file).unwrap();
    let metadata = members.metadata.unwrap();
    ends.extend([members.request, members.response, metadata].map(|range| range.start + range.len));
    (file, ends)
}

/// The same records without gzip, and where each ends.
pub(crate) fn plain_file() -> (Vec<u8>, Vec<usize>) {
    let (file, ends) = gzip_file();
    let mut plain = Vec::new();
    let mut start = 0;
    let plain_ends = ends.into_iter().map(|end| {
        plain.extend_from_slice(&inflate(&file[start..end]));
        start = end;
        plain.len()
    });
    let plain_ends = plain_ends.collect();
    (plain, plain_ends)
}

pub(crate) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, plain).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn inflate(member: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut decoder = flate2::bufread::GzDecoder::new(member);
    std::io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
    plain
}

/// A record as another tool might have written it.
pub(crate) fn foreign(header: &str, block: &[u8]) -> Vec<u8> {
    let mut record = header.replace('\n', "\r\n").into_bytes();
    record.extend_from_slice(format!("Content-Length: {}\r\n\r\n", block.len()).as_bytes());
    record.extend_from_slice(block);
    record.extend_from_slice(b"\r\n\r\n");
    record
}
