//! Every engine does what the narrow trait says.

use std::ops::ControlFlow;

use lycosa_local::Kv;
use lycosa_local::kv::{Batch, Durability, Family};

fn all(kv: &dyn Kv, family: Family, from: &[u8], until: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let scanned = kv.scan(family, from, until, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    });
    scanned.expect("scans");
    rows
}

fn keys(kv: &dyn Kv, family: Family, from: &[u8], until: Option<&[u8]>) -> String {
    let rows = all(kv, family, from, until);
    rows.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
}

fn get(kv: &dyn Kv, family: Family, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let read = kv.get(family, key, &mut |value| {
        found = Some(value.to_vec());
        Ok(())
    });
    read.expect("reads");
    found
}

fn put(keys: &str) -> Batch {
    let mut batch = Batch::default();
    for key in keys.chars() {
        batch.put(Family::Visit, key.to_string().as_bytes(), b"value");
    }
    batch
}

fn check<K: Kv>(open: impl Fn() -> K) {
    let mut kv = open();
    let mut batch = put("acdb");
    batch.put(Family::Meta, b"a", b"");
    batch.put(Family::Url, &[0, 255, 0], &[1; 100_000]);
    kv.commit(&batch, Durability::Os).expect("commits");

    // Rows of a host, of its neighbours, and one that belongs to no host; also after a restart, when
    // they lie in files.
    let row = |host: &str, rest: u8| [b"\0\0\0\0", host.as_bytes(), &[0, rest]].concat();
    let mut batch = Batch::default();
    for host in ["test.a", "test.aa", "test.b"] {
        (0..9).for_each(|n| batch.put(Family::Queue, &row(host, n), &[n]));
    }
    batch.put(Family::Queue, b"\0\0\0", b"");
    kv.commit(&batch, Durability::Disk).expect("commits");
    for _ in 0..2 {
        let count = |from: &[u8], until: Option<&[u8]>| all(&kv, Family::Queue, from, until).len();
        assert_eq!(count(&row("test.a", 0), Some(&row("test.a", 200))), 9);
        assert_eq!(count(&row("test.a", 3), Some(&row("test.a", 7))), 4);
        assert_eq!(count(&row("test.a", 3), Some(&row("test.aa", 7))), 6 + 7);
        assert_eq!(count(&row("test.none", 0), Some(&row("test.none", 200))), 0);
        assert_eq!(count(&row("test.a", 5), None), 4 + 18);
        assert_eq!(count(b"", None), 28);
        assert_eq!(get(&kv, Family::Queue, &row("test.b", 4)).as_deref(), Some(&[4][..]));
        drop(kv);
        kv = open();
    }
    for host in ["test.a", "test.aa", "test.b"] {
        kv.delete_range(Family::Queue, &row(host, 0), &row(host, 255)).expect("deletes");
    }
    kv.delete_range(Family::Queue, b"", b"\0\0\0\x01").expect("deletes");

    // Families do not mix, order is that of bytes, ends are open.
    assert_eq!(keys(&kv, Family::Visit, b"", None), "abcd");
    assert_eq!(keys(&kv, Family::Visit, b"b", None), "bcd");
    assert_eq!(keys(&kv, Family::Visit, b"b", Some(b"d")), "bc");
    assert_eq!(keys(&kv, Family::Visit, b"aa", Some(b"c")), "b");
    assert_eq!(keys(&kv, Family::Visit, b"c", Some(b"b")), "");
    assert_eq!(keys(&kv, Family::Meta, b"", None), "a");
    assert_eq!(keys(&kv, Family::Queue, b"", None), "");
    let mut first = Vec::new();
    let scanned = kv.scan(Family::Visit, b"", None, &mut |key, _| {
        first.extend_from_slice(key);
        Ok(if first.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    scanned.expect("scans");
    assert_eq!(first, b"ab");

    assert_eq!(get(&kv, Family::Meta, b"a"), Some(Vec::new()));
    assert_eq!(get(&kv, Family::Meta, b"b"), None);
    assert_eq!(get(&kv, Family::Url, &[0, 255, 0]), Some(vec![1; 100_000]));
    let mut many = Vec::new();
    let wanted: [&[u8]; 4] = [b"", b"a", b"bb", b"d"];
    let read = kv.get_many(Family::Visit, &wanted, &mut |n, value| {
        many.push((n, value.is_some()));
        Ok(())
    });
    read.expect("reads");
    assert_eq!(many, [(0, false), (1, true), (2, false), (3, true)]);

    // Deletes and overwrites, together with puts.
    let mut batch = Batch::default();
    batch.delete(Family::Visit, b"b");
    batch.delete(Family::Visit, b"never there");
    batch.put(Family::Visit, b"c", b"new");
    kv.commit(&batch, Durability::Disk).expect("commits");
    kv.commit(&Batch::default(), Durability::Disk).expect("nothing is fine too");
    assert_eq!(keys(&kv, Family::Visit, b"", None), "acd");
    assert_eq!(get(&kv, Family::Visit, b"c"), Some(b"new".to_vec()));

    kv.commit(&put("efghij"), Durability::Os).expect("commits");
    kv.delete_range(Family::Visit, b"d", b"h").expect("trims");
    kv.delete_range(Family::Visit, b"z", b"a").expect("trims nothing");
    assert_eq!(keys(&kv, Family::Visit, b"", None), "achij");
    assert_eq!(keys(&kv, Family::Meta, b"", None), "a");
    // More than any engine does at once.
    let mut batch = Batch::default();
    for n in 0..20_000_u32 {
        batch.put(Family::Fresh, &n.to_be_bytes(), b"x");
    }
    kv.commit(&batch, Durability::Os).expect("commits");
    let (from, until) = (5_u32.to_be_bytes(), 19_990_u32.to_be_bytes());
    kv.delete_range(Family::Fresh, &from, &until).expect("trims");
    assert_eq!(all(&kv, Family::Fresh, b"", None).len(), 15);
    kv.commit(&batch, Durability::Os).expect("commits");
    assert_eq!(all(&kv, Family::Fresh, b"", None).len(), 20_000);

    assert!(kv.load_side("side", 0).expect("no side").is_none());
    kv.append_side("side", 0, b"one and more").expect("begins");
    kv.append_side("side", 3, b", two").expect("appends");
    assert!(kv.append_side("side", 9, b"!").is_err(), "a hole is no file");
    kv.sync().expect("syncs");
    assert!(kv.disk_bytes().expect("a size") > 0);
    drop(kv);

    let kv = open();
    assert_eq!(keys(&kv, Family::Visit, b"", None), "achij");
    assert_eq!(get(&kv, Family::Visit, b"c"), Some(b"new".to_vec()));
    let mut side = String::new();
    let mut file = kv.load_side("side", 2).expect("reads").expect("there");
    file.read_to_string(&mut side).expect("text");
    assert_eq!(side, "e, two");
}

#[test]
fn memory_is_such_an_engine() {
    let disk = lycosa_local::Disk::new();
    check(|| lycosa_local::MemoryKv::open(&disk, "kv").expect("opens"));
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_is_such_an_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = lycosa_local::EngineSettings::default();
    check(|| lycosa_local::fjall::FjallKv::open(folder.path(), limits).expect("opens"));
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_is_such_an_engine() {
    use lycosa_local::rocks::{RocksKv, RocksShared};
    let folder = tempfile::tempdir().expect("a folder");
    let shared = RocksShared::new(lycosa_local::EngineSettings::default());
    check(|| RocksKv::open(folder.path(), &shared).expect("opens"));
}
