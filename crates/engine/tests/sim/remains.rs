//! What is left on the disk when the crawler is dead, and does it fit what the servers saw?
//!
//! Asked after every death and at the end, of the disk itself, before anything is recovered:
//!
//! - the shards agree with themselves, and the archive is readable to its last whole record;
//! - every visit that the store knows is in the archive, whole, at the place it names;
//! - every request that reached a server is committed, or its grant is noted;
//! - every link of a committed page to another shard is a record there, or a letter on its way;
//! - nothing is requested that was done with before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use local::kv::Family;
use local::{Kv, MemoryKv, Shard};
use ports::shard_store::{Grant, LetterBody, VisitLine};
use ports::{ShardStore, codec};
use simweb::truth::Course;
use simweb::{Entry, Place, Truth, World, checks};
use types::{CrawlUrl, HostKey, ShardId, UrlId};

use crate::common::Machine;

/// What was seen at the deaths so far.
#[derive(Debug, Default)]
pub struct Witness {
    /// Requests that each host had seen when this life began.
    before: BTreeMap<Arc<str>, usize>,
    /// URLs with a committed answer that settles them.
    done: BTreeSet<String>,
    /// By shard and serial number.
    files: BTreeMap<(u16, u32), File>,
    /// The last line of each shard's log that was looked at.
    lines: BTreeMap<u16, u64>,
}

/// How much of what the process wrote must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All that reached the operating system.
    All,
    /// All that was synced, and some more.
    Synced,
}

impl Witness {
    pub fn look(
        &mut self,
        machine: &Machine,
        world: &World,
        broken: &BTreeSet<String>,
        left: Left,
    ) {
        let entries = machine.journal.entries();
        let mut hosts: BTreeMap<Arc<str>, Vec<&Entry>> = BTreeMap::new();
        for entry in &entries {
            hosts.entry(Arc::clone(&entry.host)).or_default().push(entry);
        }
        let life: BTreeMap<&str, &[&Entry]> = hosts
            .iter()
            .map(|(host, entries)| {
                let before = self.before.get(host).copied().unwrap_or(0);
                (&**host, &entries[before..])
            })
            .filter(|(_, entries)| !entries.is_empty())
            .collect();
        self.nothing_again(&life, world, broken);
        let begun = (0..machine.shards).filter(|n| has_begun(machine, *n));
        let mut shards: Shards = begun.map(|n| (n, machine.shard(n).unwrap())).collect();
        let mut owed = Vec::new();
        let mut homes = Homes { shards: machine.shards, known: BTreeMap::new() };
        for (n, shard) in &mut shards {
            let lines = self.look_at_shard(machine, *n, shard);
            for line in &lines {
                owed.append(&mut links_away(line, world, *n, &mut homes));
            }
            self.done.extend(lines.iter().filter(|l| settles(l, world)).map(|l| l.url.to_string()));
            if left == Left::All {
                all_noted(machine, world, *n, shard, &life);
            }
        }
        no_link_lost(&mut shards, &owed);
        self.before = hosts.into_iter().map(|(host, entries)| (host, entries.len())).collect();
    }

    fn nothing_again(
        &self,
        life: &BTreeMap<&str, &[&Entry]>,
        world: &World,
        broken: &BTreeSet<String>,
    ) {
        let entries: Vec<Entry> =
            life.values().flat_map(|all| all.iter().copied().cloned()).collect();
        let again = entries.iter().map(Entry::url).find(|url| self.done.contains(url));
        assert!(again.is_none(), "{again:?} was done with in an earlier life, and is asked again");
        let mut twice = checks::duplicates(&entries, world);
        twice.retain(|violation| !broken.contains(&violation.about));
        checks::assert_none(&twice);
    }

