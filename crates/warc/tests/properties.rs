//! What holds for every record, every cut and every broken byte?

use std::io::Cursor;

use lycosa_warc::{
    Algorithm, Capture, Compressor, Error, Fields, Level, Reader, Record, RecordId, TransferCoded,
    Truncated, WarcDate, WarcFields, check, last_complete, surt,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// All that a caller may hand to a response record.
#[derive(Debug, Clone)]
struct Given {
    uri: String,
    date: i64,
    id: u128,
    ip: Option<[u8; 16]>,
    head: Vec<u8>,
    body: Vec<Vec<u8>>,
    extension: String,
    truncated: bool,
    transfer_coded: TransferCoded,
    sha256: bool,
}

fn given() -> impl Strategy<Value = Given> {
    let head = prop_oneof![
        Just(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec()),
        Just(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
        Just(Vec::new()),
        vec(any::<u8>(), 0..80),
    ];
    let lines = vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), Just(b'0')], 0..60);
    // The longer ones look packed and are stored, not deflated.
    let body = vec(prop_oneof![4 => lines, 1 => vec(any::<u8>(), 400..700)], 0..4);
    let choices = (
        any::<bool>(),
        prop_oneof![
            Just(TransferCoded::Omit),
            Just(TransferCoded::Decoded),
            Just(TransferCoded::AsStored)
        ],
        any::<bool>(),
    );
    let names = ("http://.*", 0..9_000_000_000_i64, any::<u128>(), any::<Option<[u8; 16]>>());
    (names, head, body, "[^\\p{Cc}]*", choices).prop_map(
        |(names, head, body, extension, choices)| {
            let (uri, date, id, ip) = names;
            let (truncated, transfer_coded, sha256) = choices;
            Given { uri, date, id, ip, head, body, extension, truncated, transfer_coded, sha256 }
        },
    )
}

