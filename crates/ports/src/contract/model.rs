//! Random sequences of operations, beside a model that is too simple to be wrong.
//!
//! The model is a map of records and what stands in which queue. A sequence works on a small world
//! of URLs, so that the same ones meet again and again, and ends with a kill or a close. The seed
//! is in the message of a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::outcome::{Answer, Failure, Fault};
use types::{HostKey, HostState, Outcome, QueueKey, Record, Refusal, ShardId, State, Task};

use super::Reopen;
use super::book::{Model, count_new, nearest};
use super::kit::*;
use crate::shard_store::{
    Arrival, CommitBatch, Counts, Found, FoundSet, LetterBody, RefillWant, Rejudge, ScanCursor,
    ShardStore, VisitCommit,
};

/// Operations of one sequence.
const STEPS: u64 = 25;
/// Sequences that go on with one state, so that it becomes old.
const SEQUENCES_IN_A_ROW: u64 = 20;

pub(super) fn random_operations<R: Reopen>(make: impl Fn() -> R) {
    for first in (0..make().sequences()).step_by(SEQUENCES_IN_A_ROW as usize) {
        let mut state = make();
        let mut run = Run { model: Model::default(), dice: Dice(0), next: 0, now: 10 };
        let mut store = run.reopen(&mut state);
        for seed in first..first + SEQUENCES_IN_A_ROW {
            let guard = Blame(seed);
            run.dice = Dice(seed);
            run.sequence(&state, &mut store);
            drop(store);
            store = run.reopen(&mut state);
            run.check_all(&mut store);
            std::mem::forget(guard);
        }
    }
}

/// Names the seed when a check panics.
struct Blame(u64);

impl Drop for Blame {
    fn drop(&mut self) {
        eprintln!("contract: the sequence with seed {} failed", self.0);
    }
}

struct Run {
    model: Model,
    dice: Dice,
    next: u64,
    now: u64,
}

impl Run {
    fn reopen<R: Reopen>(&mut self, state: &mut R) -> R::Store {
        let mut store = state.open().unwrap();
        let recovery = store.recover(at(self.now), POLICY).unwrap();
        let lost: BTreeSet<_> = recovery.lost.iter().map(|grant| grant.visit.count()).collect();
        assert_eq!(lost, self.model.granted.keys().copied().collect());
        for (number, task) in std::mem::take(&mut self.model.granted) {
            self.model.settled.push(number);
            let record = self.model.records.get_mut(&task.record.url).unwrap();
            if record.state != State::Queued {
                continue;
            }
            record.settle(visit_id(number), &failed(Fault::Lost, 0), at(self.now), POLICY);
            if record.state != State::Queued {
                self.model.leave(&task.record.url, task.key);
            }
        }
        assert!(recovery.next_visit >= self.next);
        self.next = recovery.next_visit;
        store
    }

    fn sequence<R: Reopen>(&mut self, state: &R, store: &mut R::Store) {
        for _ in 0..STEPS {
            self.step(store);
            self.check_counts(store);
        }
        self.check_all(store);
        check_audit(state, store);
        if self.dice.one_in(3) {
            store.close().unwrap();
        }
    }

    fn step(&mut self, store: &mut impl ShardStore) {
        self.now += self.dice.below(20);
        match self.dice.below(12) {
            0..=2 => self.arrive(store),
            3..=6 => self.visit(store),
            7 => self.repeat(store),
            8 => self.wake(store),
            9 => self.rejudge(store),
            10 => self.grant(store),
            _ => self.read(store),
        }
    }

    fn offers(&mut self) -> Vec<(String, Found<'static>)> {
        let count = self.dice.below(6);
        (0..count).map(|_| self.offer()).collect()
    }

    fn offer(&mut self) -> (String, Found<'static>) {
        let hosts = ["a.test", "www.a.test", "b.test", "c.org"];
        let name = hosts[self.dice.below(4) as usize];
        let text = format!("http://{name}/{}", self.dice.below(30));
        let dice = &mut self.dice;
        let found = Found {
            depth: dice.below(5) as u16,
            hops: dice.below(3) as u8,
            band: dice.below(3) as u8,
            seed: dice.one_in(10),
            ..found("")
        };
        (text, found)
    }

