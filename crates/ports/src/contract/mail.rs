//! Promises about letters, the log of visits, and notes.

use types::{Answer, Origin, Outcome, Refusal, Scheme, ShardId, State, Task, WarcRef};

use super::kit::*;
use super::{Case, Reopen};
use crate::robots_entry::{RobotsAccess, RobotsEntry};
use crate::shard_store::{
    Arrival, CommitBatch, Found, LetterBody, Onward, RobotsFound, ShardStore, VisitLine,
};

pub(super) fn cases<R: Reopen>() -> Vec<Case<R>> {
    vec![
        ("letters wait in order until delivered", letters_wait_in_order),
        ("letters keep their numbers apart after a kill", letters_count_up_after_a_kill),
        ("a letter is taken exactly once", a_letter_is_taken_once),
        ("the log is read and trimmed", the_log_is_read_and_trimmed),
        ("news of a robots.txt arrive by letter", news_of_robots_arrive),
        ("a redirect found nearer brings its target nearer", a_nearer_redirect_leads_on),
        ("notes are kept", notes_are_kept),
    ]
}

fn send<R: Reopen>(
    store: &mut R::Store,
    next: &mut u64,
    task: &Task,
    letters: Vec<(ShardId, LetterBody)>,
) -> Vec<ShardId> {
    let mut commit = visited(*next, task, State::Queued);
    *next += 1;
    commit.letters = letters;
    store.commit(settle(vec![commit])).unwrap().letters_for
}

fn a_nearer_redirect_leads_on<R: Reopen>(state: &mut R) {
    let (mut store, next) = open(state);
    let far = |url| set([Found { hops: 5, ..found(url) }]);
    let urls = ["http://a.test/loop", "http://a.test/old", "http://a.test/page"];
    let accepted: Vec<Task> =
        urls.iter().flat_map(|url| store.commit(arrive(far(url))).unwrap().accepted).collect();
    let moved = |n: usize, to: &str, refused| {
        let answer = Answer { status: 302, ..Answer::default() };
        let outcome = Outcome::Moved { to: Some(url(to)), lasting: false, answer };
        let mut commit = came_to(next + n as u64, &accepted[n], &outcome);
        let record = &mut commit.url.as_mut().unwrap().record;
        record.last.as_mut().unwrap().target_refused = refused;
        commit
    };
    let hops = Refusal::Hops { hops_max: 5 };
    let answer = Answer { status: 200, ..Answer::default() };
    let visits = vec![
        moved(0, "http://a.test/loop", Some(Refusal::Loop)),
        moved(1, "http://b.test/new", Some(hops)),
        came_to(next + 2, &accepted[2], &Outcome::Fetched(answer)),
    ];
    let onward = Some(Onward { shards: 1, hops_max: 5 });
    store.commit(CommitBatch { onward, ..settle(visits) }).unwrap();
    let own = ShardId(0);
    assert!(store.letters(own, 0, 10).unwrap().is_empty(), "nothing is nearer than before");

    let nearer = || arrive(set(urls.map(|url| Found { hops: 2, ..found(url) })));
    let committed = store.commit(CommitBatch { onward, ..nearer() }).unwrap();
    assert_eq!((committed.accepted.len(), &*committed.letters_for), (0, &[own][..]));
    let letters = store.letters(own, 0, 10).unwrap();
    let [LetterBody::Links(links)] =
        &letters.iter().map(|l| l.body.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("{letters:?}");
    };
    let target = Found { hops: 3, ..found("http://b.test/new") };
    assert_eq!(links.iter().collect::<Vec<_>>(), [target]);
    store.commit(CommitBatch { onward, ..nearer() }).unwrap();
    assert_eq!(store.letters(own, 0, 10).unwrap().len(), 1, "the second time it is no news");
    check_audit(state, &store);
}

fn body(text: &str) -> LetterBody {
    LetterBody::Links(links(&[text]))
}

