//! Promises about queues: the right part of the right host's, and when it wakes.

use types::record::Retirement;
use types::{Fault, QueueKey, Record, Refusal, State};

use super::kit::*;
use super::{Case, Reopen};
use crate::shard_store::{Found, Judge, RefillWant, Rejudge, Revised, ScanCursor, ShardStore};

pub(super) fn cases<R: Reopen>() -> Vec<Case<R>> {
    vec![
        ("a queue is read in parts", a_queue_is_read_in_parts),
        ("many hosts are filled at once", many_hosts_are_filled_at_once),
        ("hosts with waiting URLs are listed", hosts_are_listed),
        ("waking is bounded and says when to go on", waking_is_bounded),
        ("refused URLs are judged again", refused_urls_are_judged_again),
        ("records are revised, and those that wait are left alone", records_are_revised),
        ("a long popped queue is read from its head", a_popped_queue_is_read),
    ]
}

fn a_queue_is_read_in_parts<R: Reopen>(state: &mut R) {
    let (mut store, _) = open(state);
    let texts: Vec<_> = (0..10).map(|n| format!("http://a.test/{n}")).collect();
    let offers = texts.iter().enumerate().map(|(n, t)| Found { band: (n % 3) as u8, ..found(t) });
    store.commit(arrive(set(offers))).unwrap();
    store.commit(arrive(links(&["http://a.test.b/", "http://b.a.test/"]))).unwrap();
    let all = queue(&mut store, "a.test");
    assert_eq!(all.len(), 10);
    assert!(all.is_sorted_by_key(|task| task.key));
    for limit in 0..=11 {
        let mut after = None;
        let mut met = Vec::new();
        loop {
            let part = refill(&mut store, "a.test", after, limit);
            assert!(part.tasks.len() <= limit);
            met.extend(part.tasks);
            assert_eq!(part.more, met.len() < all.len(), "limit {limit}, {} met", met.len());
            if limit == 0 || !part.more {
                break;
            }
            after = met.last().map(|task| task.key);
        }
        assert_eq!(met.len(), if limit == 0 { 0 } else { 10 });
        assert!(limit == 0 || met == all);
    }
    let end = refill(&mut store, "a.test", Some(QueueKey::MAX), 10);
    assert!(end.tasks.is_empty() && !end.more);
    assert!(queue(&mut store, "unknown.test").is_empty());
}

fn many_hosts_are_filled_at_once<R: Reopen>(state: &mut R) {
    let (mut store, _, tasks) =
        with(state, &["http://a.test/1", "http://b.test/1", "http://a.test/2", "http://c.test/"]);
    let want = |name: &str, after, limit| RefillWant {
        host: host(name),
        after,
        limit,
        state: name == "b.test",
    };
    let wants = [
        want("b.test", None, 9),
        want("x.test", None, 9),
        want("a.test", Some(tasks[0].key), 9),
        want("a.test", None, 1),
    ];
    let filled = store.refill(&wants).unwrap();
    let got: Vec<_> = filled.iter().map(|r| (r.host.as_str(), urls_of(&r.tasks), r.more)).collect();
    assert_eq!(
        got,
        [
            ("b.test", vec!["http://b.test/1"], false),
            ("x.test", vec![], false),
            ("a.test", vec!["http://a.test/2"], false),
            ("a.test", vec!["http://a.test/1"], true)
        ]
    );
    let states: Vec<_> = filled.iter().map(|r| r.state.is_some()).collect();
    assert_eq!(states, [true, false, false, false]);
}

