//! Promises about URLs: accepted once, found nearer, offered again, told apart.

use types::{QueueKey, Refusal, State, UrlId};

use super::kit::*;
use super::{Case, Reopen};
use crate::shard_store::{Counts, Found, ScanCursor, ShardStore};

pub(super) fn cases<R: Reopen>() -> Vec<Case<R>> {
    vec![
        ("a new URL is accepted once", a_new_url_is_accepted_once),
        ("places in queues follow band and order", places_follow_band_and_order),
        ("a URL found nearer is improved", a_url_found_nearer_is_improved),
        ("a nearer find during a visit is kept", a_nearer_find_during_a_visit_is_kept),
        ("a refusal by a setting is open to offers", a_refusal_is_open_to_offers),
        ("seeds are listed once and in order", seeds_are_listed_once),
        ("records are read in steps", records_are_read_in_steps),
        ("URLs with one hash are told apart", urls_with_one_hash_are_told_apart),
        ("a URL without a place is dropped and counted", a_url_without_a_place_is_dropped),
        ("known URLs stay known after a kill", known_urls_stay_known),
    ]
}

fn a_new_url_is_accepted_once<R: Reopen>(state: &mut R) {
    let (mut store, _) = open(state);
    let twice = ["http://a.test/", "http://b.test/x", "http://a.test/"];
    let first = store.commit(arrive(links(&twice))).unwrap();
    assert_eq!(urls_of(&first.accepted), ["http://a.test/", "http://b.test/x"]);
    assert_eq!(first.known, 1);
    let again = store.commit(arrive(links(&twice))).unwrap();
    assert!(again.accepted.is_empty());
    assert_eq!(again.known, 3);
    assert_eq!(store.counts(), Counts { known: 2, queued: 2, scheduled: 0 });

    let record = store.record(&url("http://a.test/")).unwrap().unwrap();
    assert_eq!(record, first.accepted[0].record);
    assert_eq!((record.state, record.found.depth, record.found.at), (State::Queued, 3, at(1)));
    assert_eq!(store.record(&url("http://a.test/other")).unwrap(), None);
    check_audit(state, &store);
}

fn places_follow_band_and_order<R: Reopen>(state: &mut R) {
    let (mut store, _) = open(state);
    let offers = [("http://a.test/1", 5), ("http://a.test/2", 0), ("http://a.test/3", 5)];
    let offers = offers.map(|(url, band)| Found { band, ..found(url) });
    let accepted = store.commit(arrive(set(offers))).unwrap().accepted;
    let bands: Vec<_> = accepted.iter().map(|task| task.key.band).collect();
    assert_eq!(bands, [5, 0, 5]);
    assert!(accepted.is_sorted_by_key(|task| task.key.seq));
    let tasks = queue(&mut store, "a.test");
    assert_eq!(urls_of(&tasks), ["http://a.test/2", "http://a.test/1", "http://a.test/3"]);
    assert_eq!(tasks[0], accepted[1]);
}

fn a_url_found_nearer_is_improved<R: Reopen>(state: &mut R) {
    let text = "http://a.test/";
    let (mut store, _, _) = with(state, &[text]);
    let far = Found { depth: 3, hops: 4, ..found(text) };
    let mut check = |offer: Found<'_>, want: (u16, u8, bool, u8)| {
        let committed = store.commit(arrive(set([offer]))).unwrap();
        assert!(committed.accepted.is_empty() && committed.known == 1);
        let record = store.record(&url(text)).unwrap().unwrap();
        let now = record.found;
        assert_eq!((now.depth, now.hops, now.seed, now.band), want, "{offer:?}");
        assert_eq!(record.state, State::Queued);
    };
    check(far, (3, 0, false, 4));
    check(Found { depth: 2, hops: 1, ..far }, (2, 0, false, 4));
    check(Found { depth: 9, seed: true, ..far }, (2, 0, true, 4));
    check(Found { depth: 0, band: 1, ..far }, (0, 0, true, 1));
    // Nothing to learn: also not from what was just said.
    check(Found { depth: 1, ..far }, (0, 0, true, 1));
    check_audit(state, &store);
}