    fn arrive(&mut self, store: &mut impl ShardStore) {
        let offers = self.offers();
        let letter = self.dice.one_in(2).then(|| self.model.mark + self.dice.below(3));
        let fresh = letter.is_none_or(|seq| seq > self.model.mark);
        let arrival = Arrival {
            letter: letter.map(|seq| (ShardId(5), seq)),
            links: as_set(&offers),
            robots: None,
        };
        let batch = CommitBatch {
            at: at(self.now),
            arrivals: vec![arrival],
            durable: self.dice.one_in(4),
            ..CommitBatch::default()
        };
        let committed = store.commit(batch).unwrap();
        if !fresh {
            assert!(committed.accepted.is_empty() && committed.known == 0);
            return;
        }
        self.model.mark = letter.unwrap_or(self.model.mark);
        let want = self.model.offer(&offers, at(self.now));
        self.model.enqueue(&committed.accepted, &want);
        assert_eq!(committed.known as usize, offers.len() - count_new(&want));
    }

    /// Settles a granted visit, or one without a grant, as refusals are.
    fn visit(&mut self, store: &mut impl ShardStore) {
        let granted = self.model.granted.pop_first();
        let Some((number, task)) = granted.or_else(|| Some((self.next, self.pick(store)?))) else {
            return;
        };
        self.next = self.next.max(number + 1);
        let mut record = task.record.clone();
        if self.dice.one_in(8) {
            // Not now, and no reason to wait: it stays where it is.
        } else {
            let outcome = self.outcome();
            record.settle(visit_id(number), &outcome, at(self.now), POLICY);
        }
        let offers = self.offers();
        let host_state = HostState { requests: number, ..HostState::default() };
        let letters = (0..self.dice.below(3)).map(|n| {
            let body = LetterBody::Links(links(&[&format!("http://z.test/{n}")]));
            (ShardId(7), body)
        });
        let letters: Vec<_> = letters.collect();
        let sent = letters.len();
        let commit = VisitCommit {
            host_state: host_state.clone(),
            links: as_set(&offers),
            letters,
            ..visited(number, &task, State::Queued)
        };
        let mut commit = commit;
        commit.url.as_mut().unwrap().record = record.clone();
        let batch = CommitBatch {
            at: at(self.now),
            visits: vec![commit],
            durable: self.dice.one_in(4),
            ..CommitBatch::default()
        };
        let committed = store.commit(batch).unwrap();

        let model = &mut self.model;
        model.settled.push(number);
        model.hosts.insert(task.record.url.host_key(), host_state);
        let before = &model.records[&record.url];
        record.found = nearest(before.found, record.found);
        if record.state != State::Queued || record.due.is_some() {
            model.leave(&record.url, task.key);
        }
        let visited = record.url.clone();
        model.records.insert(visited.clone(), record);
        // Visited URLs come before found ones.
        let mut offers = offers;
        offers.sort_by_key(|(text, _)| text != visited.as_str());
        let want = model.offer(&offers, at(self.now));
        model.enqueue(&committed.accepted, &want);
        let letters = store.letters(ShardId(7), model.letters.last().copied().unwrap_or(0), 99);
        let seqs: Vec<_> = letters.unwrap().iter().map(|letter| letter.seq).collect();
        assert_eq!(seqs.len(), sent);
        model.letters.extend(seqs);
    }

    fn outcome(&mut self) -> Outcome {
        let setting = Refusal::Setting { key: "k".into(), value: "v".into(), found: "f".into() };
        let answer = |status| Answer { status, ..Answer::default() };
        match self.dice.below(7) {
            0 | 1 => Outcome::Fetched(answer(200)),
            2 => Outcome::Fetched(answer(404)),
            3 => Outcome::Refused(setting),
            4 => Outcome::Refused(Refusal::Robots { rule: "r".into(), line: 1 }),
            5 => failed(Fault::Status(503), self.dice.below(60)),
            _ => failed(Fault::Status(501), 0),
        }
    }

