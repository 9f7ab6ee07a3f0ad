//! How does a URL's record become a row, and how little of it can be read?
//!
//! Scheme and host of a URL are in its key or in a bit, so the row holds only its path. Nine of ten
//! rows are of URLs that were found and never visited: they are eight bytes and the path. All else
//! follows as postcard where there is more to say.
//!
//! ```text
//! layout u8   2
//! flags u8    1 https, 2 another port than the scheme's, 4 seed, 8 there is more, 16 wide, 32 held,
//!             64 text
//! band, hops  half a byte each; a byte each when wide
//! depth       varint
//! found       seconds since 1970, u32 little-endian
//! port        u16 little-endian, when it is another
//! path        to the end; or its length as a varint, the path, and the rest as postcard
//! held        of a page that we have whole, as postcard
//! text        facts of its text, where that was read, as postcard
//! ```
//!
//! Layout 1 was the whole record as postcard; `migrate` rewrites it.

use ports::{PortError, PortErrorKind, PortResult};
use serde::{Deserialize, Serialize};
use types::record::LastVisit;
use types::{CrawlUrl, Discovery, Held, Record, Scheme, State, Timestamp, UrlRef};

/// The layout that is written here.
pub(super) const LAYOUT: u8 = 2;

const HTTPS: u8 = 1;
const PORT: u8 = 2;
const SEED: u8 = 4;
const MORE: u8 = 8;
const WIDE: u8 = 16;
const HELD: u8 = 32;
const TEXT: u8 = 64;

/// A row, read as far as the path.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    scheme: Scheme,
    port: u16,
    pub(super) found: Discovery,
    path: &'a str,
    more: Option<&'a [u8]>,
    held: bool,
    text: bool,
}

/// What is known of a URL beyond how it was found.
#[derive(Serialize)]
struct More<'a> {
    state: &'a State,
    attempts: u8,
    lost: u8,
    fetch_count: u32,
    due: Option<Timestamp>,
    last: &'a Option<Box<LastVisit>>,
}

/// The same, to be read. Its first field alone is [`State`].
#[derive(Deserialize)]
struct MoreRead {
    state: State,
    attempts: u8,
    lost: u8,
    fetch_count: u32,
    due: Option<Timestamp>,
    last: Option<Box<LastVisit>>,
}

/// Appends the row of a record.
pub fn write(record: &Record, out: &mut Vec<u8>) {
    let Record { url, found, state, attempts, lost, fetch_count, due, last, held } = record;
    let (attempts, lost, fetch_count, due) = (*attempts, *lost, *fetch_count, *due);
    let untouched = *state == State::Queued
        && (attempts, lost, fetch_count) == (0, 0, 0)
        && due.is_none()
        && last.is_none()
        && held.is_none();
    let text = last.as_ref().and_then(|last| last.answer.text.as_deref());
    let flag = |bit: u8, on: bool| if on { bit } else { 0 };
    let other_port = url.port() != url.scheme().default_port();
    let wide = found.band > 15 || found.hops > 15;
    out.push(LAYOUT);
    out.push(
        flag(HTTPS, url.scheme() == Scheme::Https)
            | flag(PORT, other_port)
            | flag(SEED, found.seed)
            | flag(MORE, !untouched)
            | flag(WIDE, wide)
            | flag(HELD, held.is_some())
            | flag(TEXT, text.is_some()),
    );
    if wide {
        out.extend_from_slice(&[found.band, found.hops]);
    } else {
        out.push(found.band << 4 | found.hops);
    }
    put(&u64::from(found.depth), out);
    let seconds = u32::try_from(found.at.micros() / 1_000_000).unwrap_or(u32::MAX);
    out.extend_from_slice(&seconds.to_le_bytes());
    if other_port {
        out.extend_from_slice(&url.port().to_le_bytes());
    }
    let path = url.path_and_query();
    if !untouched {
        put(&(path.len() as u64), out);
    }
    out.extend_from_slice(path.as_bytes());
    if !untouched {
        put(&More { state, attempts, lost, fetch_count, due, last }, out);
        if let Some(held) = held {
            put(held, out);
        }
        if let Some(text) = text {
            put(text, out);
        }
    }
}

/// The record of a row; `host` is the one of its key.
pub fn read(host: &str, bytes: &[u8]) -> PortResult<Record> {
    Stored::read(bytes)?.record(host)
}