fn hosts_are_listed<R: Reopen>(state: &mut R) {
    let texts = ["http://b.test/", "http://a.test/", "http://www.a.test/", "http://z.org/"];
    let (mut store, next, tasks) = with(state, &texts);
    let better = Found { band: 1, ..found("http://z.org/2") };
    store.commit(arrive(set([better]))).unwrap();
    store.commit(settle(vec![visited(next, &tasks[1], State::Parsed)])).unwrap();
    let list = |store: &mut R::Store, after: Option<&str>, limit| {
        let rows = store.hosts(after.map(host).as_ref(), limit).unwrap();
        let mut say = |waiting: crate::shard_store::WaitingHost| {
            let row = store.host(&waiting.host, 9).unwrap().unwrap();
            assert_eq!(row.best_band, waiting.best_band);
            format!("{} {} {}", row.host, row.waiting, row.best_band)
        };
        rows.into_iter().map(&mut say).collect::<Vec<_>>()
    };
    // By reversed name: org.z, test.a (nothing waits), test.a.www, test.b.
    let all = ["z.org 2 1", "www.a.test 1 4", "b.test 1 4"];
    assert_eq!(list(&mut store, None, 10), all);
    assert_eq!(list(&mut store, None, 2), all[..2]);
    assert_eq!(list(&mut store, Some("z.org"), 1), all[1..2]);
    assert_eq!(list(&mut store, Some("a.test"), 10), all[1..]);
    assert!(list(&mut store, Some("b.test"), 10).is_empty());
    let counted =
        |store: &mut R::Store, max| store.host(&host("z.org"), max).unwrap().unwrap().waiting;
    assert_eq!((counted(&mut store, 0), counted(&mut store, 1)), (0, 1));
    drop(store);
    assert_eq!(list(&mut open(state).0, None, 10), all);
}

fn waking_is_bounded<R: Reopen>(state: &mut R) {
    let texts: Vec<_> = (0..6).map(|n| format!("http://{}.test/{n}", n % 2)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let (mut store, next, tasks) = with(state, &texts);
    for (n, task) in tasks.iter().enumerate() {
        let mut commit = visited(next + n as u64, task, State::Queued);
        commit.url.as_mut().unwrap().record.due = Some(at(100 + n as u64 / 2));
        store.commit(settle(vec![commit])).unwrap();
    }
    let mut step = |now, limit| {
        let woken = store.wake(at(now), limit).unwrap();
        let left = woken.next_due.map(|due| due.since(at(0)).as_secs());
        (woken.tasks.len(), left)
    };
    assert_eq!(step(99, 10), (0, Some(100)));
    assert_eq!(step(101, 3), (3, Some(101)));
    assert_eq!(step(101, 3), (1, Some(102)));
    assert_eq!(step(101, 3), (0, Some(102)));
    assert_eq!(step(500, 0), (0, Some(102)));
    assert_eq!(step(500, 10), (2, None));
    assert_eq!(store.counts().queued, 6);
    check_audit(state, &store);
}

fn refused_urls_are_judged_again<R: Reopen>(state: &mut R) {
    let setting = Refusal::Setting { key: "k".into(), value: "v".into(), found: "f".into() };
    let address = Refusal::Address { address: [127, 0, 0, 1].into(), range: "loopback".into() };
    let robots = Refusal::Robots { rule: "Disallow: /".into(), line: 1 };
    let refusals = [setting, address, robots, Refusal::Hops { hops_max: 5 }, Refusal::Loop];
    let texts: Vec<_> = (0..5).map(|n| format!("http://a.test/{n}")).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let (mut store, next, tasks) = with(state, &texts);
    for (n, (task, refusal)) in (next..).zip(tasks.iter().zip(refusals)) {
        store.commit(settle(vec![visited(n, task, State::Blocked(refusal))])).unwrap();
    }
    let mut rejudge = |which, step| {
        let mut cursor = ScanCursor::default();
        let mut count = 0;
        while !cursor.done {
            let judge = &mut |record: &Record| Rejudge::judge(which, record);
            let revised = store.revise(&mut cursor, step, judge).unwrap();
            assert_eq!(revised.queued.len() as u64, revised.changed);
            count += revised.changed;
        }
        let mut queue = queue(&mut store, "a.test");
        queue.sort_by(|a, b| a.record.url.cmp(&b.record.url));
        assert!(queue.iter().all(|task| task.record.state == State::Queued));
        (count, urls_of(&queue).iter().map(|url| url[14..].to_owned()).collect::<String>())
    };
    assert_eq!(rejudge(Rejudge::default(), 2), (0, String::new()));
    assert_eq!(rejudge(Rejudge { settings: false, robots: true }, 2), (1, "2".to_owned()));
    assert_eq!(rejudge(Rejudge { settings: true, robots: false }, 1), (3, "0123".to_owned()));
    assert_eq!(rejudge(Rejudge { settings: true, robots: true }, 100), (0, "0123".to_owned()));
    check_audit(state, &store);
}

fn records_are_revised<R: Reopen>(state: &mut R) {
    let texts: Vec<_> = (0..5).map(|n| format!("http://a.test/{n}")).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let (mut store, next, tasks) = with(state, &texts);
    let dead =
        |attempts| State::Retired(Retirement::DeadLetter { fault: Fault::Status(500), attempts });
    for (n, (task, attempts)) in (next..).zip(tasks.iter().zip(1..=3)) {
        store.commit(settle(vec![visited(n, task, dead(attempts))])).unwrap();
    }
    // The last two wait: nobody may change them, whatever the judge says.
    let mut asked = 0;
    let mut all = |judge: &mut Judge<'_>| {
        let mut cursor = ScanCursor::default();
        let mut sum = Revised::default();
        while !cursor.done {
            let Revised { changed, queued } = store.revise(&mut cursor, 2, judge).unwrap();
            sum.changed += changed;
            sum.queued.extend(queued);
        }
        sum
    };
    let revised = all(&mut |record| {
        asked += 1;
        match &record.state {
            State::Retired(Retirement::DeadLetter { attempts: 1, .. }) => {
                Some(record.clone().retried())
            }
            State::Retired(Retirement::DeadLetter { fault, attempts: 2 }) => {
                let dropped = Retirement::Dropped { fault: fault.clone(), attempts: 2 };
                Some(Record { state: State::Retired(dropped), ..record.clone() })
            }
            _ => None,
        }
    });
    assert_eq!((asked, revised.changed), (3, 2));
    assert_eq!(urls_of(&revised.queued), ["http://a.test/0"]);
    assert_eq!(revised.queued[0].record.attempts, 0);
    assert_eq!(store.counts().queued, 3);
    let waiting = queue(&mut store, "a.test");
    assert_eq!(urls_of(&waiting).pop(), Some("http://a.test/0"), "it goes to the end");
    check_audit(state, &store);
    drop(store);
    let (mut store, _) = open(state);
    let states: Vec<State> = store
        .records(&mut ScanCursor::default(), 10)
        .unwrap()
        .into_iter()
        .map(|record| record.state)
        .filter(|state| *state != State::Queued)
        .collect();
    let fault = Fault::Status(500);
    assert_eq!(states.len(), 2);
    assert!(states.contains(&State::Retired(Retirement::Dropped { fault, attempts: 2 })));
    assert!(states.contains(&dead(3)));
}