    /// The first of a random host's queue that is not in flight.
    fn pick(&mut self, store: &mut impl ShardStore) -> Option<Task> {
        let hosts: Vec<_> = self.model.queues.keys().cloned().collect();
        if hosts.is_empty() {
            return None;
        }
        let host = HostKey::from_reversed(&hosts[self.dice.below(hosts.len() as u64) as usize]);
        let tasks = queue(store, host.as_str());
        let flying: BTreeSet<_> = self.model.granted.values().map(|task| task.key).collect();
        tasks.into_iter().find(|task| !flying.contains(&task.key))
    }

    fn grant(&mut self, store: &mut impl ShardStore) {
        if let Some(task) = self.pick(store) {
            store.grant(&[grant_of(self.next, &task)]).unwrap();
            self.model.granted.insert(self.next, task);
            self.next += 1;
        }
    }

    fn repeat(&mut self, store: &mut impl ShardStore) {
        let settled = &self.model.settled;
        let Some(task) = self.pick_any() else { return };
        if let Some(&number) = settled.get(self.dice.below(settled.len().max(1) as u64) as usize) {
            let mut commit = visited(number, &task, State::Parsed);
            commit.links = links(&["http://never.test/"]);
            let committed = store.commit(settle(vec![commit])).unwrap();
            assert!(committed.accepted.is_empty() && committed.known == 0);
        }
    }

    fn pick_any(&self) -> Option<Task> {
        let (url, record) = self.model.records.first_key_value()?;
        Some(Task { key: QueueKey::MIN, id: url.id(), record: record.clone() })
    }

    fn wake(&mut self, store: &mut impl ShardStore) {
        let limit = self.dice.below(4) as usize;
        let now = at(self.now);
        let woken = store.wake(now, limit).unwrap();
        let due = self.model.records.values().filter(|record| record.due.is_some());
        let ready = due.clone().filter(|record| record.due <= Some(now)).count();
        assert_eq!(woken.tasks.len(), ready.min(limit));
        for task in &woken.tasks {
            let record = self.model.records.get_mut(&task.record.url).unwrap();
            assert!(record.due.take() <= Some(now));
            record.state = State::Queued;
            assert_eq!(task.record, *record);
        }
        let want = woken.tasks.iter().map(|task| (task.record.url.clone(), false)).collect();
        self.model.enqueue(&woken.tasks, &want);
        let next = self.model.records.values().filter_map(|record| record.due).min();
        assert_eq!(woken.next_due, next);
    }

    fn rejudge(&mut self, store: &mut impl ShardStore) {
        let which = Rejudge { settings: self.dice.one_in(2), robots: self.dice.one_in(2) };
        let mut cursor = ScanCursor::default();
        let step = 1 + self.dice.below(40) as usize;
        let mut count = 0;
        while !cursor.done {
            let judge = &mut |record: &Record| which.judge(record);
            count += store.revise(&mut cursor, step, judge).unwrap().changed;
        }
        let mut again = BTreeSet::new();
        for record in self.model.records.values_mut() {
            let open = match record.state {
                State::Blocked(Refusal::Robots { .. }) => which.robots,
                State::Blocked(_) => which.settings,
                _ => false,
            };
            if open {
                record.state = State::Queued;
                again.insert(record.url.clone());
            }
        }
        assert_eq!(count, again.len() as u64);
        // Their places are the new ones in the queues, in the order of the scan.
        let mut tasks: Vec<_> = again
            .iter()
            .map(|url| {
                let tasks = queue(store, url.host());
                tasks.into_iter().find(|task| task.record.url == *url).unwrap()
            })
            .collect();
        tasks.sort_by_key(|task| task.key.seq);
        let want = tasks.iter().map(|task| (task.record.url.clone(), false)).collect();
        self.model.enqueue(&tasks, &want);
    }

