//! What a check finds, and what it lets pass.

use std::io::Cursor;

use super::*;
use crate::testing::{foreign, gzip, gzip_file, plain_file};
use crate::{Algorithm, Digest};

fn run(file: &[u8]) -> Report {
    check(Cursor::new(file)).unwrap()
}

fn problems(file: &[u8]) -> Vec<String> {
    let line = |problem: &Problem| format!("{} {}", problem.offset, problem.what);
    run(file).problems.iter().map(line).collect()
}

const RESPONSE: &str = "WARC/1.0
WARC-Type: response
WARC-Record-ID: <urn:uuid:0b9a5c0e-0000-0000-0000-000000000001>
WARC-Date: 2020-04-04T11:46:32Z
WARC-Target-URI: http://a.test/
Content-Type: application/http; msgtype=response
";

fn response(more: &str, block: &[u8]) -> Vec<u8> {
    foreign(&format!("{RESPONSE}{more}"), block)
}

fn sha1(bytes: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha1, &[bytes])
}

#[test]
fn our_own_files_have_no_problems() {
    for (file, _) in [gzip_file(), plain_file()] {
        let report = run(&file);
        assert_eq!(report.problems, []);
        assert_eq!((report.records, report.damage, report.digests_verified), (4, 0, 5));
        let types: Vec<_> = report.by_type.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
        assert_eq!(types, [("metadata", 1), ("request", 1), ("response", 1), ("warcinfo", 1)]);
    }
}

#[test]
fn a_payload_digest_is_right_with_or_without_chunk_framing() {
    let body = b"3\r\nabc\r\n0\r\n\r\n";
    let block = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], body].concat();
    for right in [sha1(body), sha1(b"abc")] {
        let record = response(&format!("WARC-Payload-Digest: {right}\n"), &block);
        let report = run(&record);
        assert_eq!((report.problems, report.digests_verified), (vec![], 1));
    }
    let wrong = response(&format!("WARC-Payload-Digest: {}\n", sha1(b"abd")), &block);
    let (wrong_sha1, sha1) = (sha1(b"abd"), sha1(b"abc"));
    let said = format!("0 WARC-Payload-Digest says {wrong_sha1}, the content has {sha1}");
    assert_eq!(problems(&wrong), [said]);
    assert_eq!(run(&wrong).damage, 1);
}

#[test]
fn a_payload_starts_where_the_record_type_says() {
    let block = b"not a head\r\n\r\nbody";
    let resource = RESPONSE.replace("response", "resource");
    let said = format!("WARC-Payload-Digest: {}\n", sha1(block));
    assert_eq!(problems(&foreign(&format!("{resource}{said}"), block)), [] as [&str; 0]);
    let revisit = RESPONSE.replace("Type: response", "Type: revisit");
    let said = format!("WARC-Profile: x\nWARC-Payload-Digest: {}\n", sha1(b"elsewhere"));
    assert_eq!(problems(&foreign(&format!("{revisit}{said}"), b"")), [] as [&str; 0]);
}

#[test]
fn a_changed_block_is_damage() {
    let (mut file, ends) = plain_file();
    file[ends[2] - 6] ^= 1;
    let report = run(&file);
    assert_eq!((report.records, report.damage), (4, 2));
    assert!(report.problems.iter().all(|problem| problem.offset == ends[1] as u64));
    assert!(report.problems[0].record_id.as_deref().unwrap().starts_with("<urn:uuid:"));
}

#[test]
fn damage_does_not_hide_what_follows() {
    let (mut broken, ends) = gzip_file();
    broken[ends[0] + 20] ^= 0xff;
    let report = run(&broken);
    assert_eq!(report.records, 3);
    // The damage, what it cost, and the two records that look for the lost one.
    let found = problems(&broken);
    assert!(found[0].starts_with(&format!("{} gzip: ", ends[0])), "{found:?}");
    assert_eq!(
        found[1],
        format!("{} {} bytes from here hold no readable record", ends[0], ends[1] - ends[0])
    );
    assert!(found[2].contains("names no record of this file"));
    assert_eq!(found.len(), 3);
}