fn letters_wait_in_order<R: Reopen>(state: &mut R) {
    let (mut store, mut next, tasks) = with(state, &["http://a.test/"]);
    let (one, two) = (ShardId(1), ShardId(300));
    let ask = LetterBody::RobotsAsk {
        origin: Origin { scheme: Scheme::Http, host: host("a.test"), port: 80 },
        url: url("http://b.test/robots.txt"),
        hops: 1,
    };
    let letters = vec![(one, body("http://1.test/")), (two, ask.clone()), (one, ask.clone())];
    assert_eq!(send::<R>(&mut store, &mut next, &tasks[0], letters), [one, two]);
    let letters = vec![(one, body("http://2.test/"))];
    assert_eq!(send::<R>(&mut store, &mut next, &tasks[0], letters), [one]);

    let got = store.letters(one, 0, 10).unwrap();
    let bodies: Vec<_> = got.iter().map(|letter| letter.body.clone()).collect();
    assert_eq!(bodies, [body("http://1.test/"), ask.clone(), body("http://2.test/")]);
    assert!(got.is_sorted_by(|a, b| a.seq < b.seq));
    assert_eq!((got[0].from, got[0].visit), (ShardId(0), visit_id(next - 2)));
    assert_eq!(store.letters(one, 0, 2).unwrap(), got[..2]);
    assert_eq!(store.letters(one, got[1].seq, 10).unwrap(), got[2..]);
    assert_eq!(store.letters(two, 0, 10).unwrap().len(), 1);
    assert!(store.letters(ShardId(2), 0, 10).unwrap().is_empty());

    store.delivered(one, got[1].seq).unwrap();
    drop(store);
    let mut store = state.open().unwrap();
    assert_eq!(store.recover(at(0), POLICY).unwrap().letters_for, [one, two]);
    assert_eq!(store.letters(one, 0, 10).unwrap(), got[2..]);
    store.delivered(one, got[2].seq).unwrap();
    drop(store);
    let mut store = state.open().unwrap();
    assert_eq!(store.recover(at(0), POLICY).unwrap().letters_for, [two]);
    assert_eq!(store.letters(two, 0, 10).unwrap()[0].body, ask);
}

fn letters_count_up_after_a_kill<R: Reopen>(state: &mut R) {
    let (mut store, mut next, tasks) = with(state, &["http://a.test/"]);
    let to = ShardId(1);
    let mut last = 0;
    for round in 0..4 {
        send::<R>(&mut store, &mut next, &tasks[0], vec![(to, body("http://b.test/"))]);
        let letters = store.letters(to, last, 10).unwrap();
        assert_eq!(letters.len(), 1, "round {round}");
        last = letters[0].seq;
        store.delivered(to, last).unwrap();
        if round == 1 {
            store.close().unwrap();
        }
        drop(store);
        (store, next) = open(state);
    }
}

