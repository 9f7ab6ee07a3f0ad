//! Does what the archive holds come back, whoever wrote it and wherever it was cut?

use std::fs;
use std::io::Write as _;

use types::Timestamp;
use warc::cdxj::Entry;
use warc::{
    Capture as Event, Compressor, Earlier, Level, TransferCoded, Truncated, Visit, VisitIds,
    WarcFields,
};

use super::*;
use crate::settings::StoreSettings;

/// A crawl's directory, written by hand.
struct Made {
    folder: tempfile::TempDir,
    dir: Dir,
    mark: Mark,
    compressor: Compressor,
    visits: u128,
}

struct Told<'a> {
    url: &'a str,
    head: &'a str,
    body: &'a [u8],
    earlier: Option<Earlier>,
    truncated: Option<Truncated>,
}

impl<'a> Told<'a> {
    fn new(url: &'a str, head: &'a str, body: &'a [u8]) -> Self {
        Self { url, head, body, earlier: None, truncated: None }
    }
}

const BEGUN: i64 = 1_793_867_400;

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::new(folder.path().join("crawl"));
        let held = dir.hold_or_make(&StoreSettings::default(), Timestamp::from_secs(1)).unwrap();
        let mark = held.mark;
        fs::create_dir_all(dir.archive()).unwrap();
        fs::create_dir_all(dir.indexes()).unwrap();
        Self { folder, dir, mark, compressor: Compressor::new(Level::DEFAULT), visits: 0 }
    }

    /// Appends a visit to a file and to its index; each takes a second.
    fn tell(&mut self, serial: u32, told: &Told<'_>) -> Earlier {
        self.visits += 1;
        let date = WarcDate::from_unix_seconds(BEGUN + i64::try_from(self.visits).unwrap());
        let capture =
            Event { uri: told.url, date, warcinfo: None, ip: None, protocols: &["http/1.1"] };
        let ids = VisitIds::derive(self.visits);
        let metadata = WarcFields::new();
        let visit = Visit {
            capture,
            ids,
            request: b"GET / HTTP/1.1\r\n\r\n",
            response_head: told.head.as_bytes(),
            response_body: &[told.body],
            response_rest: None,
            earlier: told.earlier,
            truncated: told.truncated,
            payload_type: None,
            metadata: Some(&metadata),
            algorithm: Algorithm::Sha1,
            transfer_coded: TransferCoded::default(),
        };
        let name = self.name(serial);
        let path = self.dir.archive().join(&name);
        let base = path.metadata().map_or(0, |data| data.len());
        let mut bytes = Vec::new();
        let members = self.compressor.visit(&visit, &mut bytes).unwrap();
        let mut line = String::new();
        Entry::of_visit(&capture, &members, &name, base).push_line(&mut line);
        append(&path, &bytes);
        append(&self.dir.indexes().join(name.replace(".warc.gz", ".cdxj")), line.as_bytes());
        Earlier { id: ids.response, date, digest: members.digest }
    }

    fn name(&self, serial: u32) -> String {
        local::ArchiveSettings::new(ShardId(0), "lycosa").file_name(serial)
    }

    fn captures(&self) -> Captures {
        Captures::open(&self.dir, &self.mark).unwrap()
    }

    fn all(&self) -> Vec<Capture> {
        self.captures().all().collect::<anyhow::Result<_>>().unwrap()
    }
}

