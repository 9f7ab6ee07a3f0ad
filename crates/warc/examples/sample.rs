//! Writes a WARC with every awkward answer we know, and its CDXJ, for outside tools to judge:
//!
//!     cargo run -p lycosa-warc --example sample -- OUT.warc.gz
//!     python crates/warc/tests/interop.py OUT.warc.gz

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use lycosa_warc::cdxj::Entry;
use lycosa_warc::{
    Algorithm, Capture, Compressor, Earlier, Level, Record, RecordId, TransferCoded, Truncated,
    Visit, VisitIds, WarcDate, WarcFields,
};

struct Case {
    url: &'static str,
    ip: &'static str,
    protocols: &'static [&'static str],
    head: Vec<u8>,
    body: Vec<u8>,
    truncated: Option<Truncated>,
    algorithm: Algorithm,
    /// The number of the case whose page this is once more.
    earlier: Option<u8>,
}

impl Case {
    fn new(url: &'static str, head: &[u8], body: &[u8]) -> Self {
        Self {
            url,
            ip: "192.0.2.7",
            protocols: &["http/1.1"],
            head: head.to_vec(),
            body: body.to_vec(),
            truncated: None,
            algorithm: Algorithm::Sha1,
            earlier: None,
        }
    }

    fn again(mut self, earlier: u8) -> Self {
        self.earlier = Some(earlier);
        self
    }

    fn truncated(mut self, why: Truncated) -> Self {
        self.truncated = Some(why);
        self
    }
}

const HTML: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";
const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n";
const PAGE: &[u8] = b"<!doctype html><title>spider</title><p>It does not wait in a web.";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args().nth(1).ok_or("usage: sample OUT.warc.gz")?);
    let filename = path.file_name().and_then(|name| name.to_str()).ok_or("a file name, please")?;
    let mut compressor = Compressor::new(Level::DEFAULT);
    let (mut warc, mut index) = (Vec::new(), String::new());

    let start = 1_793_867_400;
    let mut info = WarcFields::new();
    info.push("software", concat!("lycosa/", env!("CARGO_PKG_VERSION")))
        .push("format", "WARC File Format 1.1")
        .push("robots", "RFC 9309");
    let warcinfo = RecordId::derive(0, "warcinfo");
    let date = WarcDate::from_unix_seconds(start);
    compressor.member(&Record::warcinfo(warcinfo, date, filename, &info).build()?, &mut warc);

    let date = |number: u8| WarcDate::from_unix_seconds(start + i64::from(number));
    let mut digests = vec![None];
    for (number, case) in (1_u8..).zip(cases()) {
        let earlier = case.earlier.and_then(|earlier| {
            let id = VisitIds::derive(earlier.into()).response;
            let digest = digests.get(usize::from(earlier)).copied().flatten()?;
            Some(Earlier { id, date: date(earlier), digest })
        });
        let mut metadata = WarcFields::new();
        metadata
            .push("via", "http://a.test/")
            .push("fetchTimeMs", "17")
            .push("outlink", "http://b.test/x\r\nWARC-Type: forged");
        let request = format!("GET /{number} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let visit = Visit {
            capture: Capture {
                uri: case.url,
                date: date(number),
                warcinfo: Some(warcinfo),
                ip: Some(case.ip.parse()?),
                protocols: case.protocols,
            },
            ids: VisitIds::derive(number.into()),
            request: request.as_bytes(),
            response_head: &case.head,
            response_body: &case.body.chunks(1000).collect::<Vec<_>>(),
            response_rest: None,
            earlier,
            truncated: case.truncated,
            payload_type: Some("text/html"),
            metadata: Some(&metadata),
            algorithm: case.algorithm,
            transfer_coded: TransferCoded::Omit,
        };
        let members = compressor.visit(&visit, &mut warc)?;
        assert_eq!(members.revisit.is_some(), case.earlier.is_some(), "{}", case.url);
        digests.push(Some(members.digest));
        Entry::of_visit(&visit.capture, &members, filename, 0).push_line(&mut index);
    }
    fs::write(&path, warc)?;
    fs::write(path.with_extension("").with_extension("cdxj"), index)?;
    Ok(())
}