    /// The lines of its log that are new.
    fn look_at_shard(
        &mut self,
        machine: &Machine,
        n: u16,
        shard: &mut Shard<MemoryKv>,
    ) -> Vec<VisitLine> {
        assert_eq!(shard.audit().unwrap(), [""; 0], "shard {n}");
        let after = self.lines.get(&n).copied().unwrap_or(0);
        let lines = shard.visits(after, usize::MAX).unwrap();
        if machine.archive {
            self.archive_has(machine, n, &lines);
        }
        self.lines.insert(n, lines.last().map_or(after, |line| line.seq));
        lines
    }

    /// The archive can be read to its last whole record, and every visit of the log lies in it
    /// where its line says.
    fn archive_has(&mut self, machine: &Machine, n: u16, lines: &[VisitLine]) {
        let folder = format!("archive-{n}");
        let serials = machine.disk.files(&folder);
        // One that the store has never known is cut.
        self.files.retain(|(shard, serial), file| {
            let is_there = *shard != n || serials.contains(serial);
            assert!(is_there || file.known == 0, "file {serial} of shard {n} is gone");
            is_there
        });
        for serial in serials {
            let bytes = machine.disk.file(&folder, serial).unwrap();
            let file = self.files.entry((n, serial)).or_default();
            if let Err(what) = file.read_on(&bytes) {
                panic!("file {serial} of shard {n}: {what}");
            }
        }
        for line in lines {
            let place = line.warc.expect("everything is archived here");
            let file = self.files.entry((n, place.file)).or_default();
            let Some(record) = file.records.get(&place.offset) else {
                panic!("{} is not archived: {place:?}", line.url);
            };
            let found = (&*record.kind, &*record.url, record.end);
            assert_eq!(found, ("response", line.url.as_str(), place.offset + place.length));
            file.known = file.known.max(record.end);
        }
    }

    /// Every record that the archives hold, as of the last look.
    pub fn archived(&self) -> impl Iterator<Item = &Archived> {
        self.files.values().flat_map(|file| file.records.values())
    }
}

type Shards = BTreeMap<u16, Shard<MemoryKv>>;

/// Every request of this life that reached a server is committed, or its grant is noted.
fn all_noted(
    machine: &Machine,
    world: &World,
    n: u16,
    shard: &mut Shard<MemoryKv>,
    life: &BTreeMap<&str, &[&Entry]>,
) {
    let grants = grants(shard);
    for (host, entries) in life {
        let key = HostKey::new(host);
        if key.site().shard(machine.shards).0 != n {
            continue;
        }
        let last = entries[entries.len() - 1];
        let row = shard.host(&key, 0).unwrap();
        // A host's next request comes a second after the end of the last; what lies closer
        // belongs together, though the way between client and server takes its time.
        let ended = row.map(|row| row.state.last_end + machine.latency);
        let committed = ended.is_some_and(|ended| ended >= last.arrived);
        let place = place_of(last);
        let is_robots = last.is_robots() || world.is_robots_hop(&place);
        let id = (!is_robots).then(|| UrlId::of(&last.url()));
        let granted = grants.iter().any(|grant| grant.host == key && grant.url == id);
        assert!(
            committed || granted,
            "{place} was requested at {}, and the disk knows neither of its visit nor of its grant",
            last.arrived.rfc3339_millis()
        );
    }
}

/// A link to another shard.
struct Owed {
    from: u16,
    to: u16,
    url: String,
}

/// Where a committed page leads, beyond its own shard.
fn links_away(line: &VisitLine, world: &World, from: u16, homes: &mut Homes) -> Vec<Owed> {
    let place = Place::parse(line.url.as_str()).unwrap();
    if homes.shards == 1 || line.status != 200 || place.target == "/robots.txt" {
        return Vec::new();
    }
    let Course::Answers { links, .. } = world.course(&place) else { return Vec::new() };
    let followed = links.into_iter().filter(|link| link.certain && !link.nofollow);
    let owed = followed.map(|link| {
        let to = homes.of(&link.to.host);
        (to != from).then(|| Owed { from, to, url: link.to.to_string() })
    });
    owed.flatten().collect()
}

/// Which shard a host belongs to; to find out takes longer than all else here.
struct Homes {
    shards: u16,
    known: BTreeMap<String, u16>,
}

