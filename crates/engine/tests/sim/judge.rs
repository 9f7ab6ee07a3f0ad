//! At the end: were the promises kept?
//!
//! From the server's journal and from what is on the disk, not from what the crawler says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ports::shard_store::ScanCursor;
use ports::{Clock, ShardStore};
use simweb::{Entry, Rules, World, checks};
use types::record::Retirement;
use types::{Fault, State, Timestamp};

use crate::common::Machine;
use crate::remains::Witness;

/// What a seed came to, besides what is on its machine.
#[derive(Debug)]
pub struct Story<'a> {
    pub world: &'a World,
    pub seeds: &'a [String],
    /// What was seen on the disk.
    pub witness: &'a Witness,
    /// When the crawler died.
    pub deaths: &'a [Timestamp],
    /// URLs whose visit broke.
    pub broken: &'a BTreeSet<String>,
}

/// Fails if a promise was not kept. Answers how many pages were fetched again.
pub fn judge(machine: &Machine, entries: &[Entry], story: &Story<'_>) -> u64 {
    never_rude(machine, story, entries);
    let kept = nothing_lost(machine);
    if machine.archive {
        nothing_twice(story.witness, &kept);
    }
    everything_found(story, entries, &kept);
    one_verdict_each(machine, &kept);
    again(machine, story, entries, &kept)
}

fn never_rude(machine: &Machine, story: &Story<'_>, entries: &[Entry]) {
    let world = story.world;
    let delay = machine.politeness.delay.get();
    checks::assert_none(&checks::gaps(entries, |_| delay));
    checks::assert_none(&checks::crawl_delays(entries, world, "lycosa"));
    checks::assert_none(&checks::address_gaps(
        entries,
        machine.politeness.ip_delay.get(),
        machine.politeness.ip_connections as usize,
    ));
    checks::assert_none(&checks::addresses(entries, world));
    checks::assert_none(&checks::robots_obeyed(entries, world, "lycosa"));
    // Who died before the answer could be committed, or broke with it, knows nothing of it.
    let commit = 2 * machine.latency + machine.options().commit_wait + Duration::from_millis(100);
    let heard = |entry: &Entry| {
        let ended = entry.ended.unwrap_or(Timestamp::MAX);
        let died = |death: &Timestamp| ended <= *death && *death <= ended + commit;
        !story.deaths.iter().any(died) && !story.broken.contains(&entry.url())
    };
    checks::assert_none(&checks::retry_after(entries, world, heard));
}

/// What the stores say of all URLs.
#[derive(Default)]
struct Kept {
    /// How often each was answered.
    fetched: BTreeMap<String, u32>,
    /// Those that were lost so often that nobody tries them any more, and those whose host rests
    /// for longer than the crawl has patience.
    given_up: BTreeSet<String>,
    /// Those whose page has a text.
    with_text: BTreeSet<String>,
}

/// Between the moment at which a crawl finds that it is over and its end.
const SLACK: Duration = Duration::from_secs(5);