fn cases() -> Vec<Case> {
    let huge_header =
        [HTML.trim_ascii_end(), b"\r\nX-Huge: ", &[b'x'; 80_000], b"\r\n\r\n"].concat();
    let gzipped_head =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html\r\n\r\n";
    let gzipped_chunked =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let binary: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let large: Vec<u8> = (0..1_500_000_u32).flat_map(|n| (n % 7919).to_be_bytes()).collect();
    vec![
        Case::new("http://a.test/", HTML, PAGE),
        Case::new("http://a.test/chunked", CHUNKED, &chunked(PAGE, 7)),
        Case::new("http://a.test/", HTML, PAGE).again(1),
        Case::new("http://a.test/", b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", b"")
            .again(1),
        Case::new("http://a.test/chunked", CHUNKED, &chunked(PAGE, 7)).again(2),
        Case::new(
            "http://a.test/chunked-trailer",
            CHUNKED,
            b"5;x=y\r\nhello\r\n0\r\nDigest: x\r\n\r\n",
        ),
        Case::new("http://a.test/chunked-empty", CHUNKED, b"0\r\n\r\n"),
        Case::new("http://a.test/chunked-not", CHUNKED, PAGE),
        Case::new("http://a.test/chunked-cut", CHUNKED, &chunked(PAGE, 7)[..40])
            .truncated(Truncated::Disconnect),
        Case::new("http://a.test/gzip", gzipped_head, &gzip(PAGE)),
        Case::new("http://a.test/gzip-not", gzipped_head, PAGE),
        Case::new("http://a.test/gzip-cut", gzipped_head, &gzip(PAGE)[..30])
            .truncated(Truncated::Time),
        Case::new("http://a.test/gzip-chunked", gzipped_chunked, &chunked(&gzip(PAGE), 11)),
        Case::new("http://a.test/cut", HTML, &PAGE[..20]).truncated(Truncated::Length),
        Case::new("http://a.test/no-body", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        Case::new("http://a.test/empty", HTML, b""),
        Case::new("http://a.test/nothing", b"", b"").truncated(Truncated::Unspecified),
        Case::new("http://a.test/no-head", b"", PAGE),
        Case::new("http://a.test/no-head-lines", b"", b"plain text\nsays: nothing\n\nof a head\n"),
        Case::new("http://a.test/no-head-binary", b"", &binary),
        Case::new("http://a.test/no-head-newline", b"", b"\r\nstarts with a blank line"),
        Case::new("http://a.test/head-cut", b"HTTP/1.1 200 OK\r\nContent-Ty", b"")
            .truncated(Truncated::Disconnect),
        Case::new(
            "http://a.test/unix",
            b"HTTP/1.0 200 OK\nContent-Type: text/plain\n\n",
            b"a\n\nb",
        ),
        Case::new(
            "http://a.test/blank",
            b"HTTP/1.1 200 OK\r\n \t\r\nContent-Type: a/b\r\n\r\n",
            PAGE,
        ),
        Case::new(
            "http://a.test/folded",
            b"HTTP/1.1 200\r\nContent-Type: text/html;\r\n a=b\r\n\r\n",
            PAGE,
        ),
        Case::new(
            "http://a.test/latin",
            b"HTTP/1.1 200 D\xe9j\xe0\r\nContent-Type: t\xe9xt/x\r\n\r\n",
            PAGE,
        ),
        Case::new(
            "http://a.test/utf8",
            "HTTP/1.1 200 é\r\nContent-Type: 文\u{1f577}/x y\r\n\r\n".as_bytes(),
            PAGE,
        ),
        Case::new(
            "http://a.test/typeless",
            b"HTTP/1.1 404 Not Found\r\nContent-Type:\r\n\r\n",
            PAGE,
        ),
        Case::new("http://a.test/untyped", b"HTTP/1.1 500 Oops\r\nServer: x\r\n\r\n", PAGE),
        Case::new("http://a.test/moved", b"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", b""),
        Case::new("http://a.test/binary", HTML, &binary),
        Case::new("http://a.test/huge-header", &huge_header, PAGE),
        Case::new("http://a.test/large", HTML, &large),
        Case::new("http://a.test/packed", HTML, &noise(200_000)),
        Case::new(
            "http://a.test/inner",
            HTML,
            b"WARC/1.1\r\nWARC-Type: response\r\n\r\n\r\n\r\nWARC/1.1\r\n",
        ),
        Case::new("http://a.test/straße/日本?q=ü é", HTML, PAGE),
        Case::new("http://a.test/a b\r\nWARC-Type: forged", HTML, PAGE),
        Case::new(
            "https://WWW.a.test:443/A/?b=2&a=1&PHPSESSID=0123456789abcdef0123456789abcdef",
            HTML,
            PAGE,
        ),
        Case::new("http://xn--bcher-kva.example:8080/\"quoted\"\\", HTML, PAGE),
        Case { ip: "2001:db8::7", ..Case::new("http://[2001:db8::7]/", HTML, PAGE) },
        Case { ip: "127.0.0.1", ..Case::new("http://127.0.0.1:8080/x", HTML, PAGE) },
        Case { protocols: &["h2", "tls/1.3"], ..Case::new("https://b.test/h2", HTML, PAGE) },
        Case { algorithm: Algorithm::Sha256, ..Case::new("http://a.test/sha256", HTML, PAGE) },
        Case {
            algorithm: Algorithm::Sha256,
            ..Case::new("http://a.test/sha256-chunked", CHUNKED, &chunked(PAGE, 9))
        },
    ]
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// What a picture looks like to a compressor.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 41_u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(step).collect()
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).expect("a Vec takes every write");
    encoder.finish().expect("a Vec takes every write")
}
