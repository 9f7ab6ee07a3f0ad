//! What records say, line by line.

use super::*;
use crate::Fields;

const DATE: i64 = 1_793_867_400;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn capture(uri: &str) -> Capture<'_> {
    Capture {
        uri,
        date: WarcDate::from_unix_seconds(DATE),
        warcinfo: Some(RecordId::from_bits(1)),
        ip: Some("2001:db8::7".parse().unwrap()),
        protocols: &["http/1.1", "tls/1.3"],
    }
}

fn header(record: &Record<'_>) -> Fields {
    Fields::parse(record.header.strip_prefix(b"WARC/1.1\r\n").unwrap())
}

fn payload_digest(head: &[u8], body: &[&[u8]], choice: TransferCoded) -> Option<Digest> {
    let record = Record::response(&capture("http://a.test/"), RecordId::from_bits(2), head, body)
        .transfer_coded(choice)
        .build()
        .unwrap();
    header(&record).get("WARC-Payload-Digest").map(|text| Digest::parse(text).unwrap())
}

fn sha1(bytes: &[u8]) -> Option<Digest> {
    Some(Digest::of(Algorithm::Sha1, &[bytes]))
}

#[test]
fn a_response_record_reads_as_the_standard_has_it() {
    let record = Record::response(
        &capture("https://a.test/é"),
        RecordId::derive(7, "response"),
        HEAD,
        &[b"<p>", b"hi"],
    )
    .concurrent_to(RecordId::from_bits(3))
    .truncated(Truncated::Length)
    .identified_payload_type("text/html")
    .build()
    .unwrap();
    let mut text = Vec::new();
    record.write_plain(&mut text);
    assert_eq!(text.len(), record.size());
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "WARC/1.1\r\n\
         WARC-Type: response\r\n\
         WARC-Record-ID: <urn:uuid:07e9483b-f976-525c-ac9a-a51d14c35915>\r\n\
         WARC-Date: 2026-11-05T08:30:00Z\r\n\
         WARC-Target-URI: https://a.test/%C3%A9\r\n\
         WARC-Warcinfo-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n\
         WARC-IP-Address: 2001:db8::7\r\n\
         WARC-Protocol: http/1.1\r\n\
         WARC-Protocol: tls/1.3\r\n\
         WARC-Concurrent-To: <urn:uuid:00000000-0000-0000-0000-000000000003>\r\n\
         WARC-Truncated: length\r\n\
         WARC-Identified-Payload-Type: text/html\r\n\
         WARC-Block-Digest: sha1:L5F2FJGRMQWHM2N6HCGBCSY4CZOVNHNI\r\n\
         WARC-Payload-Digest: sha1:Q4JC6POHK2CXJLM2SEXSFZRG4XBGAQB7\r\n\
         Content-Type: application/http; msgtype=response\r\n\
         Content-Length: 49\r\n\
         \r\n\
         HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>hi\r\n\r\n"
    );
}

#[test]
fn where_readers_agree_the_payload_digest_is_written() {
    let body: &[u8] = b"\x1f\x8b gzip stays on";
    for choice in [TransferCoded::Omit, TransferCoded::Decoded, TransferCoded::AsStored] {
        assert_eq!(payload_digest(HEAD, &[body], choice), sha1(body));
        assert_eq!(payload_digest(HEAD, &[], choice), sha1(b""));
        let bare = b"HTTP/1.0 200 OK\nServer: old\n\n";
        assert_eq!(payload_digest(bare, &[body], choice), sha1(body));
    }
}

#[test]
fn a_chunked_body_is_digested_by_choice() {
    let body: &[&[u8]] = &[b"3\r\na", b"bc\r\n0\r\n\r\n"];
    assert_eq!(payload_digest(CHUNKED, body, TransferCoded::Omit), None);
    assert_eq!(payload_digest(CHUNKED, body, TransferCoded::Decoded), sha1(b"abc"));
    assert_eq!(
        payload_digest(CHUNKED, body, TransferCoded::AsStored),
        sha1(b"3\r\nabc\r\n0\r\n\r\n")
    );
    // A server that says chunked and sends something else has no entity-body to digest.
    assert_eq!(payload_digest(CHUNKED, &[b"<p>"], TransferCoded::Decoded), None);
}

