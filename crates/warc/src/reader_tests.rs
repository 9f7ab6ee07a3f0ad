//! What is read from whole, odd, cut and broken files.

use std::io::Cursor;

use super::*;
use crate::testing::{BODY, foreign, gzip, gzip_file, inflate, plain_file};

/// Type, offset and length of each record, then how the file ended.
fn list(file: &[u8]) -> (Vec<String>, Result<(), Error>) {
    let mut reader = Reader::new(file);
    let mut records = Vec::new();
    loop {
        let header = match reader.next_record() {
            Ok(None) => return (records, Ok(())),
            Ok(Some(header)) => header,
            Err(error) => return (records, Err(error)),
        };
        match reader.finish() {
            Ok(extent) => {
                let length = extent.unwrap().length.map_or("shared".to_owned(), |n| n.to_string());
                let kind = header.fields.get("warc-type").unwrap_or("none");
                records.push(format!("{kind} {} {length}", header.offset));
            }
            Err(error) => return (records, Err(error)),
        }
    }
}

fn expected(ends: &[usize]) -> Vec<String> {
    let kinds = ["warcinfo", "request", "response", "metadata"];
    let starts = std::iter::once(&0).chain(ends);
    let rows = kinds.iter().zip(starts.zip(ends));
    rows.map(|(kind, (start, end))| format!("{kind} {start} {}", end - start)).collect()
}

#[test]
fn records_come_back_with_their_places() {
    for (file, ends) in [gzip_file(), plain_file()] {
        let (records, end) = list(&file);
        assert_eq!(records, expected(&ends));
        end.unwrap();
    }
}

#[test]
fn one_record_can_be_read_from_its_offset() {
    for (file, ends) in [gzip_file(), plain_file()] {
        let mut reader = Reader::at(&file[ends[1]..], ends[1] as u64);
        let header = reader.next_record().unwrap().unwrap();
        assert_eq!(header.offset, ends[1] as u64);
        assert_eq!(header.version, "1.1");
        let block = reader.block(1000).unwrap().unwrap();
        assert!(block.ends_with(BODY));
        assert_eq!(block.len() as u64, header.content_length);
        let extent = reader.finish().unwrap().unwrap();
        assert_eq!(extent.length, Some((ends[2] - ends[1]) as u64));
    }
}

#[test]
fn a_block_streams_in_any_portion() {
    let (file, ends) = gzip_file();
    for portion in [1, 2, 7, 1000] {
        let mut reader = Reader::at(&file[ends[1]..], ends[1] as u64);
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0, "no record yet");
        reader.next_record().unwrap().unwrap();
        let mut block = Vec::new();
        let mut buffer = vec![0; portion];
        loop {
            let read = reader.read(&mut buffer).unwrap();
            if read == 0 {
                break;
            }
            block.extend_from_slice(&buffer[..read]);
        }
        assert!(block.starts_with(b"HTTP/1.1 200") && block.ends_with(BODY));
        assert_eq!(
            reader.next_record().unwrap().unwrap().fields.get("WARC-Type"),
            Some("metadata")
        );
    }
}

#[test]
fn a_block_larger_than_asked_for_is_left_on_the_disk() {
    let (file, ends) = gzip_file();
    let mut reader = Reader::at(&file[ends[1]..], ends[1] as u64);
    reader.next_record().unwrap().unwrap();
    assert_eq!(reader.block(10).unwrap(), None);
    assert!(reader.block(1000).unwrap().is_some());
}

#[test]
fn several_records_in_one_member_are_read_one_by_one() {
    let (plain, _) = plain_file();
    let shared = gzip(&plain);
    let file = [gzip_file().0, shared.clone(), gzip_file().0].concat();
    let (records, end) = list(&file);
    end.unwrap();
    let start = gzip_file().0.len();
    assert_eq!(records.len(), 12);
    assert_eq!(records[4], format!("warcinfo {start} shared"));
    assert_eq!(records[7], format!("metadata {start} shared"));
    assert!(records[8].starts_with(&format!("warcinfo {}", start + shared.len())));
}

#[test]
fn old_and_untidy_files_are_read() {
    let old = foreign("WARC/1.0\nwarc-type:response\nX-Folded: a\n b\n", b"block");
    let (records, end) = list(&[gzip(&old), old.clone(), gzip(b""), old.clone()].concat());
    end.unwrap();
    let (packed, plain, empty) = (gzip(&old).len(), old.len(), gzip(b"").len());
    let last = format!("response {} {plain}", packed + plain + empty);
    assert_eq!(
        records,
        [format!("response 0 {packed}"), format!("response {packed} {plain}"), last]
    );
    let unix = b"WARC/0.18\nWARC-Type: resource\nContent-Length: 5\n\nblock\n\n";
    let (records, end) = list(unix);
    end.unwrap();
    assert_eq!(records, ["resource 0 56"]);
    // No line ends behind the last block: fine in a member, which says itself that it is whole.
    let (records, end) = list(&gzip(b"WARC/1.0\r\nContent-Length: 1\r\n\r\nx"));
    end.unwrap();
    assert_eq!(records.len(), 1);
    list(b"").1.unwrap();
}