impl Given {
    fn record<'a>(&'a self, body: &[&'a [u8]]) -> Record<'a> {
        let capture = Capture {
            uri: &self.uri,
            date: WarcDate::from_unix_seconds(self.date),
            warcinfo: None,
            ip: self.ip.map(Into::into),
            protocols: &["http/1.1"],
        };
        let id = RecordId::from_bits(self.id);
        let mut record = Record::response(&capture, id, &self.head, body)
            .field("X-Extension", &self.extension)
            .transfer_coded(self.transfer_coded)
            .algorithm(if self.sha256 { Algorithm::Sha256 } else { Algorithm::Sha1 });
        if self.truncated {
            record = record.truncated(Truncated::Time);
        }
        record.build().expect("no control characters were given")
    }
}

/// A file of these records, gzip or plain, and where each record ends.
fn file(records: &[Given], gzip: bool) -> (Vec<u8>, Vec<usize>) {
    let mut compressor = Compressor::new(Level::DEFAULT);
    let mut out = Vec::new();
    let ends = records.iter().map(|given| {
        let body: Vec<&[u8]> = given.body.iter().map(Vec::as_slice).collect();
        let record = given.record(&body);
        if gzip {
            compressor.member(&record, &mut out);
        } else {
            record.write_plain(&mut out);
        }
        out.len()
    });
    let ends = ends.collect();
    (out, ends)
}

/// Reads and resyncs until the end; the point is that it gets there.
fn exhaust(bytes: &[u8]) -> usize {
    let mut reader = Reader::new(Cursor::new(bytes));
    let mut records = 0;
    loop {
        let next = reader.next_record().and_then(|header| match header {
            Some(_) => reader.finish(),
            None => Ok(None),
        });
        match next {
            Ok(Some(_)) => records += 1,
            Ok(None) => return records,
            Err(Error::Truncated { .. } | Error::Damaged { .. }) => {
                if reader.resync().expect("memory can be read").is_none() {
                    return records;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(records in vec(given(), 1..5), gzip: bool) {
        let (file, ends) = file(&records, gzip);
        let mut reader = Reader::new(file.as_slice());
        let mut start = 0;
        for (given, end) in records.iter().zip(ends) {
            let header = reader.next_record().unwrap().unwrap();
            let fields = &header.fields;
            prop_assert_eq!(fields.get("warc-type"), Some("response"));
            let id = fields.get("WARC-Record-ID").and_then(RecordId::parse);
            prop_assert_eq!(id, Some(RecordId::from_bits(given.id)));
            let date = fields.get("WARC-Date").and_then(WarcDate::parse);
            prop_assert_eq!(date, Some(WarcDate::from_unix_seconds(given.date)));
            prop_assert_eq!(fields.get("X-Extension"), Some(given.extension.trim()));
            prop_assert_eq!(fields.get("WARC-Truncated"), given.truncated.then_some("time"));
            prop_assert!(fields.get("WARC-Target-URI").unwrap().bytes().all(|b| b.is_ascii_graphic()));
            let block = reader.block(u64::MAX).unwrap().unwrap();
            prop_assert_eq!(block, [given.head.clone(), given.body.concat()].concat());
            let extent = reader.finish().unwrap().unwrap();
            prop_assert_eq!((extent.offset, extent.length), (start, Some(end as u64 - start)));
            start = end as u64;
        }
        prop_assert!(reader.next_record().unwrap().is_none());
    }

    #[test]
    fn what_is_written_passes_its_own_check(records in vec(given(), 1..5), gzip: bool) {
        let (file, _) = file(&records, gzip);
        let report = check(Cursor::new(&file)).unwrap();
        prop_assert_eq!(report.records, records.len() as u64);
        prop_assert_eq!(report.damage, 0);
        prop_assert!(report.digests_verified >= report.records);
    }

    #[test]
    fn a_broken_file_never_breaks_the_reader(
        records in vec(given(), 1..4),
        gzip: bool,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut file, _) = file(&records, gzip);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(file.len() + 1));
        exhaust(&file);
        let report = check(Cursor::new(&file)).unwrap();
        let tail = last_complete(file.as_slice(), 0).unwrap();
        prop_assert!(tail.records <= report.records);
        // What is left after the cut is whole.
        let kept = last_complete(&file[..usize::try_from(tail.end).unwrap()], 0).unwrap();
        prop_assert_eq!((kept.records, kept.torn), (tail.records, None));
    }

    #[test]
    fn a_broken_member_of_a_gzip_file_costs_only_itself(
        records in vec(given(), 3..4),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let (mut damaged, ends) = file(&records, true);
        let at = ends[0] + at.index(ends[1] - ends[0]);
        damaged[at] = byte;
        let found = exhaust(&damaged);
        prop_assert!(found >= 2, "{} of 3", found);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..400), gzip: bool) {
        let file = if gzip { [b"\x1f\x8b\x08\x00", &bytes[..]].concat() } else { bytes.clone() };
        exhaust(&file);
        check(Cursor::new(&file)).unwrap();
        let plain = [b"WARC/1.1\r\n", &bytes[..]].concat();
        exhaust(&plain);
        prop_assert!(Fields::parse(&bytes).iter().count() <= bytes.len());
    }

    #[test]
    fn one_push_is_one_field(pairs in vec((any::<String>(), any::<String>()), 0..6)) {
        let mut block = WarcFields::new();
        for (name, value) in &pairs {
            block.push(name, value);
        }
        prop_assert_eq!(Fields::parse(block.as_bytes()).iter().count(), pairs.len());
    }

    #[test]
    fn every_url_has_a_key_without_spaces(url: String, path: String) {
        let url = url.replace(|char: char| !char.is_ascii_graphic(), "");
        prop_assert!(!surt(&url).contains([' ', '\n']));
        let key = surt(&format!("http://a.test/{path}"));
        prop_assert!(!key.contains([' ', '\n']));
    }
}

proptest! {
    // Each case is a thousand cuts.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_cut_keeps_the_records_before_it(records in vec(given(), 1..4), gzip: bool) {
        let (file, ends) = file(&records, gzip);
        for cut in 0..=file.len() {
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let tail = last_complete(&file[..cut], 0).unwrap();
            prop_assert_eq!(tail.records, whole as u64);
            prop_assert_eq!(tail.end, ends[..whole].last().map_or(0, |&end| end as u64));
            prop_assert_eq!(tail.torn.is_some(), tail.end < cut as u64);
        }
    }
}
