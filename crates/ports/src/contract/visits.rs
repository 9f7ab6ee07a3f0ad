//! Promises about visits: settled once, as a whole, or lost and counted as that.

use std::time::Duration;

use types::outcome::{Answer, Failure, Fault};
use types::record::Retirement;
use types::{
    HostRule, HostState, News, Origin, Outcome, PageLine, QueueKey, Scheme, ShardId, Site,
    SiteState, State, TextFacts, WarcRef,
};

use super::kit::*;
use super::{Case, Reopen};
use crate::archive::ArchiveEnd;
use crate::robots_entry::{RobotsAccess, RobotsEntry};
use crate::shard_store::{
    CommitBatch, Counts, Grant, LetterBody, RefillWant, ShardStore, Tally, VisitLine,
};

pub(super) fn cases<R: Reopen>() -> Vec<Case<R>> {
    vec![
        ("a visit writes everything at once", a_visit_writes_everything),
        ("what becomes of a place in the queue", what_becomes_of_a_place),
        ("a failed URL waits until it is due", a_failed_url_waits),
        ("a repeated visit changes nothing", a_repeated_visit_changes_nothing),
        ("no visit number is used twice", no_visit_number_is_used_twice),
        ("a lost lease is settled on open", a_lost_lease_is_settled),
        ("a URL that kills its visits is buried", a_deadly_url_is_buried),
        ("a wrong place does not spoil the counts", a_wrong_place_is_harmless),
        ("the newest moment is remembered", the_newest_moment_is_remembered),
        ("what was said of a host is kept until something else is said", a_rule_is_kept),
        ("a shard that was closed opens as it was", a_closed_shard_opens_as_it_was),
    ]
}

fn entry(text: &str) -> RobotsEntry {
    RobotsEntry {
        access: RobotsAccess::Rules { text: text.as_bytes().into(), read_at: at(1) },
        checked_at: at(1),
        expires_at: at(86_400),
        failures: 0,
        trouble: None,
    }
}

fn a_visit_writes_everything<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://www.a.test/", "http://www.a.test/2"]);
    store.grant(&[grant_of(next, &tasks[0])]).unwrap();
    let origin = |scheme, port| Origin { scheme, host: host("www.a.test"), port };
    let (plain, secure) = (origin(Scheme::Http, 80), origin(Scheme::Https, 443));
    let host_state = HostState { pages: 1, last_end: at(2), ..HostState::default() };
    let warc = WarcRef { file: 3, offset: 10, length: 20 };
    let mut commit = visited(next, &tasks[0], State::Parsed);
    commit.host_state = host_state.clone();
    commit.site = Some((Site::of("a.test"), SiteState { pages: 9 }));
    commit.robots = Some((plain.clone(), entry("User-agent: *")));
    commit.links = links(&["http://b.test/", "http://www.a.test/2"]);
    commit.letters = vec![(ShardId(3), LetterBody::Links(links(&["http://c.test/"])))];
    commit.line = Some(VisitLine {
        seq: 0,
        visit: commit.visit,
        url: tasks[0].record.url.clone(),
        at: at(2),
        status: 200,
        content_type: Some("text/html".into()),
        digest: Some([7; 20]),
        warc: Some(warc),
        page: Some(Box::new(page_line())),
    });
    let mut robots = robots_visit(next + 1, &tasks[0]);
    robots.host_state = host_state.clone();
    robots.robots = Some((secure.clone(), entry("Disallow:")));
    let mut tally = Tally::default();
    tally.add("pages", 1);
    let batch = CommitBatch {
        archive_end: Some(ArchiveEnd { file: 3, bytes: 30 }),
        tally: tally.clone(),
        hosts: vec![(host("silent.test"), HostState { faults: 2, ..HostState::default() })],
        durable: true,
        ..settle(vec![commit, robots])
    };
    let committed = store.commit(batch).unwrap();
    assert_eq!(urls_of(&committed.accepted), ["http://b.test/"]);
    assert_eq!((committed.known, committed.letters_for), (1, vec![ShardId(3)]));
    let line = &committed.lines[0];
    assert_eq!((committed.lines.len(), line.warc), (1, Some(warc)));
    assert!(line.seq > 0);

    drop(store);
    let mut store = state.open().unwrap();
    let recovery = store.recover(at(9), POLICY).unwrap();
    assert!(recovery.resumed && recovery.lost.is_empty(), "{recovery:?}");
    assert_eq!(recovery.archive_end, Some(ArchiveEnd { file: 3, bytes: 30 }));
    assert_eq!(recovery.letters_for, [ShardId(3)]);
    assert_eq!(*store.tally(), tally);
    assert_eq!(store.visits(0, 10).unwrap(), committed.lines);
    assert_eq!(store.robots(&secure).unwrap(), Some(entry("Disallow:")));
    let record = store.record(&url("http://www.a.test/")).unwrap().unwrap();
    assert_eq!(record.state, State::Parsed);
    let row = store.host(&host("www.a.test"), 9).unwrap().unwrap();
    assert_eq!((&row.state, row.waiting, row.best_band), (&host_state, 1, 4));
    assert_eq!(store.host(&host("silent.test"), 9).unwrap().unwrap().state.faults, 2);
    assert_eq!(store.host(&host("c.test"), 9).unwrap(), None);

    let want = RefillWant { host: host("www.a.test"), after: None, limit: 5, state: true };
    let refilled = store.refill(&[want]).unwrap().remove(0);
    assert_eq!(urls_of(&refilled.tasks), ["http://www.a.test/2"]);
    let wake = refilled.state.unwrap();
    assert_eq!((wake.host, wake.site), (host_state, SiteState { pages: 9 }));
    assert_eq!(wake.robots, [(plain, entry("User-agent: *")), (secure, entry("Disallow:"))]);
    check_audit(state, &store);
}