#[test]
fn every_cut_is_clean_or_truncated_and_names_the_last_whole_record() {
    for (file, ends) in [gzip_file(), plain_file()] {
        for cut in 0..file.len() {
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let last = ends[..whole].last().copied().unwrap_or(0);
            let (records, end) = list(&file[..cut]);
            assert_eq!(records, expected(&ends)[..whole]);
            match end {
                Ok(()) => assert_eq!(cut, last),
                Err(Error::Truncated { offset }) => assert_eq!(offset, last as u64),
                Err(error) => panic!("cut at {cut}: {error}"),
            }
        }
    }
}

fn damage(file: &[u8]) -> (u64, Damage) {
    match list(file).1 {
        Err(Error::Damaged { offset, damage }) => (offset, damage),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_is_told_from_a_cut() {
    let (file, ends) = gzip_file();
    let start = ends[0] as u64;
    let with = |record: &[u8]| [&file[..ends[0]], record, &file[ends[0]..]].concat();

    let mut checksum = file.clone();
    checksum[ends[1] - 6] ^= 1;
    assert!(matches!(damage(&checksum), (at, Damage::Gzip(_)) if at == start));
    let mut magic = file.clone();
    magic[ends[0] + 1] ^= 1;
    assert!(matches!(damage(&magic), (at, Damage::Gzip(_)) if at == start));
    assert_eq!(damage(&with(&[0; 512])), (start, Damage::NotARecord));
    assert_eq!(damage(&with(&gzip(b"GIF89a"))), (start, Damage::NotARecord));
    assert_eq!(damage(&with(&gzip(b"WARC/1.0\r\nWARC-Ty"))), (start, Damage::HeaderCut));
    for length in ["", "Content-Length: x\r\n", "Content-Length: -1\r\n", "Content-Length: +1\r\n"]
    {
        let record = format!("WARC/1.0\r\nWARC-Type: x\r\n{length}\r\nx\r\n\r\n");
        assert_eq!(damage(&with(&gzip(record.as_bytes()))), (start, Damage::ContentLength));
    }
    let short = b"WARC/1.0\r\nContent-Length: 9\r\n\r\nx\r\n\r\n";
    assert_eq!(damage(&with(&gzip(short))), (start, Damage::ShortBlock { missing: 4 }));
    let long = b"WARC/1.0\r\nContent-Length: 1\r\n\r\nxyz\r\n\r\n";
    assert_eq!(damage(&with(&gzip(long))), (start, Damage::Trailer));
    let huge = format!("WARC/1.0\r\nX: {}\r\n\r\n", "x".repeat(HEADER_BYTES_MAX));
    assert_eq!(damage(&with(&gzip(huge.as_bytes()))), (start, Damage::HeaderTooLong));
}

#[test]
fn after_an_error_the_reader_stands_still() {
    let mut reader = Reader::new(&b"GIF89a"[..]);
    assert!(reader.next_record().is_err());
    assert!(reader.next_record().unwrap().is_none());
    assert!(reader.chunk().unwrap().is_none() && reader.finish().unwrap().is_none());
}

/// Reads all that can be read, resyncing after each error.
fn salvage(file: &[u8]) -> (usize, Vec<u64>) {
    let mut reader = Reader::new(Cursor::new(file));
    let (mut records, mut found) = (0, Vec::new());
    loop {
        let next = reader.next_record();
        match next.and_then(|header| if header.is_some() { reader.finish() } else { Ok(None) }) {
            Ok(Some(_)) => records += 1,
            Ok(None) => return (records, found),
            Err(_) => match reader.resync().unwrap() {
                Some(offset) => found.push(offset),
                None => return (records, found),
            },
        }
    }
}

#[test]
fn behind_damage_the_next_record_is_found() {
    for (file, ends) in [gzip_file(), plain_file()] {
        // Damage in each record costs that record, and no other.
        for broken in 0..4 {
            let start = if broken == 0 { 0 } else { ends[broken - 1] };
            let mut damaged = file.clone();
            damaged[start + 1] ^= 0xff;
            let (records, found) = salvage(&damaged);
            assert_eq!(records, 3);
            assert_eq!(found, if broken < 3 { vec![ends[broken] as u64] } else { vec![] });
        }
        // A hole of zeros, larger than the search window.
        let hole = [&file[..ends[1]], &vec![0; 300_000], &file[ends[1]..]].concat();
        assert_eq!(salvage(&hole), (4, vec![ends[1] as u64 + 300_000]));
    }
}

#[test]
fn an_archive_inside_a_broken_record_is_not_taken_for_ours() {
    // The member is sound, its record is not: the search goes on behind the member.
    let (file, _) = gzip_file();
    let outer = [&b"WARC/1.0\r\n\r\n"[..], &file].concat();
    let stored = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        io::Write::write_all(&mut encoder, &outer).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(inflate(&stored), outer);
    let (records, found) = salvage(&[&stored[..], &file].concat());
    assert_eq!((records, found), (4, vec![stored.len() as u64]));
}

#[test]
fn an_input_that_cannot_be_read_is_no_damage() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("disk on fire"))
        }
    }
    let mut reader = Reader::new(io::BufReader::new(Broken));
    assert!(matches!(reader.next_record(), Err(Error::Io(_))));
}