fn a_nearer_find_during_a_visit_is_kept<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) =
        with(state, &["http://a.test/", "http://a.test/2", "http://b.test/"]);
    let near = Found { depth: 1, ..found("http://a.test/") };
    store.commit(arrive(set([near]))).unwrap();
    // In one batch with the visit itself, too.
    let mut other = visited(next + 1, &tasks[2], State::Parsed);
    other.links = set([Found { depth: 2, ..found("http://a.test/2") }]);
    let first = visited(next, &tasks[0], State::Parsed);
    let second = visited(next + 2, &tasks[1], State::Parsed);
    store.commit(settle(vec![first, other, second])).unwrap();
    let depth = |store: &mut R::Store, text| {
        let record = store.record(&url(text)).unwrap().unwrap();
        assert_eq!(record.state, State::Parsed);
        record.found.depth
    };
    assert_eq!(depth(&mut store, "http://a.test/"), 1);
    assert_eq!(depth(&mut store, "http://a.test/2"), 2);
    check_audit(state, &store);
}

fn a_refusal_is_open_to_offers<R: Reopen>(state: &mut R) {
    let setting = Refusal::Setting {
        key: "crawl.max_depth".into(),
        value: "2".into(),
        found: "depth 3".into(),
    };
    let refusals = [
        ("http://a.test/setting", setting, true),
        ("http://a.test/hops", Refusal::Hops { hops_max: 5 }, true),
        ("http://a.test/robots", Refusal::Robots { rule: "Disallow: /".into(), line: 1 }, false),
        ("http://a.test/loop", Refusal::Loop, false),
    ];
    let (mut store, next, tasks) = with(state, &refusals.clone().map(|(url, ..)| url));
    for (n, ((_, refusal, _), task)) in (next..).zip(refusals.iter().zip(&tasks)) {
        let commit = visited(n, task, State::Blocked(refusal.clone()));
        store.commit(settle(vec![commit])).unwrap();
    }
    assert_eq!(store.counts().queued, 0);
    for (text, refusal, open) in &refusals {
        let committed = store.commit(arrive(links(&[text]))).unwrap();
        assert_eq!(urls_of(&committed.accepted), Vec::from_iter(open.then_some(*text)));
        let now = store.record(&url(text)).unwrap().unwrap().state;
        let want = if *open { State::Queued } else { State::Blocked(refusal.clone()) };
        assert_eq!(now, want);
        // It waits now; a third offer changes nothing.
        assert!(store.commit(arrive(links(&[text]))).unwrap().accepted.is_empty());
    }
    assert_eq!(queue(&mut store, "a.test").len(), 2);
    check_audit(state, &store);
}

fn seeds_are_listed_once<R: Reopen>(state: &mut R) {
    let (mut store, _, _) = with(state, &["http://z.test/"]);
    for text in ["http://b.test/", "http://a.test/", "http://b.test/", "http://z.test/"] {
        store.commit(arrive(set([Found { seed: true, ..found(text) }]))).unwrap();
    }
    let want = ["http://b.test/", "http://a.test/", "http://z.test/"].map(url);
    assert_eq!(store.seeds(0, 9).unwrap(), want);
    assert_eq!(store.seeds(1, 1).unwrap(), want[1..2]);
    assert!(store.seeds(3, 9).unwrap().is_empty());
    drop(store);
    assert_eq!(open(state).0.seeds(0, 9).unwrap(), want);
}