fn a_rule_is_kept<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://a.test/", "http://b.test/"]);
    let rule = |delay_ms| HostRule { delay_ms };
    let say = |store: &mut R::Store, rules: &[(&str, HostRule)]| {
        let rules = rules.iter().map(|(name, rule)| (host(name), *rule)).collect();
        store.commit(CommitBatch { rules, durable: true, ..settle(Vec::new()) }).unwrap();
    };
    let known = |store: &mut R::Store| {
        ["a.test", "b.test"].map(|name| {
            let row = store.host(&host(name), 1).unwrap().unwrap();
            let want = RefillWant { host: host(name), after: None, limit: 1, state: true };
            let wake = store.refill(&[want]).unwrap().remove(0).state.unwrap();
            assert_eq!(row.rule, wake.rule);
            row.rule.delay_ms
        })
    };
    assert_eq!(known(&mut store), [None, None]);
    say(
        &mut store,
        &[("a.test", rule(Some(1))), ("b.test", rule(Some(7))), ("a.test", rule(Some(5)))],
    );
    // A visit does not change it.
    store.commit(settle(vec![visited(next, &tasks[0], State::Queued)])).unwrap();
    assert_eq!(known(&mut store), [Some(5), Some(7)]);
    drop(store);
    let mut store = open(state).0;
    assert_eq!(known(&mut store), [Some(5), Some(7)]);
    say(&mut store, &[("b.test", rule(None))]);
    assert_eq!(known(&mut store), [Some(5), None]);
    check_audit(state, &store);
}

fn what_becomes_of_a_place<R: Reopen>(state: &mut R) {
    let texts = ["http://a.test/gone", "http://a.test/parsed", "http://a.test/stays"];
    let (mut store, next, tasks) = with(state, &texts);
    let states = [State::Retired(Retirement::Gone(404)), State::Parsed, State::Queued];
    for (n, (task, state)) in (next..).zip(tasks.iter().zip(states)) {
        store.commit(settle(vec![visited(n, task, state)])).unwrap();
    }
    assert_eq!(queue(&mut store, "a.test"), tasks[2..]);
    assert_eq!(store.counts(), Counts { known: 3, queued: 1, scheduled: 0 });
    check_audit(state, &store);
}

