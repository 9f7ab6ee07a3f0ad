//! What others keep with us stays as they left it, whatever the engine.

use lycosa_local::{Disk, Foreign, Kv, MemoryKv};
use ports::foreign_store::{
    FirstWant, ForeignBatch, ForeignChange, ForeignCursor, ForeignSettings, ForeignUrl, QueueName,
    QueueState, Space,
};
use ports::{ForeignStore as _, PortResult};

const CRAWL: Space = Space(1);

fn queue(key: &str) -> QueueName {
    QueueName { space: CRAWL, key: key.into() }
}

fn url(text: &str, due: Option<u64>) -> ForeignUrl {
    let metadata = vec![("m".into(), vec!["1".into(), "2".into()])];
    ForeignUrl { url: text.into(), metadata, created: 7, due, held_until: 0 }
}

fn change(key: &str, old: Option<u64>, new: Option<ForeignUrl>, text: &str) -> ForeignChange {
    ForeignChange { queue: queue(key), place: old, new, url: text.into() }
}

fn settings() -> ForeignSettings {
    let crawls = vec![("crawl".into(), CRAWL)];
    ForeignSettings { crawls, last_space: CRAWL, ..ForeignSettings::default() }
}

fn fill(store: &mut Foreign) {
    let state = |active| QueueState { active, ..QueueState::default() };
    let new = |key, text, due| change(key, None, Some(url(text, due)), text);
    let batch = ForeignBatch {
        urls: vec![
            new("a", "u3", Some(30)),
            new("a", "u2", Some(20)),
            new("a", "u1", Some(20)),
            new("a", "done", None),
            new("a\0", "u1", Some(10)),
            new("b", "u1", Some(5)),
        ],
        queues: vec![(queue("a"), state(3)), (queue("a\0"), state(1)), (queue("b"), state(1))],
        settings: Some(settings()),
        durable: true,
    };
    store.commit(&batch).expect("commits");
}

fn texts(store: &mut Foreign, key: &str, now: u64, limit: usize) -> Vec<String> {
    let want = FirstWant { queue: queue(key), now, limit };
    let first = store.first(&[want]).expect("reads").remove(0);
    first.urls.iter().map(|url| url.url.to_string()).collect()
}

fn queues(store: &mut Foreign) -> Vec<(String, u64, Option<u64>)> {
    let mut all = Vec::new();
    let each = &mut |name: QueueName, state: QueueState, first| {
        all.push((name.key.to_string(), state.active, first));
    };
    store.each_queue(each).expect("reads");
    all
}

/// All promises, over a state that can be opened again and again.
fn check<K: Kv + 'static>(open: impl Fn() -> PortResult<K>) {
    let open = || Foreign::open(Box::new(open().expect("nobody else has it"))).expect("opens");
    fill(&mut open());

    let mut store = open();
    assert_eq!(store.settings().expect("reads"), settings());
    let all = [("a", 3, 20), ("a\0", 1, 10), ("b", 1, 5)];
    let all = all.map(|(key, active, first)| (key.to_owned(), active, Some(first)));
    assert_eq!(queues(&mut store), all);
    // By moment, then by text; no further than asked, and no later than now.
    assert_eq!(texts(&mut store, "a", 30, 9), ["u1", "u2", "u3"]);
    assert_eq!(texts(&mut store, "a", 29, 9), ["u1", "u2"]);
    assert_eq!(texts(&mut store, "a", 30, 1), ["u1"]);
    assert!(texts(&mut store, "none", 30, 9).is_empty());
    let want = FirstWant { queue: queue("a"), now: 25, limit: 2 };
    assert_eq!(store.first(&[want]).expect("reads")[0].next, Some(30));
    let (a, none) = (queue("a"), queue("none"));
    let found = store.find(&[(&a, "done"), (&none, "u1"), (&a, "u1"), (&a, "u1")]);
    let found = found.expect("reads");
    assert_eq!(found[0], Some(url("done", None)));
    assert_eq!((&found[1], &found[2]), (&None, &found[3]));
    assert_eq!(found[2], Some(url("u1", Some(20))));

    // Somebody holds it: it stands where that ends.
    let held = ForeignUrl { held_until: 99, ..url("u1", Some(20)) };
    let urls = vec![change("a", Some(20), Some(held), "u1"), change("a", Some(20), None, "u2")];
    store.commit(&ForeignBatch { urls, ..ForeignBatch::default() }).expect("commits");
    drop(store);
    let mut store = open();
    assert_eq!(texts(&mut store, "a", 98, 9), ["u3"]);
    assert_eq!(texts(&mut store, "a", 99, 9), ["u3", "u1"]);

    // A walk goes over all, in pieces of any size.
    for limit in [1, 2, 100] {
        let mut cursor = ForeignCursor::default();
        let mut met = Vec::new();
        while !cursor.done {
            met.extend(store.urls(CRAWL, None, &mut cursor, limit).expect("reads"));
        }
        assert_eq!(met.len(), 5);
        let mut cursor = ForeignCursor::default();
        let of_a = store.urls(CRAWL, Some("a"), &mut cursor, 100).expect("reads");
        assert_eq!(of_a.len(), 3);
    }

    store.forget(CRAWL, Some("a")).expect("forgets");
    drop(store);
    let mut store = open();
    assert_eq!(queues(&mut store), all[1..]);
    assert!(texts(&mut store, "a", 999, 9).is_empty());
    assert_eq!(texts(&mut store, "a\0", 999, 9), ["u1"]);

    store.forget(CRAWL, None).expect("forgets");
    drop(store);
    let mut store = open();
    assert!(queues(&mut store).is_empty());
    assert!(store.settings().expect("reads").crawls.is_empty());
    assert_eq!(store.settings().expect("reads").last_space, CRAWL, "no number is used again");
}

#[test]
fn the_memory_engine_keeps_foreign_queues() {
    let disk = Disk::new();
    check(|| MemoryKv::open(&disk, "foreign"));
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_keeps_foreign_queues() {
    use lycosa_local::{EngineSettings, fjall::FjallKv};
    let folder = tempfile::tempdir().expect("there is room");
    check(|| FjallKv::open(folder.path(), EngineSettings::default()));
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_keeps_foreign_queues() {
    use lycosa_local::{EngineSettings, rocks::RocksKv, rocks::RocksShared};
    let folder = tempfile::tempdir().expect("there is room");
    let shared = RocksShared::new(EngineSettings::default());
    check(|| RocksKv::open(folder.path(), &shared));
}

/// What is left of a queue, or of a crawl, that was to go when the process died is gone after the
/// next open.
#[test]
fn a_deletion_that_was_cut_short_is_finished() {
    let disk = Disk::new();
    let kv = || Box::new(MemoryKv::open(&disk, "foreign").expect("free"));
    let open = || Foreign::open(kv()).expect("opens");
    fill(&mut open());
    // The crawl has lost its name, and nothing else has happened.
    let nameless = ForeignSettings { crawls: Vec::new(), ..settings() };
    let batch = ForeignBatch { settings: Some(nameless), ..ForeignBatch::default() };
    open().commit(&batch).expect("commits");
    let mut store = open();
    assert!(queues(&mut store).is_empty());
    assert!(texts(&mut store, "a", 999, 9).is_empty());
    let mut cursor = ForeignCursor::default();
    assert!(store.urls(CRAWL, None, &mut cursor, 9).expect("reads").is_empty());
}