impl Homes {
    fn of(&mut self, host: &str) -> u16 {
        if let Some(home) = self.known.get(host) {
            return *home;
        }
        let home = HostKey::new(host).site().shard(self.shards).0;
        self.known.insert(host.to_owned(), home);
        home
    }
}

fn no_link_lost(shards: &mut Shards, owed: &[Owed]) {
    let mut letters: BTreeMap<(u16, u16), BTreeSet<String>> = BTreeMap::new();
    for Owed { from, to, url } in owed {
        let known = shards
            .get_mut(to)
            .and_then(|shard| shard.record(&CrawlUrl::from_canonical(url).unwrap()).unwrap());
        if known.is_some() {
            continue;
        }
        let on_their_way = letters.entry((*from, *to)).or_insert_with(|| {
            let letters = shards
                .get_mut(from)
                .map(|shard| shard.letters(ShardId(*to), 0, usize::MAX).unwrap());
            letters.into_iter().flatten().flat_map(|letter| urls_of(&letter.body)).collect()
        });
        assert!(on_their_way.contains(url), "the link from {from} to {url} in {to} is lost");
    }
}

fn urls_of(letter: &LetterBody) -> Vec<String> {
    match letter {
        LetterBody::Links(links) => links.iter().map(|found| found.url.to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// An archive file, as somebody else would read it.
#[derive(Debug, Default)]
struct File {
    /// The store knows it up to here: this much never changes and is read once.
    known: u64,
    /// By their place.
    records: BTreeMap<u64, Archived>,
}

#[derive(Debug)]
pub struct Archived {
    pub kind: Box<str>,
    pub url: Box<str>,
    pub id: Box<str>,
    end: u64,
}

impl File {
    fn read_on(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(rest) = bytes.get(self.known as usize..) else {
            return Err(format!("ends at {}, and the store knew {}", bytes.len(), self.known));
        };
        self.records.split_off(&self.known);
        let mut reader = warc::Reader::at(rest, self.known);
        loop {
            // Its end, or where the process died in mid-write; what came before is whole.
            let Ok(Some(header)) = reader.next_record() else { return Ok(()) };
            let field = |name| header.fields.get(name).unwrap_or_default().into();
            let [kind, url, id] = ["WARC-Type", "WARC-Target-URI", "WARC-Record-ID"].map(field);
            let Ok(Some(extent)) = reader.finish() else { return Ok(()) };
            let Some(length) = extent.length else {
                return Err(format!("the record at {} shares its member", extent.offset));
            };
            let end = extent.offset + length;
            self.records.insert(extent.offset, Archived { kind, url, id, end });
        }
    }
}

/// Whether a process has lived long enough to leave anything. Opening it would begin it.
fn has_begun(machine: &Machine, n: u16) -> bool {
    let kv = MemoryKv::open(&machine.disk, &format!("state-{n}")).unwrap();
    let mut any = false;
    kv.scan(Family::Meta, &[], None, &mut |_, _| {
        any = true;
        Ok(ControlFlow::Break(()))
    })
    .unwrap();
    any
}

fn grants(shard: &Shard<MemoryKv>) -> Vec<Grant> {
    let mut grants = Vec::new();
    let each = &mut |_: &[u8], value: &[u8]| {
        grants.push(codec::decode("a grant", value)?);
        Ok(ControlFlow::Continue(()))
    };
    shard.kv().scan(Family::Grant, &[], None, each).unwrap();
    grants
}

/// Whether nobody has a reason to ask for this URL again.
fn settles(line: &VisitLine, world: &World) -> bool {
    let place = Place::parse(line.url.as_str()).unwrap();
    !matches!(line.status, 408 | 429 | 500..)
        && place.target != "/robots.txt"
        && !world.is_robots_hop(&place)
}

fn place_of(entry: &Entry) -> Place {
    let (tls, port) = (entry.tls, entry.port);
    Place { tls, host: entry.host.to_string(), port, target: entry.path.to_string() }
}