fn a_failed_url_waits<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://a.test/1", "http://a.test/2"]);
    let fail = |wait| {
        let retry_after = Some(Duration::from_secs(wait));
        Outcome::Failed(Failure { fault: Fault::Status(503), retry_after, answer: None })
    };
    let late = came_to(next, &tasks[0], &fail(100));
    let soon = came_to(next + 1, &tasks[1], &fail(50));
    assert_eq!(store.commit(settle(vec![late])).unwrap().next_due, Some(at(102)));
    assert_eq!(store.commit(settle(vec![soon])).unwrap().next_due, Some(at(52)));
    assert_eq!(store.counts(), Counts { known: 2, queued: 0, scheduled: 2 });
    assert_eq!(store.host(&host("a.test"), 9).unwrap().unwrap().waiting, 0);

    let none = store.wake(at(51), 10).unwrap();
    assert_eq!((none.tasks.len(), none.next_due), (0, Some(at(52))));
    drop(store);
    let (mut store, next) = open(state);
    let woken = store.wake(at(52), 10).unwrap();
    assert_eq!(urls_of(&woken.tasks), ["http://a.test/2"]);
    assert_eq!(woken.next_due, Some(at(102)));
    let task = &woken.tasks[0];
    assert_eq!((task.record.attempts, task.record.due), (1, None));
    assert_eq!(queue(&mut store, "a.test"), woken.tasks);
    check_audit(state, &store);

    // It comes to the queue's end, and its next visit is like any other.
    let commit = came_to(next, task, &Outcome::Fetched(Answer::default()));
    store.commit(settle(vec![commit])).unwrap();
    let woken = store.wake(at(1_000), 10).unwrap();
    assert_eq!((urls_of(&woken.tasks), woken.next_due), (vec!["http://a.test/1"], None));
    assert_eq!(store.counts(), Counts { known: 2, queued: 1, scheduled: 0 });
    check_audit(state, &store);
}

fn a_repeated_visit_changes_nothing<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://a.test/1", "http://a.test/2"]);
    store.grant(&[grant_of(next, &tasks[0]), grant_of(next + 1, &tasks[1])]).unwrap();
    let batch = |links: &[&str]| {
        let mut commit = visited(next, &tasks[0], State::Parsed);
        commit.links = super::kit::links(links);
        let mut batch = settle(vec![commit]);
        batch.tally.add("pages", 1);
        batch
    };
    store.commit(batch(&["http://b.test/"])).unwrap();
    for round in 0..2 {
        let committed = store.commit(batch(&["http://never.test/"])).unwrap();
        assert!(committed.accepted.is_empty() && committed.lines.is_empty(), "round {round}");
        assert_eq!(store.tally().get("pages"), 1);
        assert_eq!(store.record(&url("http://never.test/")).unwrap(), None);
        assert_eq!(store.counts().known, 3);
        // The second round is after a kill.
        drop(store);
        store = open(state).0;
    }
    // One that was lost with its process is settled too: its late report is not taken.
    let mut late = visited(next + 1, &tasks[1], State::Parsed);
    late.links = links(&["http://never.test/"]);
    assert!(store.commit(settle(vec![late])).unwrap().accepted.is_empty());
    let record = store.record(&url("http://a.test/2")).unwrap().unwrap();
    assert_eq!((record.state, record.lost > 0), (State::Queued, true));
    check_audit(state, &store);
}

fn no_visit_number_is_used_twice<R: Reopen>(state: &mut R) {
    let (mut store, mut next, tasks) = with(state, &["http://a.test/"]);
    let mut used = 0;
    for jump in [0, 1, 5_000, 3, 100_000] {
        let number = next + jump;
        assert!(number >= used, "{number} was perhaps used");
        if jump == 3 {
            // A refusal needs no grant; its number counts all the same.
            store.commit(settle(vec![visited(number, &tasks[0], State::Queued)])).unwrap();
        } else {
            store.grant(&[grant_of(number, &tasks[0])]).unwrap();
            store.commit(settle(vec![visited(number, &tasks[0], State::Queued)])).unwrap();
        }
        used = number + 1;
        drop(store);
        (store, next) = open(state);
    }
    assert!(next >= used);
}