fn a_letter_is_taken_once<R: Reopen>(state: &mut R) {
    let (mut store, _) = open(state);
    let arrival = |from, seq, text: &str| Arrival {
        letter: Some((ShardId(from), seq)),
        links: links(&[text]),
        robots: None,
    };
    let mut commit = |arrivals| {
        let batch = CommitBatch { at: at(1), arrivals, ..CommitBatch::default() };
        let committed = store.commit(batch).unwrap();
        committed.accepted.iter().map(|task| task.record.url.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(commit(vec![arrival(1, 5, "http://a.test/")]), ["http://a.test/"]);
    assert!(commit(vec![arrival(1, 5, "http://b.test/")]).is_empty());
    assert!(commit(vec![arrival(1, 4, "http://b.test/")]).is_empty());
    // Another sender counts for itself, and a repeat in one batch is a repeat.
    let both = vec![
        arrival(2, 1, "http://c.test/"),
        arrival(2, 1, "http://d.test/"),
        arrival(1, 6, "http://e.test/"),
    ];
    assert_eq!(commit(both), ["http://c.test/", "http://e.test/"]);
    drop(store);
    let (mut store, _) = open(state);
    let arrivals = vec![arrival(1, 6, "http://f.test/"), arrival(2, 2, "http://g.test/")];
    let batch = CommitBatch { at: at(1), arrivals, ..CommitBatch::default() };
    assert_eq!(urls_of(&store.commit(batch).unwrap().accepted), ["http://g.test/"]);
}

fn the_log_is_read_and_trimmed<R: Reopen>(state: &mut R) {
    let (mut store, next, tasks) = with(state, &["http://a.test/"]);
    let mut written = Vec::new();
    for n in next..next + 5 {
        let mut commit = visited(n, &tasks[0], State::Queued);
        commit.line = Some(VisitLine {
            seq: 0,
            visit: commit.visit,
            url: url("http://a.test/"),
            at: at(n),
            status: 200,
            content_type: None,
            digest: None,
            warc: (n % 2 == 0).then_some(WarcRef { file: 0, offset: n, length: 1 }),
            page: None,
        });
        written.extend(store.commit(settle(vec![commit])).unwrap().lines);
    }
    assert!(written.is_sorted_by(|a, b| a.seq < b.seq) && written[0].seq > 0);
    assert_eq!(store.visits(0, 100).unwrap(), written);
    assert_eq!(store.visits(0, 2).unwrap(), written[..2]);
    assert_eq!(store.visits(written[1].seq, 100).unwrap(), written[2..]);
    store.trim_visits(written[2].seq).unwrap();
    assert_eq!(store.visits(0, 100).unwrap(), written[3..]);
    drop(store);
    let (mut store, next) = open(state);
    assert_eq!(store.visits(0, 100).unwrap(), written[3..]);
    // The log goes on behind what was there.
    let mut commit = visited(next, &tasks[0], State::Queued);
    commit.line = Some(written[0].clone());
    let line = store.commit(settle(vec![commit])).unwrap().lines.remove(0);
    assert!(line.seq > written[4].seq);
}

fn news_of_robots_arrive<R: Reopen>(state: &mut R) {
    let (mut store, mut next, tasks) = with(state, &["http://a.test/"]);
    let origin = Origin { scheme: Scheme::Https, host: host("x.test"), port: 8443 };
    let entry = RobotsEntry {
        access: RobotsAccess::Absent,
        checked_at: at(1),
        expires_at: at(2),
        failures: 3,
        trouble: Some("503".into()),
    };
    assert_eq!(store.robots(&origin).unwrap(), None);
    let arrival = |seq, failures| Arrival {
        letter: Some((ShardId(1), seq)),
        robots: Some((origin.clone(), RobotsEntry { failures, ..entry.clone() })),
        ..Arrival::default()
    };
    for (seq, failures, want) in [(1, 3, 3), (1, 9, 3), (2, 4, 4)] {
        let arrivals = vec![arrival(seq, failures)];
        store.commit(CommitBatch { arrivals, ..CommitBatch::default() }).unwrap();
        assert_eq!(store.robots(&origin).unwrap().unwrap().failures, want);
    }
    let found = RobotsFound::Text(b"Disallow: /".as_slice().into());
    let answer = LetterBody::RobotsAnswer { origin, found };
    send::<R>(&mut store, &mut next, &tasks[0], vec![(ShardId(2), answer.clone())]);
    assert_eq!(store.letters(ShardId(2), 0, 1).unwrap()[0].body, answer);
}

fn notes_are_kept<R: Reopen>(state: &mut R) {
    let (mut store, _) = open(state);
    assert_eq!(store.note("a").unwrap(), None);
    store.set_note("a", b"1").unwrap();
    store.set_note("ab", b"").unwrap();
    store.set_note("a", b"2").unwrap();
    drop(store);
    let (mut store, _) = open(state);
    assert_eq!(store.note("a").unwrap(), Some(b"2".to_vec()));
    assert_eq!(store.note("ab").unwrap(), Some(Vec::new()));
    assert_eq!(store.note("b").unwrap(), None);
}