fn append(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

const HTML: &str = "HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=utf-8\r\n\r\n";

#[test]
fn an_answer_comes_back_as_it_was_sent_out_of_its_codings() {
    let mut made = Made::new();
    let zipped = gzip(b"<p>zipped");
    let head = "HTTP/1.1 203 Fine\r\nContent-Type: text/html\r\nX-A: 1\r\nX-A: 2\r\n\
                Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n";
    let mut chunked = format!("{:x}\r\n", zipped.len()).into_bytes();
    chunked.extend(&zipped);
    chunked.extend(b"\r\n0\r\n\r\n");
    made.tell(0, &Told::new("http://a.test/", HTML, b"<p>plain"));
    made.tell(0, &Told::new("http://a.test/zipped?x=1", head, &chunked));
    // As other crawlers do: the fields stay, the wrappings are gone.
    made.tell(1, &Told::new("http://a.test/bare", head, b"<p>bare"));
    let cut =
        Told { truncated: Some(Truncated::Length), ..Told::new("http://a.test/cut", HTML, b"x") };
    made.tell(1, &cut);

    let all = made.all();
    let bodies: Vec<&[u8]> = all.iter().map(|capture| capture.body.as_slice()).collect();
    assert_eq!(bodies, [&b"<p>plain"[..], b"<p>zipped", b"<p>bare", b"x"]);
    assert_eq!(
        all.iter().map(|capture| capture.cut).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    assert_eq!(all[0].media_type().as_deref(), Some("text/html"));
    assert_eq!((all[1].status, all[1].url.as_str()), (203, "http://a.test/zipped?x=1"));
    assert_eq!(
        all[1].headers[1..3],
        [("X-A".to_owned(), b"1".to_vec()), ("X-A".to_owned(), b"2".to_vec())]
    );
    assert_eq!(all[1].at, Timestamp::from_secs(u64::try_from(BEGUN).unwrap() + 2));
    assert_eq!(all[3].truncated.as_deref(), Some("length"));
    assert_eq!(all[0].payload, Payload::Own);

    let captures = made.captures();
    for capture in &all {
        let again = captures.read_at(&capture.place.file, capture.place.offset).unwrap().unwrap();
        assert_eq!((&again.body, &again.place), (&capture.body, &capture.place));
    }
    let place = WarcRef { file: 1, offset: all[2].place.offset, length: all[2].place.length };
    assert_eq!(captures.read(ShardId(0), place).unwrap().unwrap().body, b"<p>bare");
    assert!(captures.read(ShardId(1), place).unwrap().is_none(), "no such file");
    assert!(captures.read_at(&all[0].place.file, 0).unwrap().is_none(), "a request is no answer");
}

#[test]
fn a_revisit_is_followed_to_its_payload_wherever_that_lies() {
    let mut made = Made::new();
    let first = made.tell(0, &Told::new("http://a.test/", HTML, b"<p>page"));
    let told = "HTTP/1.1 304 Not Modified\r\nDate: x\r\n\r\n";
    let revisit =
        |head| Told { earlier: Some(first), ..Told::new("http://a.test/", head, b"<p>page") };
    made.tell(0, &revisit(HTML));
    made.tell(1, &Told { body: b"", ..revisit(told) });
    let gone =
        Earlier { digest: Digest::Sha1([7; 20]), date: WarcDate::from_unix_seconds(9), ..first };
    made.tell(1, &Told { earlier: Some(gone), ..Told::new("http://a.test/gone", told, b"") });

    let all = made.all();
    let origin = Payload::Earlier(all[0].place.clone());
    for (capture, status) in [(&all[1], 200), (&all[2], 304)] {
        assert_eq!((capture.status, capture.body.as_slice()), (status, &b"<p>page"[..]));
        assert_eq!(capture.payload, origin);
        assert_eq!(capture.media_type().as_deref(), Some("text/html"));
        assert_eq!(capture.digest, all[0].digest);
        assert!(capture.is_revisit());
    }
    assert_eq!((&all[3].payload, all[3].body.as_slice()), (&Payload::Missing, &b""[..]));
}

#[test]
fn what_is_being_written_is_left_for_later_and_damage_is_told() {
    let mut made = Made::new();
    made.tell(0, &Told::new("http://a.test/1", HTML, b"<p>1"));
    made.tell(0, &Told::new("http://a.test/2", HTML, b"<p>2"));
    let path = made.dir.archive().join(made.name(0));
    let whole = fs::read(&path).unwrap();
    let second = usize::try_from(made.all()[1].place.offset).unwrap();
    for cut in second..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let all = made.all();
        assert!(matches!(all.len(), 1 | 2) && all[0].body == b"<p>1", "cut at {cut}");
        if all.len() == 1 {
            let at = made.captures().read_at(&made.name(0), second as u64);
            assert!(at.unwrap().is_none(), "cut at {cut}");
        }
    }
    // The first response is damaged; the second is found all the same.
    let mut broken = whole;
    let first =
        usize::try_from(made.captures().raw().next().unwrap().unwrap().place.offset).unwrap();
    broken[first + 20] ^= 0xff;
    fs::write(&path, &broken).unwrap();
    let captures = made.captures();
    let (good, bad): (Vec<_>, Vec<_>) = captures.all().partition(Result::is_ok);
    assert_eq!(bad.len(), 1);
    assert!(format!("{:#}", bad[0].as_ref().unwrap_err()).contains("lycosa warc check"));
    assert_eq!(good.into_iter().map(|one| one.unwrap().body).collect::<Vec<_>>(), [b"<p>2"]);
}

#[test]
fn a_directory_without_an_archive_is_told_so() {
    let made = Made::new();
    fs::remove_dir(made.dir.archive()).unwrap();
    let fail = Captures::open(&made.dir, &made.mark).unwrap_err();
    assert!(fail.error.to_string().contains("has no archive"), "{}", fail.error);
    assert!(made.folder.path().exists());
}