fn a_lost_lease_is_settled<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) =
        with(state, &["http://a.test/1", "http://a.test/2", "http://b.test/"]);
    let mut grants = vec![grant_of(next, &tasks[0]), grant_of(next + 1, &tasks[2])];
    grants.push(Grant { visit: visit_id(next + 2), url: None, ..grants[0].clone() });
    store.grant(&grants).unwrap();
    store.commit(settle(vec![visited(next + 1, &tasks[2], State::Parsed)])).unwrap();
    drop(store);

    let mut store = state.open().unwrap();
    let recovery = store.recover(at(7), POLICY).unwrap();
    assert_eq!(recovery.lost, [grants[0].clone(), grants[2].clone()]);
    let record = store.record(&url("http://a.test/1")).unwrap().unwrap();
    assert_eq!((record.state, record.lost > 0, record.attempts), (State::Queued, true, 0));
    let queue = queue(&mut store, "a.test");
    assert_eq!(urls_of(&queue), ["http://a.test/1", "http://a.test/2"]);
    assert_eq!(queue[0].key, tasks[0].key);
    drop(store);
    // Settled is settled: nothing is lost twice.
    assert!(state.open().unwrap().recover(at(8), POLICY).unwrap().lost.is_empty());
}

fn a_deadly_url_is_buried<R: Reopen>(state: &mut R) {
    let (mut store, mut next, tasks) =
        with(state, &["http://a.test/1", "http://a.test/deadly", "http://a.test/3"]);
    for round in 1..=3 {
        store.grant(&[grant_of(next, &tasks[1])]).unwrap();
        drop(store);
        (store, next) = open(state);
        assert_eq!(queue(&mut store, "a.test").len(), if round < 3 { 3 } else { 2 });
    }
    let record = store.record(&url("http://a.test/deadly")).unwrap().unwrap();
    let dead = Retirement::DeadLetter { fault: Fault::Lost, attempts: 3 };
    assert_eq!(record.state, State::Retired(dead));
    let row = store.host(&host("a.test"), 9).unwrap().unwrap();
    assert_eq!((row.waiting, store.counts().queued), (2, 2));
    check_audit(state, &store);
}

fn a_wrong_place_is_harmless<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://a.test/1", "http://a.test/2"]);
    // Its own place is another one; and then a place that is nobody's.
    let mut commit = visited(next, &tasks[0], State::Parsed);
    commit.url.as_mut().unwrap().key = tasks[0].key;
    store.commit(settle(vec![commit])).unwrap();
    for key in [tasks[0].key, QueueKey { band: 200, seq: 1 }] {
        let mut again = visited(next + 1 + u64::from(key.band), &tasks[0], State::Parsed);
        again.url.as_mut().unwrap().key = key;
        store.commit(settle(vec![again])).unwrap();
        assert_eq!(store.host(&host("a.test"), 9).unwrap().unwrap().waiting, 1);
        check_audit(state, &store);
    }
}

fn the_newest_moment_is_remembered<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://a.test/"]);
    store.grant(&[Grant { at: at(70), ..grant_of(next, &tasks[0]) }]).unwrap();
    drop(store);
    let mut store = state.open().unwrap();
    assert_eq!(store.recover(at(0), POLICY).unwrap().latest, at(70));
    store.commit(CommitBatch { at: at(90), ..arrive(links(&["http://b.test/"])) }).unwrap();
    drop(store);
    assert_eq!(state.open().unwrap().recover(at(0), POLICY).unwrap().latest, at(90));
}

fn a_closed_shard_opens_as_it_was<R: Reopen>(state: &mut R) {
    let mut fresh = state.open().unwrap();
    let recovery = fresh.recover(at(0), POLICY).unwrap();
    assert!(!recovery.resumed && recovery.lost.is_empty() && recovery.archive_end.is_none());
    drop(fresh);
    let (mut store, _, tasks) = with(state, &["http://a.test/1", "http://a.test/2"]);
    store.set_note("settings", b"abc").unwrap();
    store.close().unwrap();
    drop(store);
    let mut store = state.open().unwrap();
    assert!(store.recover(at(0), POLICY).unwrap().resumed);
    assert_eq!(queue(&mut store, "a.test"), tasks);
    assert_eq!(store.note("settings").unwrap().as_deref(), Some(&b"abc"[..]));
    assert_eq!(store.note("other").unwrap(), None);
    check_audit(state, &store);
}

/// What most pages tell.
fn page_line() -> PageLine {
    let text = TextFacts { digest: [8; 32], simhash: 9, words: 300, language: Some("en".into()) };
    PageLine {
        news: News::Other,
        depth: 2,
        seed: false,
        title: Some("A page".into()),
        body_bytes: 70_000,
        truncated: None,
        noindex: false,
        nofollow: true,
        noarchive: false,
        text: Some(text),
        sketch: Some(vec![1; 132].into()),
        reading: None,
    }
}
