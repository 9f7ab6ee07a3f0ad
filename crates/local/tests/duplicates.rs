//! The store of prints: what it finds, what it forgets, and what is left when the process or the power
//! goes; on every engine.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use lycosa_local::kv::{Batch, Durability, Family};
use lycosa_local::{Disk, DuplicateCounts, Duplicates, Kv, MemoryKv, Standing};
use page::fingerprint::Prints;
use ports::shard_store::VisitLine;
use ports::{PortResult, Sink as _};
use types::{CrawlUrl, News, PageLine, ShardId, TextFacts, Timestamp, VisitId};
use xxhash_rust::xxh3::xxh3_64;

const SHARD: ShardId = ShardId(0);

/// A text of its own for every number.
fn text(number: u64, words: u64) -> String {
    let word = |n: u64| xxh3_64(&(number << 20 | n).to_le_bytes());
    (0..words).map(|n| format!("w{} ", word(n) % 4_000)).collect()
}

/// The same with some words replaced.
fn edited(text: &str, every: usize) -> String {
    let words = text.split(' ').enumerate();
    words.map(|(n, word)| if n % every == 7 { "new ".into() } else { format!("{word} ") }).collect()
}

fn url(path: &str) -> CrawlUrl {
    CrawlUrl::parse(&format!("http://a.test/{path}")).expect("a URL")
}

fn page(text: &str) -> PageLine {
    let Prints { digest, simhash, sketch } = Prints::of(text);
    let words = text.split_whitespace().count() as u32;
    PageLine {
        news: News::Other,
        depth: 3,
        seed: false,
        title: None,
        body_bytes: 9,
        truncated: None,
        noindex: false,
        nofollow: false,
        noarchive: false,
        text: Some(TextFacts { digest, simhash: simhash.0, words, language: None }),
        sketch: Some(sketch.to_bytes().into()),
        reading: None,
    }
}

/// What a page that has gone tells.
fn no_page(news: News) -> PageLine {
    PageLine { news, text: None, sketch: None, ..page("") }
}

/// A log that grows.
#[derive(Default)]
struct Log(Vec<VisitLine>);

impl Log {
    fn tell(&mut self, path: &str, page: PageLine) -> &[VisitLine] {
        let seq = self.0.len() as u64 + 1;
        self.0.push(VisitLine {
            seq,
            visit: VisitId(seq),
            url: url(path),
            at: Timestamp::from_secs(seq),
            status: 200,
            content_type: None,
            digest: None,
            warc: None,
            page: Some(Box::new(page)),
        });
        &self.0[self.0.len() - 1..]
    }
}

fn feed(store: &Duplicates, lines: &[VisitLine]) -> PortResult<()> {
    store.sink(SHARD).feed(lines)
}

fn standing(store: &Duplicates, path: &str) -> Option<Standing> {
    store.standing(&url(path)).expect("reads")
}

fn original(copies: u64) -> Option<Standing> {
    Some(Standing::Original { copies })
}

/// Of whom it is a copy, and whether an exact one.
fn copy_of(store: &Duplicates, path: &str) -> (String, bool) {
    match standing(store, path) {
        Some(Standing::Copy { of, exact, distance }) => {
            assert!(!exact || distance == 0);
            (of.path_and_query()[1..].to_owned(), exact)
        }
        other => panic!("{path}: {other:?}"),
    }
}

fn open<K: Kv + 'static>(open: &impl Fn() -> PortResult<K>) -> Duplicates {
    Duplicates::open(Box::new(open().expect("nobody else has it"))).expect("opens")
}

