//! Are files that others wrote read as they meant them?

use std::io::Cursor;

use lycosa_warc::{Fields, Reader, WarcDate, check};

/// Written by warcio 1.8.1: all record types that it makes, a payload digest over chunk framing,
/// dates with microseconds.
const WARCIO: &[u8] = include_bytes!("fixtures/warcio.warc.gz");

#[test]
fn a_file_of_warcio_has_no_problems() {
    let report = check(Cursor::new(WARCIO)).expect("memory can be read");
    assert_eq!(report.problems, []);
    assert_eq!((report.records, report.digests_verified), (6, 10));
}

#[test]
fn a_file_of_warcio_reads_as_it_was_meant() {
    let mut reader = Reader::new(WARCIO);
    let mut seen = Vec::new();
    while let Some(header) = reader.next_record().expect("sound") {
        let kind = header.fields.get("warc-type").unwrap_or_default().to_owned();
        let date = header.fields.get("warc-date").and_then(WarcDate::parse);
        assert_eq!(date.map(WarcDate::digits14).as_deref(), Some("20261105083000"));
        let block = reader.block(1000).expect("sound").expect("short");
        match kind.as_str() {
            "response" => assert!(block.ends_with(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")),
            "resource" => assert_eq!(block, "grüße".as_bytes()),
            "metadata" => assert_eq!(Fields::parse(&block).get("VIA"), Some("http://b.test/")),
            _ => {}
        }
        seen.push(kind);
    }
    assert_eq!(seen, ["warcinfo", "response", "request", "revisit", "resource", "metadata"]);
}