#[test]
fn a_cut_file_is_reported_as_cut() {
    let (file, ends) = gzip_file();
    let cut = &file[..ends[3] - 1];
    let found = problems(cut);
    assert_eq!(found, [format!("{} the file ends inside this record", ends[2])]);
    assert_eq!((run(cut).records, run(cut).damage), (3, 1));
}

#[test]
fn breaches_of_form_are_no_damage() {
    for (file, expected) in [
        (gzip(&[plain_file().0, response("", b"")].concat()), "shares its gzip member"),
        (response("WARC-Date: 2020\n", b""), "WARC-Date is repeated"),
        (response("nonsense\n", b""), "a line that is no field"),
        (
            response("WARC-Block-Digest: md5:d41d8cd98f00b204e9800998ecf8427e\n", b""),
            "cannot be verified",
        ),
        (response("", b"").replacen_bytes("2020-04-04T11", "2020-04-04 11"), "is no date"),
        (response("", b"").replacen_bytes("WARC-Date", "WARC-Dote"), "WARC-Date is missing"),
        (
            response("", b"").replacen_bytes("WARC-Target", "WARC-Torget"),
            "WARC-Target-URI is missing",
        ),
        (
            response("", b"").replacen_bytes("Type: response", "Type: warcinfo"),
            "is not allowed here",
        ),
        (
            response("", b"").replacen_bytes("Type: response", "Type: revisit"),
            "WARC-Profile is missing",
        ),
        (
            response("", b"x").replacen_bytes("Content-Type", "Content-Tope"),
            "Content-Type is missing",
        ),
        (response("", b"").replacen_bytes("WARC/1.0", "WARC/7.5"), "version 7.5"),
        (response("", b"").replacen_bytes("a.test", "\u{e9}.test").map_latin1(), "is not UTF-8"),
        (
            response("", b"").replacen_bytes("\r\nWARC-Type", "\nWARC-Type"),
            "without carriage return",
        ),
        ([response("", b""), response("", b"")].concat(), "the same WARC-Record-ID"),
        (response("WARC-Concurrent-To: <urn:uuid:x>\n", b""), "names no record of this file"),
        ([response("", b""), b"\r\n".to_vec()].concat(), "exactly two line ends"),
    ] {
        let report = run(&file);
        let found = problems(&file);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
        assert_eq!(report.damage, 0, "{found:?}");
    }
}

#[test]
fn captures_find_each_other_in_either_order_and_with_or_without_brackets() {
    let first = response("WARC-Concurrent-To: urn:uuid:2\n", b"");
    let second =
        response("WARC-Concurrent-To: <urn:uuid:0b9a5c0e-0000-0000-0000-000000000001>\n", b"");
    let second = second.replacen_bytes(
        "WARC-Record-ID: <urn:uuid:0b9a5c0e-0000-0000-0000-000000000001>",
        "WARC-Record-ID: <urn:uuid:2>",
    );
    assert_eq!(problems(&[first, second].concat()), [] as [&str; 0]);
}

#[test]
fn a_hopeless_file_gives_a_short_report() {
    let record = response("nonsense\n", b"");
    let report = run(&record.repeat(PROBLEMS_MAX));
    assert_eq!(report.problems.len(), PROBLEMS_MAX);
    // One for the nonsense of each, one for the id of each but the first.
    assert_eq!(report.problems_unlisted as usize, PROBLEMS_MAX - 1);
}

trait Edit {
    fn replacen_bytes(self, from: &str, to: &str) -> Self;
    fn map_latin1(self) -> Self;
}

impl Edit for Vec<u8> {
    fn replacen_bytes(self, from: &str, to: &str) -> Self {
        String::from_utf8(self).unwrap().replacen(from, to, 1).into_bytes()
    }

    fn map_latin1(self) -> Self {
        String::from_utf8(self).unwrap().chars().map(|char| char as u32 as u8).collect()
    }
}