#[test]
fn where_readers_would_not_agree_no_payload_digest_is_claimed() {
    let body: &[u8] = b"<p>a\n\nb";
    assert_eq!(payload_digest(b"", &[body], TransferCoded::AsStored), None);
    let blank_inside = b"HTTP/1.1 200 OK\r\n \r\nA: b\r\n\r\n";
    assert_eq!(payload_digest(blank_inside, &[body], TransferCoded::AsStored), None);
    let unfinished = b"HTTP/1.1 200 OK\r\nA: b\r\n";
    assert_eq!(payload_digest(unfinished, &[body], TransferCoded::AsStored), None);
    assert_eq!(payload_digest(unfinished, &[], TransferCoded::AsStored), None);
    let ends_in_blanks = b"HTTP/1.1 200 OK\r\n \r\n";
    assert_eq!(payload_digest(ends_in_blanks, &[body], TransferCoded::AsStored), None);
    // The index still lists what cdxj-indexer would find there.
    let id = RecordId::from_bits(2);
    let bare = Record::response(&capture("http://a.test/"), id, b"", &[body]).build().unwrap();
    assert_eq!(bare.index_digest(), sha1(b"b"));
}

#[test]
fn records_without_payload_have_no_payload_digest() {
    let id = RecordId::from_bits(2);
    let mut fields = WarcFields::new();
    fields.push("via", "http://a.test/");
    let capture = capture("http://a.test/b");
    for record in [
        Record::request(&capture, id, b"GET / HTTP/1.1\r\n\r\n", &[]).build().unwrap(),
        Record::metadata(&capture, id, &fields).build().unwrap(),
        Record::warcinfo(id, capture.date, "x.warc.gz", &fields).build().unwrap(),
    ] {
        assert_eq!(header(&record).get("WARC-Payload-Digest"), None);
        assert_eq!(record.index_digest(), None);
        assert!(header(&record).get("WARC-Block-Digest").is_some());
    }
}

#[test]
fn a_forged_header_is_refused_and_a_forged_url_is_escaped() {
    let id = RecordId::from_bits(2);
    let forged = capture("http://a.test/\r\nWARC-Type: warcinfo");
    let record = Record::response(&forged, id, HEAD, &[]).build().unwrap();
    assert_eq!(header(&record).all("WARC-Type").collect::<Vec<_>>(), ["response"]);
    assert_eq!(
        header(&record).get("WARC-Target-URI"),
        Some("http://a.test/%0D%0AWARC-Type:%20warcinfo")
    );
    let refused = Record::response(&capture("http://a.test/"), id, HEAD, &[])
        .identified_payload_type("text/html\r\nX: y")
        .build();
    assert!(matches!(refused, Err(Error::UnsafeValue { field }) if field.contains("Payload-Type")));
}

#[test]
fn sha256_is_there_for_those_who_ask() {
    let record =
        Record::response(&capture("http://a.test/"), RecordId::from_bits(2), HEAD, &[b"x"])
            .algorithm(Algorithm::Sha256)
            .build()
            .unwrap();
    let header = header(&record);
    assert!(header.get("WARC-Block-Digest").unwrap().starts_with("sha256:"));
    assert_eq!(
        Digest::parse(header.get("WARC-Payload-Digest").unwrap()),
        Some(Digest::of(Algorithm::Sha256, &[b"x"]))
    );
    let id = RecordId::from_bits(2);
    let chunked = Record::response(&capture("http://a.test/"), id, CHUNKED, &[b"0\r\n\r\n"])
        .algorithm(Algorithm::Sha256)
        .build()
        .unwrap();
    assert_eq!(chunked.index_digest(), sha1(b"0\r\n\r\n"), "what cdxj-indexer computes itself");
}

#[test]
fn a_conversion_points_at_what_it_was_made_of() {
    let id = RecordId::from_bits(3);
    let of = RecordId::from_bits(2).to_string();
    let text = "wolf spider, жужжит".as_bytes();
    let capture = capture("http://a.test/b");
    let record = Record::conversion(&capture, id, &of, "text/plain", text)
        .field("WARC-Identified-Content-Language", "eng")
        .build()
        .unwrap();
    let header = header(&record);
    assert_eq!(header.get("WARC-Type"), Some("conversion"));
    assert_eq!(header.get("WARC-Refers-To"), Some(of.as_str()));
    assert_eq!(header.get("WARC-Target-URI"), Some("http://a.test/b"));
    assert_eq!(header.get("Content-Type"), Some("text/plain"));
    assert_eq!(header.get("WARC-Identified-Content-Language"), Some("eng"));
    assert_eq!(header.get("WARC-Payload-Digest"), None);
    let forged = Record::conversion(&capture, id, "<x>\r\nWARC-Type: response", "text/plain", text);
    assert!(matches!(forged.build(), Err(Error::UnsafeValue { .. })));
}