fn a_popped_queue_is_read<R: Reopen>(state: &mut R) {
    // Another host's stand between them.
    let texts: Vec<_> =
        (0..1_000).map(|n| format!("http://{}.test/{n}", "ab".as_bytes()[n % 2] as char)).collect();
    let (mut store, mut next) = open(state);
    let offers =
        texts.iter().enumerate().map(|(n, t)| Found { band: (n / 2 % 2) as u8 * 7, ..found(t) });
    store.commit(arrive(set(offers))).unwrap();
    let first = refill(&mut store, "a.test", None, 1).tasks.remove(0);
    let mut visits = 0;
    loop {
        let part = refill(&mut store, "a.test", None, 20);
        if part.tasks.is_empty() {
            break;
        }
        if visits == 200 {
            // One that has left comes back to its place, before the head.
            drop(store);
            (store, next) = open(state);
            store.commit(settle(vec![visited(next, &first, State::Queued)])).unwrap();
            next += 1;
            visits -= 1;
            let again = refill(&mut store, "a.test", None, 1).tasks.remove(0);
            assert_eq!((again.key, &again.record.url), (first.key, &first.record.url));
            continue;
        }
        let commits = part.tasks.iter().zip(next..).map(|(t, n)| visited(n, t, State::Parsed));
        let commits: Vec<_> = commits.collect();
        next += commits.len() as u64;
        visits += commits.len();
        store.commit(settle(commits)).unwrap();
    }
    assert_eq!((visits, store.counts().queued), (500, 500));
    let waiting = store.hosts(None, 10).unwrap();
    assert_eq!(waiting.iter().map(|row| row.host.as_str()).collect::<Vec<_>>(), ["b.test"]);
    check_audit(state, &store);
}