impl<'a> Stored<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> PortResult<Self> {
        let mut rest = Rest(bytes);
        let [layout, flags, band_hops] = rest.take()?;
        if layout != LAYOUT {
            return Err(PortError::new(
                PortErrorKind::Version,
                "read a URL's record",
                format_args!("written in layout {layout}; this lycosa reads layout {LAYOUT}"),
            ));
        }
        let (band, hops) = match flags & WIDE != 0 {
            true => (band_hops, rest.take::<1>()?[0]),
            false => (band_hops >> 4, band_hops & 15),
        };
        let depth = u16::try_from(rest.varint()?).map_err(|_| broken("its depth"))?;
        let at = Timestamp::from_secs(u64::from(u32::from_le_bytes(rest.take()?)));
        let scheme = if flags & HTTPS != 0 { Scheme::Https } else { Scheme::Http };
        let port = match flags & PORT != 0 {
            true => u16::from_le_bytes(rest.take()?),
            false => scheme.default_port(),
        };
        let (path, more) = match flags & MORE != 0 {
            true => {
                let length = usize::try_from(rest.varint()?).unwrap_or(usize::MAX);
                let split = rest.0.split_at_checked(length);
                let (path, more) = split.ok_or_else(|| broken("its length"))?;
                (path, Some(more))
            }
            false => (rest.0, None),
        };
        let path = std::str::from_utf8(path).map_err(|_| broken("its text"))?;
        // Anything else would be taken for more of the host that it is put behind.
        if !path.starts_with('/') {
            return Err(broken("its path"));
        }
        let found = Discovery { at, depth, hops, seed: flags & SEED != 0, band };
        Ok(Self {
            scheme,
            port,
            found,
            path,
            more,
            held: flags & HELD != 0,
            text: flags & TEXT != 0,
        })
    }

    /// Whether it is the row of this URL, whose host is the one of its key.
    pub(super) fn is_of(&self, url: UrlRef<'_>) -> bool {
        self.path == url.path_and_query() && self.scheme == url.scheme() && self.port == url.port()
    }

    pub(super) fn state(&self) -> PortResult<State> {
        self.more.map_or(Ok(State::Queued), |more| Ok(decode(more)?.0))
    }

    pub(super) fn record(&self, host: &str) -> PortResult<Record> {
        let Self { scheme, port, path, .. } = self;
        let mut text = String::with_capacity(14 + host.len() + path.len());
        text.extend([scheme.as_str(), "://", host]);
        if *port != scheme.default_port() {
            text.extend([":", &port.to_string()]);
        }
        text.push_str(path);
        let url = CrawlUrl::from_canonical(&text)
            .map_err(|error| PortError::corrupt("read a URL's record", error))?;
        let record = Record::new(url, self.found);
        let Some(more) = self.more else { return Ok(record) };
        let (MoreRead { state, attempts, lost, fetch_count, due, mut last }, mut rest) =
            decode(more)?;
        let mut held: Option<Held> = None;
        if self.held {
            let (read, behind) = decode(rest)?;
            (held, rest) = (Some(read), behind);
        }
        if let (Some(last), true) = (&mut last, self.text) {
            last.answer.text = Some(decode(rest)?.0);
        }
        Ok(Record { state, attempts, lost, fetch_count, due, last, held, ..record })
    }
}

/// The value at the start of the bytes, and what follows it.
fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> PortResult<(T, &'a [u8])> {
    postcard::take_from_bytes(bytes)
        .map_err(|error| PortError::corrupt("read a URL's record", error))
}