fn records_are_read_in_steps<R: Reopen>(state: &mut R) {
    let texts: Vec<_> = (0..7).map(|n| format!("http://{}.test/{n}", n % 3)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let (mut store, _, _) = with(state, &texts);
    for step in [1, 3, 7, 100] {
        let mut cursor = ScanCursor::default();
        let mut met = Vec::new();
        while !cursor.done {
            let records = store.records(&mut cursor, step).unwrap();
            assert!(records.len() <= step);
            met.extend(records.into_iter().map(|record| record.url));
        }
        let hosts: Vec<_> = met.iter().map(|url| url.host_key().reversed()).collect();
        assert!(hosts.is_sorted(), "in the order of the keys");
        met.sort();
        let mut want: Vec<_> = texts.iter().map(|text| url(text)).collect();
        want.sort();
        assert_eq!(met, want);
        assert!(store.records(&mut cursor, step).unwrap().is_empty());
    }
}

/// Everything on a host has one id at first, and those of even length a second one in common.
fn colliding(text: &str, salt: u64) -> UrlId {
    match salt {
        0 => UrlId(7),
        1 if text.len().is_multiple_of(2) => UrlId(8),
        salt => UrlId(UrlId::of(text).0 ^ u128::from(salt)),
    }
}

fn urls_with_one_hash_are_told_apart<R: Reopen>(state: &mut R) {
    state.use_ids(colliding);
    let texts: Vec<_> = (0..24)
        .map(|n| format!("http://{}.test/{}", ["a", "b"][n % 2], "x".repeat(n / 2)))
        .collect();
    let found = |n: usize| Found { id: colliding(&texts[n], 0), ..found(&texts[n]) };
    let (mut store, mut next) = open(state);
    // Some alone, some together, each with one that is known already.
    let mut tasks = Vec::new();
    for group in [0..1, 1..2, 0..9, 5..24, 0..24] {
        tasks.extend(store.commit(arrive(set(group.map(found)))).unwrap().accepted);
    }
    assert_eq!(urls_of(&tasks), texts.iter().map(String::as_str).collect::<Vec<_>>());
    let again = store.commit(arrive(set((0..24).rev().map(found)))).unwrap();
    assert_eq!((again.accepted.len(), again.known), (0, 24));
    check_audit(state, &store);

    // Visits, grants and finds reach the right ones, also after a kill.
    store.commit(settle(vec![visited(next, &tasks[4], State::Parsed)])).unwrap();
    store.grant(&[grant_of(next + 1, &tasks[6])]).unwrap();
    drop(store);
    let mut store = state.open().unwrap();
    next = store.recover(at(5), POLICY).unwrap().next_visit;
    for (n, text) in texts.iter().enumerate() {
        let record = store.record(&url(text)).unwrap().unwrap();
        assert_eq!(record.url.as_str(), text);
        assert_eq!(record.lost > 0, n == 6, "{text}");
        let want = if n == 4 { State::Parsed } else { State::Queued };
        assert_eq!(record.state, want, "{text}");
    }
    let known = store.commit(arrive(set((0..24).map(found)))).unwrap();
    assert_eq!((known.accepted.len(), known.known), (0, 24));
    assert_eq!(queue(&mut store, "a.test").len() + queue(&mut store, "b.test").len(), 23);
    for task in queue(&mut store, "b.test") {
        store.commit(settle(vec![visited(next, &task, State::Parsed)])).unwrap();
        next += 1;
    }
    assert!(queue(&mut store, "b.test").is_empty());
    check_audit(state, &store);
}

fn a_url_without_a_place_is_dropped<R: Reopen>(state: &mut R) {
    state.use_ids(|_, _| UrlId(7));
    let (mut store, _) = open(state);
    let offers = ["http://a.test/1", "http://a.test/2", "http://b.test/1"];
    let offers = || set(offers.map(|text| Found { id: UrlId(7), ..found(text) }));
    let committed = store.commit(arrive(offers())).unwrap();
    assert_eq!(urls_of(&committed.accepted), ["http://a.test/1", "http://b.test/1"]);
    let committed = store.commit(arrive(offers())).unwrap();
    assert_eq!((committed.accepted.len(), committed.known), (0, 2));
    assert_eq!(store.tally().get("links_unplaced"), 2);
    assert_eq!(store.record(&url("http://a.test/2")).unwrap(), None);
    check_audit(state, &store);
}

fn known_urls_stay_known<R: Reopen>(state: &mut R) {
    let texts: Vec<_> = (0..300).map(|n| format!("http://{}.test/{n}", n % 7)).collect();
    let all: Vec<_> = texts.iter().map(String::as_str).collect();
    let (mut store, _, _) = with(state, &all[..200]);
    // With the filter saved at the first close, newer ids beside it, and then killed twice.
    store.close().unwrap();
    drop(store);
    for upto in [250, 300] {
        let (mut store, _) = open(state);
        let committed = store.commit(arrive(links(&all[..upto]))).unwrap();
        assert_eq!((committed.accepted.len(), committed.known), (50, upto as u64 - 50));
        let places: Vec<QueueKey> = committed.accepted.iter().map(|task| task.key).collect();
        assert!(places.is_sorted() && places[0].seq as usize > upto - 51);
        check_audit(state, &store);
        drop(store);
    }
    let (mut store, _) = open(state);
    assert_eq!(store.commit(arrive(links(&all))).unwrap().known, 300);
}