/// All promises, over a state that can be opened again and again.
fn check<K: Kv + 'static>(kv: &impl Fn() -> PortResult<K>) {
    let mut log = Log::default();
    let one = text(1, 300);
    {
        let store = open(kv);
        for (path, text) in [
            ("one", one.clone()),
            ("two", text(2, 300)),
            ("one/again", one.to_uppercase()),
            ("one/nearly", edited(&one, 60)),
            ("short", "Add this to your cart".into()),
            ("short/other", "Add this to your list".into()),
            ("short/again", "add this  to your cart".into()),
            ("empty", String::new()),
            ("empty/too", " ".into()),
        ] {
            feed(&store, log.tell(path, page(&text))).expect("commits");
        }
    }
    // Everything is there again, and told twice it counts once.
    let store = open(kv);
    assert_eq!(store.sink(SHARD).cursor(), log.0.len() as u64);
    feed(&store, &log.0).expect("commits");
    assert_eq!(store.audit().expect("reads"), [""; 0]);
    assert_eq!(
        store.counts(),
        DuplicateCounts { pages: 7, originals: 4, judged: 7, exact: 2, near: 1 }
    );
    assert_eq!(standing(&store, "one"), original(2));
    assert_eq!(standing(&store, "two"), original(0));
    assert_eq!(copy_of(&store, "one/again"), ("one".into(), true));
    assert_eq!(copy_of(&store, "one/nearly"), ("one".into(), false));
    assert_eq!(standing(&store, "short/other"), original(0), "short and not equal");
    assert_eq!(copy_of(&store, "short/again"), ("short".into(), true));
    assert_eq!(standing(&store, "empty"), None, "without a word it is like no other");
    assert_eq!(standing(&store, "unknown"), None);
    let membership = |path: &str| store.membership(&url(path)).expect("reads").expect("known");
    let (one_at, copy_at) = (membership("one"), membership("one/again"));
    assert_eq!((one_at.original, copy_at.original), (true, false));
    assert_eq!(one_at.family, copy_at.family);
    assert_ne!(one_at.family, membership("two").family);
    assert_eq!(store.membership(&url("empty")).expect("reads"), None);
    importance(&store, &mut log, &one);
    again(&store, &mut log, &one);
    assert_eq!(store.audit().expect("reads"), [""; 0]);
}

/// A more important copy takes the original's place, however late it comes.
fn importance(store: &Duplicates, log: &mut Log, one: &str) {
    let nearer = PageLine { depth: 1, ..page(&edited(one, 70)) };
    feed(store, log.tell("one/nearer", nearer)).expect("commits");
    assert_eq!(standing(store, "one/nearer"), original(3));
    assert_eq!(copy_of(store, "one/again"), ("one/nearer".into(), false));
    // A seed comes before whatever is near, and a page may become one.
    let seed = PageLine { depth: 2, seed: true, ..page(&one.to_uppercase()) };
    feed(store, log.tell("one/again", seed)).expect("commits");
    assert_eq!(standing(store, "one/again"), original(3));
    assert_eq!(copy_of(store, "one"), ("one/again".into(), true));
    assert_eq!(copy_of(store, "one/nearer"), ("one/again".into(), false));
}

/// What is fetched again takes the place of its own print.
fn again(store: &Duplicates, log: &mut Log, one: &str) {
    let before = store.counts();
    // The server's word, and its troubles, change nothing.
    for news in [News::Same, News::Nothing] {
        feed(store, log.tell("one/again", no_page(news))).expect("commits");
    }
    assert_eq!(store.counts(), before);
    // The original goes, and leaves the others to the next; what founded them is still known.
    feed(store, log.tell("one/again", page(&text(3, 300)))).expect("commits");
    assert_eq!(standing(store, "one/again"), original(0));
    assert_eq!(standing(store, "one/nearer"), original(2));
    feed(store, log.tell("one/late", page(one))).expect("commits");
    assert_eq!(copy_of(store, "one/late"), ("one/nearer".into(), false));
    // Who has no page any more has no copies.
    feed(store, log.tell("two", no_page(News::Other))).expect("commits");
    assert_eq!(standing(store, "two"), None);
    feed(store, log.tell("two/late", page(&text(2, 300)))).expect("commits");
    assert_eq!(standing(store, "two/late"), original(0), "nobody has that text any more");
    // A change of a few words does not take the place of whoever stays.
    feed(store, log.tell("one/nearer", PageLine { depth: 1, ..page(&edited(one, 55)) }))
        .expect("commits");
    assert_eq!(standing(store, "one/nearer"), original(3));
}

#[test]
fn in_memory() {
    let disk = Disk::new();
    check(&|| MemoryKv::open(&disk, "prints"));
}

#[cfg(feature = "fjall")]
#[test]
fn on_fjall() {
    use lycosa_local::EngineSettings;
    use lycosa_local::fjall::FjallKv;

    let folder = tempfile::tempdir().expect("a folder");
    check(&|| FjallKv::open(folder.path(), EngineSettings::default()));
}

/// The rows of places as they were before SimHashes stood in them.
fn make_old(disk: &Disk) {
    const PLACES: u8 = 2;
    let mut kv = MemoryKv::open(disk, "prints").expect("nobody else has it");
    let mut batch = Batch::default();
    kv.scan(Family::Host, &[PLACES], None, &mut |key, value| {
        let families: Vec<u64> = ports::codec::decode("the families of a place", value)?;
        batch.put_value(Family::Host, key, &families);
        Ok(ControlFlow::Continue(()))
    })
    .expect("reads");
    assert!(!batch.is_empty(), "there are places");
    kv.commit(&batch, Durability::Disk).expect("commits");
}