fn put(value: &impl Serialize, out: &mut Vec<u8>) {
    *out = postcard::to_extend(value, std::mem::take(out))
        .expect("our types serialise: no maps of unknown length");
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> PortResult<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(|| broken("its end"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> PortResult<u64> {
        let (value, rest) =
            postcard::take_from_bytes(self.0).map_err(|_| broken("a number in it"))?;
        self.0 = rest;
        Ok(value)
    }
}

fn broken(what: &str) -> PortError {
    PortError::corrupt("read a URL's record", format_args!("{what} is not as it should be"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use types::outcome::Answer;
    use types::record::{Retirement, Validators};
    use types::{Fault, Held, Refusal, TextFacts, VisitId, WarcRef};

    fn record(url: &str, found: Discovery) -> Record {
        Record::new(CrawlUrl::parse(url).unwrap(), found)
    }

    fn found() -> Discovery {
        Discovery {
            at: Timestamp::from_secs(1_800_000_000),
            depth: 3,
            hops: 1,
            seed: false,
            band: 4,
        }
    }

    fn records() -> Vec<Record> {
        let plain = record("http://www.example.org/some/path?x=1", found());
        let seed = Discovery { seed: true, depth: 0, hops: 0, band: 0, ..found() };
        let far = Discovery { depth: u16::MAX, hops: 17, band: 200, ..found() };
        let mut all = vec![
            plain.clone(),
            record("https://example.org/", seed),
            record("https://[2001:db8::1]:8443/a?b=c&d", found()),
            record("http://10.0.0.1:81/%20", far),
            Record { lost: 1, ..plain.clone() },
            Record { attempts: 1, due: Some(Timestamp::from_micros(77)), ..plain.clone() },
            Record { state: State::Blocked(Refusal::Hops { hops_max: 5 }), ..plain.clone() },
        ];
        let dead = Retirement::DeadLetter { fault: Fault::Status(500), attempts: 3 };
        all.push(Record { state: State::Retired(dead), fetch_count: 3, ..plain.clone() });
        let last = LastVisit {
            at: Timestamp::from_micros(1_800_000_000_123_456),
            answer: Answer { status: 200, title: Some("T".into()), ..Answer::default() },
            moved_to: Some("http://b.test/".into()),
            target_refused: None,
            warc: Some(WarcRef { file: 1, offset: 2, length: 3 }),
        };
        let last = Some(Box::new(last));
        let parsed = Record { state: State::Parsed, fetch_count: 1, last, ..plain };
        let held = Held { visit: VisitId(77), at: found().at, unchanged: 300, told: 2 };
        let mut read = parsed.clone();
        read.last.as_mut().unwrap().answer.text = Some(Box::new(text()));
        all.push(Record { held: Some(held), ..parsed.clone() });
        all.push(Record { held: Some(held), ..read.clone() });
        all.push(read);
        all.push(parsed);
        all
    }

    fn text() -> TextFacts {
        TextFacts { digest: [9; 32], simhash: u64::MAX, words: 812, language: Some("en".into()) }
    }

    fn written(record: &Record) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write(record, &mut out);
        out.split_off(6)
    }

    #[test]
    fn every_record_comes_back_and_its_head_alone() {
        for record in records() {
            let bytes = written(&record);
            let host = record.url.host();
            assert_eq!(read(host, &bytes).unwrap(), record);
            let head = Stored::read(&bytes).unwrap();
            assert_eq!((head.found, head.state().unwrap()), (record.found, record.state.clone()));
            assert!(head.is_of(UrlRef::from(&record.url)));
            for other in ["http://www.example.org/some/path?x=2", "https://example.org:444/"] {
                assert!(!head.is_of(UrlRef::from_canonical(other).unwrap()));
            }
        }
    }

    #[test]
    fn a_url_that_was_only_found_takes_eight_bytes_and_its_path() {
        let record = &records()[0];
        assert_eq!(written(record).len(), 8 + record.url.path_and_query().len());
    }

    /// A page as most are: visited once, with what servers usually say of it.
    fn visited() -> Record {
        let answer = Answer {
            status: 200,
            content_type: Some("text/html".into()),
            body_bytes: 48_213,
            took_ms: 187,
            digest: Some([7; 20]),
            validators: Validators {
                etag: Some("\"5f3c-61d2a4b8e9c40\"".into()),
                last_modified: Some("Tue, 12 May 2026 08:14:31 GMT".into()),
            },
            title: Some("Opening hours and prices | Municipal Swimming Pool".into()),
            links: 131,
            text: Some(Box::new(text())),
            ..Answer::default()
        };
        let last = LastVisit {
            at: Timestamp::from_micros(1_800_000_000_123_456),
            answer,
            moved_to: None,
            target_refused: None,
            warc: Some(WarcRef { file: 17, offset: 734_003_200, length: 9_411 }),
        };
        let last = Some(Box::new(last));
        let record = record("https://www.example.org/visit/prices.html?lang=en", found());
        let (visit, at) = (VisitId(48_213_077), Timestamp::from_secs(1_800_000_000));
        let held = Some(Held { visit, at, unchanged: 0, told: 0 });
        Record { state: State::Parsed, fetch_count: 1, last, held, ..record }
    }

    /// The table of docs/decisions/2026-11-17-what-a-row-holds.md, and what came to it since.
    #[test]
    fn what_each_field_of_a_visited_row_takes() {
        type Without = fn(&mut Record);
        fn answer(record: &mut Record) -> &mut Answer {
            &mut record.last.as_mut().unwrap().answer
        }
        let fields: [(&str, Without); 11] = [
            ("content type", |record| answer(record).content_type = None),
            ("body_bytes", |record| answer(record).body_bytes = 0),
            ("took_ms", |record| answer(record).took_ms = 0),
            ("digest", |record| answer(record).digest = None),
            ("ETag", |record| answer(record).validators.etag = None),
            ("Last-Modified", |record| answer(record).validators.last_modified = None),
            ("title", |record| answer(record).title = None),
            ("links", |record| answer(record).links = 0),
            ("place in the archive", |record| record.last.as_mut().unwrap().warc = None),
            ("which visit brought it", |record| record.held = None),
            ("facts of the text", |record| answer(record).text = None),
        ];
        let whole = written(&visited()).len();
        let mut table = format!("{whole} all\n");
        let mut named = 0;
        for (name, without) in fields {
            let mut record = visited();
            without(&mut record);
            let bytes = whole - written(&record).len();
            named += bytes;
            table += &format!("{bytes:>3} {name}\n");
        }
        let head = 8 + 1 + visited().url.path_and_query().len();
        table += &format!("{head:>3} how it was found, and its path\n");
        table += &format!(
            "{:>3} state, counts, time, and a byte for what is not there\n",
            whole - named - head
        );
        expect![[r#"
            270 all
             10 content type
              2 body_bytes
              1 took_ms
             20 digest
             21 ETag
             30 Last-Modified
             51 title
              1 links
              8 place in the archive
             14 which visit brought it
             46 facts of the text
             35 how it was found, and its path
             31 state, counts, time, and a byte for what is not there
        "#]]
        .assert_eq(&table);
    }

    /// Rows of the version that knew nothing of held pages have the same layout, without the flag.
    #[test]
    fn what_is_held_stands_behind_the_rest_and_may_be_missing() {
        let mut with = records().into_iter().find(|record| record.held.is_some()).unwrap();
        let row = written(&with);
        with.held = None;
        let without = written(&with);
        assert_eq!((without[1], row.len() > without.len()), (row[1] & !HELD, true));
        assert_eq!(row[2..without.len()], without[2..]);
        assert_eq!(read(with.url.host(), &without).unwrap(), with);
        // Found by the fuzzer: nothing else need be there for it to be kept.
        let held = Some(Held { visit: VisitId(7), at: found().at, unchanged: 0, told: 0 });
        let alone = Record { held, ..records().remove(0) };
        assert_eq!(read(alone.url.host(), &written(&alone)).unwrap(), alone);
    }

    #[test]
    fn time_is_kept_to_the_second() {
        let mut record = records().remove(0);
        record.found.at = Timestamp::from_micros(1_800_000_000_999_999);
        let read = read(record.url.host(), &written(&record)).unwrap();
        assert_eq!(read.found.at, Timestamp::from_secs(1_800_000_000));
    }

    /// Found by the fuzzer: such a row was read as one of another host, or of another port.
    #[test]
    fn a_row_cannot_name_another_host_than_its_key() {
        let record = records().remove(0);
        let row = written(&record);
        let head = &row[..row.len() - record.url.path_and_query().len()];
        for path in [".b.test/x", ":81/x", "@b.test/x", ""] {
            let row = [head, path.as_bytes()].concat();
            assert_eq!(read("a.test", &row).unwrap_err().kind, PortErrorKind::Corrupt, "{path}");
        }
    }

    #[test]
    fn what_is_cut_or_of_another_layout_is_refused() {
        for record in records() {
            let bytes = written(&record);
            for cut in 0..bytes.len() - record.url.path_and_query().len() {
                // A path that is shorter is a path: only what comes before or after can tell.
                let cut = &bytes[..cut];
                assert!(read("a.test", cut).is_err(), "{record:?} cut to {cut:?}");
            }
            let mut other = bytes.clone();
            other[0] = 9;
            let error = read("a.test", &other).unwrap_err();
            assert_eq!(error.kind, PortErrorKind::Version);
        }
    }
}