    fn read(&mut self, store: &mut impl ShardStore) {
        let (text, _) = self.offer();
        let url = url(&text);
        assert_eq!(store.record(&url).unwrap().as_ref(), self.model.records.get(&url));
        let host = url.host_key();
        let empty = BTreeMap::new();
        let places = self.model.queues.get(&host.reversed()).unwrap_or(&empty);
        let nth = self.dice.below(places.len() as u64 + 1) as usize;
        let after = places.keys().nth(nth).copied();
        let limit = self.dice.below(5) as usize;
        let want = RefillWant { host: host.clone(), after, limit, state: true };
        let filled = store.refill(&[want]).unwrap().remove(0);
        let beyond: Vec<_> =
            places.iter().filter(|(key, _)| after.is_none_or(|after| **key > after)).collect();
        let got: Vec<_> = filled.tasks.iter().map(|task| (&task.key, &task.record.url)).collect();
        assert_eq!(got, beyond[..limit.min(beyond.len())]);
        assert_eq!(filled.more, beyond.len() > limit);
        let state = self.model.hosts.get(&host).cloned().unwrap_or_default();
        assert_eq!(filled.state.unwrap().host, state);
        if self.dice.one_in(3)
            && let Some(&upto) = self.model.letters.first()
        {
            store.delivered(ShardId(7), upto).unwrap();
            self.model.letters.remove(0);
        }
    }

    fn check_counts(&self, store: &impl ShardStore) {
        let model = &self.model;
        let counts = Counts {
            known: model.records.len() as u64,
            queued: model.queues.values().map(|queue| queue.len() as u64).sum(),
            scheduled: model.records.values().filter(|r| r.due.is_some()).count() as u64,
        };
        assert_eq!(store.counts(), counts);
    }

    fn check_all(&self, store: &mut impl ShardStore) {
        let mut cursor = ScanCursor::default();
        let records = store.records(&mut cursor, usize::MAX).unwrap();
        assert_eq!(records.len(), self.model.records.len());
        for record in &records {
            assert_eq!(Some(record), self.model.records.get(&record.url));
        }
        assert_eq!(store.seeds(0, usize::MAX).unwrap(), self.model.seeds);
        let rows = store.hosts(None, 100).unwrap();
        let hosts: Vec<_> = rows.iter().map(|row| row.host.reversed()).collect();
        assert_eq!(hosts, self.model.queues.keys().cloned().collect::<Vec<_>>());
        for waiting in rows {
            let row = store.host(&waiting.host, u64::MAX).unwrap().unwrap();
            assert_eq!(row.best_band, waiting.best_band);
            let places = &self.model.queues[&row.host.reversed()];
            let tasks = queue(store, row.host.as_str());
            assert!(tasks.iter().map(|task| (&task.key, &task.record.url)).eq(places));
            assert_eq!(row.waiting, places.len() as u64);
            assert_eq!(Some(row.best_band), places.keys().next().map(|key| key.band));
            let state = self.model.hosts.get(&row.host).cloned().unwrap_or_default();
            assert_eq!(row.state, state);
        }
        let letters = store.letters(ShardId(7), 0, usize::MAX).unwrap();
        assert_eq!(letters.iter().map(|l| l.seq).collect::<Vec<_>>(), self.model.letters);
        assert_eq!(store.visits(0, 10).unwrap().len(), self.model.log.len());
    }
}

fn as_set(offers: &[(String, Found<'_>)]) -> FoundSet {
    set(offers.iter().map(|(text, offer)| Found {
        url: text,
        id: types::UrlId::of(text),
        ..*offer
    }))
}

fn failed(fault: Fault, wait_secs: u64) -> Outcome {
    let retry_after = Some(Duration::from_secs(wait_secs));
    Outcome::Failed(Failure { fault, retry_after, answer: None })
}

/// Splitmix64: the same throws everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