/// Nothing is lost: every accepted URL is visited, refused with a reason, or waits with one.
fn nothing_lost(machine: &Machine) -> Kept {
    let mut kept = Kept::default();
    let now = machine.clock.now();
    for n in 0..machine.shards {
        let mut store = machine.shard(n).unwrap();
        store.recover(now, machine.retry()).unwrap();
        // Once more, now with the filter of seen URLs as the next process would have it.
        assert_eq!(store.audit().unwrap(), [""; 0], "shard {n}");
        let mut cursor = ScanCursor::default();
        while !cursor.done {
            for record in store.records(&mut cursor, 1_000).unwrap() {
                if record.state == State::Queued {
                    let host = store.host(&record.url.host_key(), 0).unwrap();
                    let rests = host.as_ref().map(|row| row.state.not_before.since(now));
                    if rests.is_some_and(|rest| rest + SLACK > machine.crawl.patience.get()) {
                        kept.given_up.insert(record.url.as_str().to_owned());
                    }
                    let waits = host.is_some_and(|row| {
                        row.state.not_before > now || row.state.last_fault.is_some()
                    });
                    let robots = store.robots(&record.url.origin()).unwrap();
                    let closed = robots.is_some_and(|entry| entry.is_unreachable());
                    assert!(
                        waits || closed || record.due.is_some(),
                        "{} waits and nobody knows why: {record:?}",
                        record.url
                    );
                }
                if let State::Retired(Retirement::DeadLetter { fault: Fault::Lost, .. }) =
                    record.state
                {
                    kept.given_up.insert(record.url.as_str().to_owned());
                }
                let text = record.last.as_ref().and_then(|last| last.answer.text.as_ref());
                if text.is_some_and(|text| text.words > 0) {
                    kept.with_text.insert(record.url.as_str().to_owned());
                }
                kept.fetched.insert(record.url.as_str().to_owned(), record.fetch_count);
            }
        }
    }
    kept
}

/// Every page with a text was compared with the others: it is one's copy, or nobody's. And no other is.
fn one_verdict_each(machine: &Machine, kept: &Kept) {
    let duplicates = machine.duplicates().unwrap();
    assert_eq!(duplicates.audit().unwrap(), [""; 0]);
    let pages = duplicates.pages().unwrap();
    for url in &pages {
        assert!(duplicates.standing(url).unwrap().is_some(), "{url}");
    }
    let judged: BTreeSet<String> = pages.iter().map(ToString::to_string).collect();
    assert_eq!(judged, kept.with_text);
    let counts = duplicates.counts();
    assert!(counts.judged >= counts.pages, "{counts:?}");
}

/// Nothing is stored twice: the archive has one answer for each that the store knows of.
fn nothing_twice(witness: &Witness, kept: &Kept) {
    let mut stored: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for record in witness.archived() {
        if &*record.kind == "response" {
            *stored.entry(&record.url).or_default() += 1;
        }
        // Ids follow from the numbers of visits, so that a visit cannot hide its double.
        assert!(ids.insert(&*record.id), "{} of {} is stored twice", record.kind, record.url);
    }
    for (url, count) in &kept.fetched {
        let copies = stored.get(&**url).copied().unwrap_or(0);
        assert_eq!(copies, *count, "{url} was answered {count} times to the store");
    }
}

/// Everything that can be reached was asked for, but for what the crawler gave up, and what only that
/// leads to. A damaged body may name a page that never was; it answers 404 and does no harm.
fn everything_found(story: &Story<'_>, entries: &[Entry], kept: &Kept) {
    let never_was: BTreeSet<String> =
        entries.iter().filter(|entry| entry.status == 404).map(Entry::url).collect();
    let rules = Rules { given_up: kept.given_up.clone(), ..Rules::default() };
    let oracle = story.world.oracle(story.seeds, &rules);
    let missed: Vec<_> = checks::coverage(entries, story.world, &oracle)
        .into_iter()
        .filter(|missed| {
            !(missed.what.contains("no link leads there") && never_was.contains(&missed.about))
        })
        .collect();
    checks::assert_none(&missed);
}

/// Fetched again is allowed after a death, but only what was in flight, and what broke.
fn again(machine: &Machine, story: &Story<'_>, entries: &[Entry], kept: &Kept) -> u64 {
    let mut answered: BTreeMap<String, u32> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.aborted && entry.status != 0) {
        *answered.entry(entry.url()).or_default() += 1;
    }
    let more = |(url, count): (&String, &u32)| {
        u64::from(answered.get(url).copied().unwrap_or(0).saturating_sub(*count))
    };
    let again: u64 = kept.fetched.iter().map(more).sum();
    let most = story.deaths.len() * machine.concurrency + story.broken.len();
    assert!(again <= most as u64, "{again} fetched again, {most} were in flight at most");
    again
}