#[test]
fn a_store_of_before_finds_the_same_copies() {
    let disk = Disk::new();
    let open = || open(&|| MemoryKv::open(&disk, "prints"));
    let mut log = Log::default();
    let texts: Vec<String> = (0..40).map(|n| text(n, 200)).collect();
    for (n, text) in texts.iter().enumerate() {
        feed(&open(), log.tell(&format!("old/{n}"), page(text))).expect("commits");
    }
    make_old(&disk);
    let store = open();
    for (n, text) in texts.iter().enumerate() {
        let (nearly, other) = (edited(text, 70), self::text(1_000 + n as u64, 200));
        feed(&store, log.tell(&format!("nearly/{n}"), page(&nearly))).expect("commits");
        feed(&store, log.tell(&format!("new/{n}"), page(&other))).expect("commits");
        assert_eq!(copy_of(&store, &format!("nearly/{n}")), (format!("old/{n}"), false));
        assert_eq!(standing(&store, &format!("new/{n}")), original(0));
    }
    assert_eq!(store.audit().expect("reads"), [""; 0]);
}

/// The logs of two shards: pages of a few families, some of them fetched again.
fn logs() -> [Vec<VisitLine>; 2] {
    let mut logs = [Log::default(), Log::default()];
    for n in 0..120_u64 {
        let log = &mut logs[(n % 2) as usize];
        let original = text(n % 7, 200);
        let text = if n % 3 == 0 { edited(&original, 50) } else { original };
        // Every fifth is a page that was told of before.
        let path = if n % 5 == 4 { n - 4 } else { n };
        log.tell(&format!("{}/{path}", n % 2), page(&text));
    }
    logs.map(|log| log.0)
}

type Verdicts = BTreeMap<String, Option<Standing>>;

fn verdicts(store: &Duplicates) -> Verdicts {
    assert_eq!(store.audit().expect("reads"), [""; 0]);
    let pages = store.pages().expect("reads");
    let standing = |url: CrawlUrl| (url.to_string(), store.standing(&url).expect("reads"));
    pages.into_iter().map(standing).collect()
}

/// Feeds both logs from where the store stands, a few lines at a time and in turns.
fn feed_all(store: &Duplicates, logs: &[Vec<VisitLine>; 2]) -> PortResult<()> {
    let mut sinks = [ShardId(0), ShardId(1)].map(|shard| store.sink(shard));
    for step in 0..20 {
        for (sink, log) in sinks.iter_mut().zip(logs) {
            sink.feed(&log[step * 3..step * 3 + 3])?;
            // Now and then everything is put on the disk.
            if step % 6 == 5 {
                sink.close()?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_death_at_any_write_doubles_nothing_and_misses_nothing() {
    let logs = logs();
    let disk = Disk::new();
    let kv = |disk: &Disk| MemoryKv::open(disk, "prints");
    let store = open(&|| kv(&disk));
    feed_all(&store, &logs).expect("commits");
    let (want, counts) = (verdicts(&store), store.counts());
    assert_eq!(counts.pages as usize, want.len());
    let writes = disk.writes();
    assert!(writes > 40, "{writes}");
    for death in 1..=writes {
        for power in [false, true] {
            let disk = Disk::new();
            disk.fail_after(death);
            let died = Duplicates::open(Box::new(kv(&disk).expect("opens")))
                .and_then(|store| feed_all(&store, &logs));
            assert!(died.is_err() && disk.is_dead(), "write {death}");
            if power {
                disk.crash(death)
            } else {
                disk.kill()
            }
            let store = open(&|| kv(&disk));
            feed_all(&store, &logs).expect("commits");
            assert_eq!((verdicts(&store), store.counts()), (want.clone(), counts), "{death}");
        }
    }
}

/// The log may be trimmed up to the cursor, so nothing before it may be needed again.
#[test]
fn what_the_cursor_has_passed_survives_a_power_loss() {
    let logs = logs();
    for seed in 0..20 {
        let disk = Disk::new();
        let store = open(&|| MemoryKv::open(&disk, "prints"));
        let mut sink = store.sink(SHARD);
        sink.feed(&logs[0][..20]).expect("commits");
        if seed % 2 == 0 {
            sink.close().expect("syncs");
        }
        sink.feed(&logs[0][20..40]).expect("commits");
        let passed = sink.cursor();
        assert_eq!(passed, if seed % 2 == 0 { 20 } else { 0 });
        disk.crash(seed);
        let store = open(&|| MemoryKv::open(&disk, "prints"));
        let now = store.sink(SHARD).cursor();
        assert!((passed..=40).contains(&now), "{now}");
        assert_eq!(store.audit().expect("reads"), [""; 0]);
    }
}
