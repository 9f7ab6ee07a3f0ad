//! The frontier's verbs, one claim a test.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

mod desk;
mod names;

use std::time::Duration;

use desk::{Desk, at};
use lycosa_frontier::{
    Errand, Fate, Next, Place, Politeness, RobotsErrand, RobotsMark, Touch, Wake,
};
use types::{CrawlUrl, Fault, HostKey, HostRule, Refusal};

#[test]
fn a_host_is_visited_one_page_at_a_time_with_its_pause_between() {
    let mut desk = Desk::new(|_| {});
    desk.add(at(0), "http://a.test/1", 0);
    desk.add(at(0), "http://a.test/2", 0);
    let first = desk.next(at(0)).unwrap();
    assert!(desk.next(at(5_000)).is_none(), "one is in flight");
    desk.answer(&first, at(5_000));
    assert!(desk.next(at(5_999)).is_none(), "the pause is not over");
    assert_eq!(desk.path(at(6_010)).as_deref(), Some("/2"));
}

#[test]
fn a_lease_taken_ahead_of_its_time_names_the_moment() {
    let ahead = Duration::from_millis(100);
    let mut desk = Desk::new(|_| {});
    desk.add(at(0), "http://a.test/1", 0);
    desk.add(at(0), "http://a.test/2", 0);
    let first = desk.next(at(0)).unwrap();
    assert_eq!(first.not_before, at(0));
    desk.answer(&first, at(5_000));
    desk.serve(at(5_900));
    let Next::Wait(Some(look)) = desk.frontier.next(at(5_900), ahead, &mut desk.addresses) else {
        panic!("its pause is over at 6,010 ms");
    };
    assert_eq!(look, at(5_910), "who looks ahead has to look earlier");
    let Next::Visit(lease) = desk.frontier.next(look, ahead, &mut desk.addresses) else {
        panic!("its pause is over soon enough");
    };
    assert_eq!((lease.granted_at, lease.not_before), (look, at(6_010)));
}

#[test]
fn many_hosts_go_side_by_side() {
    let mut desk = Desk::new(|_| {});
    for n in 0..100 {
        desk.add(
            at(0),
            &format!("http://{}.test/", "abcdefghij"[..n / 10 + 1].repeat(n % 10 + 1)),
            0,
        );
    }
    let mut hosts = std::collections::BTreeSet::new();
    while let Some(lease) = desk.next(at(0)) {
        hosts.insert(lease.host);
    }
    assert!(hosts.len() > 50, "{}", hosts.len());
    assert_eq!(desk.frontier.in_flight(), hosts.len());
}

#[test]
fn a_better_band_goes_first_and_a_huge_queue_stays_on_disk() {
    let mut desk = Desk::new(|options| options.sizes.near_max = 4);
    for n in 0..50 {
        desk.add(at(0), &format!("http://a.test/{n}"), 3);
    }
    desk.add(at(0), "http://a.test/urgent", 1);
    let mut paths = Vec::new();
    let mut now = at(0);
    while let Some(lease) = desk.next(now) {
        let Errand::Page(task) = &lease.errand else { panic!() };
        paths.push(task.record.url.path().to_owned());
        desk.answer(&lease, now);
        now = now + Duration::from_millis(1_010);
    }
    assert_eq!(paths.len(), 51, "each exactly once");
    assert_eq!(paths[0], "/urgent");
    assert!(paths[1..].iter().enumerate().all(|(n, path)| *path == format!("/{n}")));
    assert_eq!(desk.frontier.active(), 0, "a host with nothing left costs nothing");
}

#[test]
fn robots_txt_is_asked_for_before_the_first_page_of_an_origin() {
    let mut desk = Desk::new(|options| options.obey_robots = true);
    desk.add(at(0), "http://a.test/x", 0);
    let lease = desk.next(at(0)).unwrap();
    let Errand::Robots(errand) = &lease.errand else { panic!("{lease:?}") };
    assert_eq!(errand.url.as_str(), "http://a.test/robots.txt");
    let origin = errand.origin.clone();
    let mark = RobotsMark::Known {
        until: at(1_000_000),
        renew_at: at(1_000_000),
        crawl_delay: Some(Duration::from_secs(7)),
    };
    desk.answer(&lease, at(0));
    desk.frontier.robots_known(at(0), &origin, mark);
    assert!(desk.next(at(6_999)).is_none(), "its Crawl-delay holds from the start");
    assert_eq!(desk.path(at(7_010)).as_deref(), Some("/x"));
}

#[test]
fn rules_are_renewed_before_they_end_and_pages_go_on_meanwhile() {
    let mut desk = Desk::new(|options| options.obey_robots = true);
    for n in 0..9 {
        desk.add(at(0), &format!("http://a.test/{n}"), 0);
    }
    let origin = CrawlUrl::parse("http://a.test/").unwrap().origin();
    // What is visited at this moment; a robots.txt comes to `mark`.
    let visit = |desk: &mut Desk, ms: u64, mark: Option<RobotsMark>| {
        let lease = desk.next(at(ms)).unwrap();
        if let Some(mark) = mark {
            desk.frontier.robots_known(at(ms), &origin, mark);
        }
        desk.answer(&lease, at(ms));
        match lease.errand {
            Errand::Page(task) => task.record.url.path().to_owned(),
            Errand::Robots(errand) => errand.url.path().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    let known = |until, renew_at| {
        Some(RobotsMark::Known { until: at(until), renew_at: at(renew_at), crawl_delay: None })
    };
    assert_eq!(visit(&mut desk, 0, known(10_000, 5_000)), "/robots.txt");
    assert_eq!(visit(&mut desk, 2_000, None), "/0");
    // While the old rules still hold, one turn is robots.txt's. It points to another host, which
    // takes its time: nobody waits for that.
    let chasing = Some(RobotsMark::Chasing { until: at(8_000) });
    assert_eq!(visit(&mut desk, 5_100, chasing), "/robots.txt");
    assert_eq!(visit(&mut desk, 7_000, None), "/1");
    // No answer came: it is asked again.
    assert_eq!(visit(&mut desk, 9_000, known(90_000, 86_000)), "/robots.txt");
    assert_eq!(visit(&mut desk, 12_000, None), "/2");
    // Rules that have ended say nothing while others are looked for.
    desk.frontier.robots_known(at(95_000), &origin, RobotsMark::Chasing { until: at(99_000) });
    assert!(desk.next(at(96_000)).is_none());
}

#[test]
fn pages_wait_while_robots_txt_is_out_of_reach() {
    let mut desk = Desk::new(|options| options.obey_robots = true);
    desk.add(at(0), "http://a.test/x", 0);
    let lease = desk.next(at(0)).unwrap();
    let Errand::Robots(errand) = lease.errand.clone() else { panic!() };
    desk.answer(&lease, at(0));
    desk.frontier.robots_known(
        at(0),
        &errand.origin,
        RobotsMark::Unreachable { retry_at: at(30_000) },
    );
    assert!(desk.next(at(29_999)).is_none());
    let again = desk.next(at(30_000)).unwrap();
    assert!(matches!(again.errand, Errand::Robots(_)), "asked again, no page: {again:?}");
}

#[test]
fn the_budget_of_a_domain_counts_over_its_hosts() {
    let mut desk = Desk::new(|options| options.politeness.domain_pages_max = 3);
    for host in ["www.a.test", "blog.a.test"] {
        for n in 0..3 {
            desk.add(at(0), &format!("http://{host}/{n}"), 0);
        }
    }
    let mut pages = 0;
    let mut now = at(0);
    for _ in 0..20 {
        while let Some(lease) = desk.next(now) {
            pages += 1;
            desk.answer(&lease, now);
        }
        now = now + Duration::from_secs(2);
    }
    assert_eq!(pages, 3);
    assert_eq!(desk.frontier.wake_at(now), None, "the rest waits for a higher budget");
}

#[test]
fn urls_of_a_forbidden_address_are_refused_one_by_one_without_a_pause() {
    let mut desk = Desk::new(|_| {});
    let refusal =
        Refusal::Address { address: "10.0.0.1".parse().unwrap(), range: "10.0.0.0/8".into() };
    let place = Place::Forbidden { refusal, until: at(1_000_000) };
    desk.places.insert(HostKey::new("a.test"), place);
    desk.add(at(0), "http://a.test/1", 0);
    desk.add(at(0), "http://a.test/2", 0);
    for _ in 0..2 {
        let lease = desk.next(at(0)).unwrap();
        assert!(matches!(lease.errand, Errand::Refuse(..)) && lease.address.is_none());
        desk.end(&lease, at(0), &Touch::Untouched);
    }
    assert!(desk.next(at(0)).is_none());
}

#[test]
fn a_name_that_does_not_resolve_is_the_hosts_failure_and_waits_longer_each_time() {
    let mut desk = Desk::new(|_| {});
    desk.places.insert(HostKey::new("a.test"), Place::Failed { why: "no such name".into() });
    desk.add(at(0), "http://a.test/", 0);
    assert!(desk.next(at(0)).is_none());
    assert_eq!(desk.frontier.wake_at(at(0)), Some(at(1_010)));
    assert!(desk.next(at(1_010)).is_none());
    assert_eq!(desk.frontier.wake_at(at(1_010)), Some(at(3_020)));
}

#[test]
fn hosts_at_one_address_keep_its_gap() {
    let mut desk = Desk::new(|_| {});
    let until = at(1_000_000);
    for host in ["a.test", "b.test", "c.test"] {
        let addresses = vec!["192.0.2.1".parse().unwrap()];
        desk.places.insert(HostKey::new(host), Place::Addresses { addresses, until });
        desk.add(at(0), &format!("http://{host}/"), 0);
    }
    let mut sent = Vec::new();
    for millis in 0..2_000 {
        while let Some(lease) = desk.next(at(millis)) {
            sent.push(millis);
            desk.answer(&lease, at(millis));
        }
    }
    assert_eq!(sent.len(), 3);
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= 500), "{sent:?}");
}

#[test]
fn after_a_restart_every_host_gets_its_full_pause_first() {
    let mut desk = Desk::new(|options| options.opened_at = Some(at(0)));
    desk.add(at(0), "http://a.test/", 0);
    assert!(desk.next(at(999)).is_none());
    assert!(desk.next(at(1_010)).is_some());
}

#[test]
fn a_lost_lease_keeps_the_pause_and_the_url() {
    let mut desk = Desk::new(|options| options.sizes.lease_time = Duration::from_secs(60));
    desk.add(at(0), "http://a.test/x", 0);
    let lease = desk.next(at(0)).unwrap();
    assert!(desk.frontier.expired(at(59_999)).is_empty());
    let expired = desk.frontier.expired(at(60_000));
    assert_eq!(expired.len(), 1);
    let task = lease.errand.task().unwrap().clone();
    let id = task.id;
    desk.addresses.sent(lease.address.unwrap(), lease.visit, at(0));
    let touch = Touch::Lost { at: at(60_000), sent: true };
    let fate = Fate::Stays(Box::new(task));
    desk.frontier.settle(at(60_000), lease.visit, &touch, fate, &mut desk.addresses).unwrap();
    desk.frontier.committed(at(60_000), &lease.host, Some(id));
    assert!(desk.next(at(60_999)).is_none());
    assert_eq!(desk.path(at(61_010)).as_deref(), Some("/x"));
}

#[test]
fn a_host_that_rests_for_long_gives_up_its_place_and_comes_back() {
    let mut desk = Desk::new(|_| {});
    desk.add(at(0), "http://a.test/1", 0);
    desk.add(at(0), "http://a.test/2", 0);
    let lease = desk.next(at(0)).unwrap();
    let touch = Touch::Faulted {
        sent: Some(at(0)),
        ended: at(0),
        fault: Fault::Status(503),
        retry_after: Some(Duration::from_secs(3_600)),
        page: true,
    };
    desk.wakes.insert(HostKey::new("a.test"), Wake::default());
    desk.end(&lease, at(0), &touch);
    assert_eq!(desk.frontier.active(), 0);
    assert_eq!(desk.frontier.wake_at(at(0)), Some(at(3_600_000)));
    assert!(desk.next(at(3_599_999)).is_none());
    assert_eq!(desk.path(at(3_600_000)).as_deref(), Some("/2"));
}

#[test]
fn no_delay_means_as_fast_as_the_answers_come() {
    let mut desk = Desk::new(|options| {
        options.politeness = Politeness {
            delay: "0s".parse().unwrap(),
            ip_delay: "0s".parse().unwrap(),
            ..Politeness::default()
        };
    });
    for n in 0..200 {
        desk.add(at(0), &format!("http://a.test/{n}"), 0);
    }
    let mut pages = 0;
    while let Some(lease) = desk.next(at(0)) {
        desk.answer(&lease, at(0));
        pages += 1;
    }
    assert_eq!(pages, 200);
}

fn errand(origin: &str, url: &str) -> RobotsErrand {
    let origin = CrawlUrl::parse(origin).unwrap().origin();
    RobotsErrand { origin, url: CrawlUrl::parse(url).unwrap(), hops: 1 }
}

#[test]
fn a_robots_txt_that_points_to_nowhere_is_answered_at_once() {
    let mut desk = Desk::new(|_| {});
    desk.places.insert(HostKey::new("gone.test"), Place::Failed { why: "no such name".into() });
    for from in ["http://a.test/", "http://b.test/"] {
        assert!(desk.frontier.ask_robots(at(0), errand(from, "http://gone.test/robots.txt")));
    }
    for _ in 0..2 {
        let lease = desk.next(at(0)).unwrap();
        assert!(matches!(lease.errand, Errand::Robots(_)) && lease.address.is_none(), "{lease:?}");
        assert_eq!(lease.not_before, at(0), "nothing is sent, so nothing is waited for");
        desk.end(&lease, at(0), &Touch::Untouched);
    }
    assert!(desk.next(at(0)).is_none());
    // Nor does anybody wait for a host that rests for long.
    let mut wake = Wake::default();
    wake.state.not_before = at(3_600_000);
    desk.wakes.insert(HostKey::new("parked.test"), wake);
    desk.frontier.ask_robots(at(0), errand("http://a.test/", "http://parked.test/robots.txt"));
    assert!(desk.next(at(0)).unwrap().address.is_none());
}

#[test]
fn errands_and_pages_take_turns_and_an_origin_has_one_errand() {
    let mut desk = Desk::new(|_| {});
    for n in 0..4 {
        desk.add(at(0), &format!("http://www.test/{n}"), 0);
    }
    for n in [0, 1, 2, 0, 1, 2, 0] {
        let from = format!("http://h{n}.test/");
        desk.frontier.ask_robots(at(0), errand(&from, "http://www.test/robots.txt"));
    }
    let mut order = String::new();
    for n in 0..20 {
        if let Some(lease) = desk.next(at(n * 2_000)) {
            order.push(if matches!(lease.errand, Errand::Page(_)) { 'p' } else { 'r' });
            desk.answer(&lease, at(n * 2_000));
        }
    }
    assert_eq!(order, "rprprpp");
}

#[test]
fn too_many_robots_requests_for_one_host_are_turned_away() {
    let mut desk = Desk::new(|_| {});
    let taken = (0..1_000).filter(|n| {
        let from = format!("http://h{n}.test/");
        desk.frontier.ask_robots(at(0), errand(&from, "http://www.test/robots.txt"))
    });
    assert_eq!(taken.count(), 256);
}

#[test]
fn an_origin_that_nobody_can_ask_does_not_hold_up_the_hosts_others() {
    let mut desk = Desk::new(|options| {
        options.obey_robots = true;
        options.sizes.near_max = 4;
        options.sizes.near_low = 1;
    });
    for n in 0..20 {
        desk.add(at(0), &format!("http://a.test/{n}"), 0);
    }
    desk.add(at(0), "https://a.test/", 0);
    let unreachable = CrawlUrl::parse("http://a.test/").unwrap().origin();
    let lease = desk.next(at(0)).unwrap();
    desk.frontier.robots_known(
        at(0),
        &unreachable,
        RobotsMark::Unreachable { retry_at: at(600_000) },
    );
    desk.answer(&lease, at(0));
    let mut asked = None;
    for n in 1..10 {
        asked = asked.or_else(|| desk.next(at(n * 1_000)));
    }
    let Errand::Robots(errand) = asked.unwrap().errand else { panic!("its rules come first") };
    assert_eq!(errand.url.as_str(), "https://a.test/robots.txt");
}

#[test]
fn what_was_passed_over_is_read_again_when_its_rules_are_known() {
    let mut desk = Desk::new(|options| {
        options.obey_robots = true;
        options.sizes.near_max = 4;
        options.sizes.near_low = 1;
    });
    for n in 0..30 {
        desk.add(at(0), &format!("http://a.test/{n}"), 0);
    }
    let origin = CrawlUrl::parse("http://a.test/").unwrap().origin();
    let lease = desk.next(at(0)).unwrap();
    let down = RobotsMark::Unreachable { retry_at: at(58_000) };
    desk.frontier.robots_known(at(0), &origin, down);
    desk.answer(&lease, at(0));
    for n in 1..50 {
        assert!(desk.next(at(n * 1_000)).is_none());
    }
    let known =
        RobotsMark::Known { until: at(9_000_000), renew_at: at(9_000_000), crawl_delay: None };
    desk.frontier.robots_known(at(50_000), &origin, known);
    let mut paths = Vec::new();
    for n in 0..100 {
        if let Some(lease) = desk.next(at(60_000 + n * 1_100)) {
            let Errand::Page(task) = &lease.errand else { panic!("{lease:?}") };
            paths.push(task.record.url.path()[1..].parse::<usize>().unwrap());
            desk.answer(&lease, at(60_000 + n * 1_100));
        }
    }
    assert_eq!(paths, (0..30).collect::<Vec<_>>(), "all of them, once, in order");
}

#[test]
fn pages_of_an_origin_that_we_ask_nothing_of_are_refused() {
    let mut desk = Desk::new(|options| options.obey_robots = true);
    desk.add(at(0), "http://a.test:22/", 0);
    let lease = desk.next(at(0)).unwrap();
    assert!(matches!(lease.errand, Errand::Robots(_)));
    let refusal =
        Refusal::Setting { key: "network.ports".into(), value: "80".into(), found: "22".into() };
    let origin = CrawlUrl::parse("http://a.test:22/").unwrap().origin();
    let mark = RobotsMark::Refused { refusal: refusal.clone(), until: at(90_000_000) };
    desk.frontier.robots_known(at(0), &origin, mark);
    desk.end(&lease, at(0), &Touch::Untouched);
    let lease = desk.next(at(0)).unwrap();
    assert!(matches!(&lease.errand, Errand::Refuse(_, why) if *why == refusal), "{lease:?}");
    assert!(lease.address.is_none());
}

#[test]
fn a_crawl_delay_learnt_after_the_state_was_written_holds_when_the_host_wakes() {
    let mut desk = Desk::new(|options| options.obey_robots = true);
    let mut wake = Wake::default();
    wake.state.last_end = at(0);
    wake.state.not_before = at(1_010);
    let origin = CrawlUrl::parse("http://a.test/").unwrap().origin();
    let delay = Some(Duration::from_secs(120));
    let known =
        RobotsMark::Known { until: at(90_000_000), renew_at: at(90_000_000), crawl_delay: delay };
    wake.robots = vec![(origin, known)];
    desk.wakes.insert(HostKey::new("a.test"), wake);
    desk.add(at(2_000), "http://a.test/", 0);
    assert!(desk.next(at(2_000)).is_none());
    assert!(desk.next(at(119_999)).is_none());
    assert!(desk.next(at(120_010)).is_some());
}

#[test]
fn a_visit_that_was_leased_ahead_is_early_when_its_host_needs_a_longer_pause() {
    let mut desk = Desk::new(|_| {});
    desk.add(at(0), "http://a.test/1", 0);
    desk.add(at(0), "http://a.test/2", 0);
    let first = desk.next(at(0)).unwrap();
    desk.answer(&first, at(0));
    desk.serve(at(950));
    let ahead = Duration::from_millis(100);
    let Next::Visit(lease) = desk.frontier.next(at(950), ahead, &mut desk.addresses) else {
        panic!("its pause is over at 1,010 ms");
    };
    assert!(!desk.frontier.is_early(&lease));
    let origin = CrawlUrl::parse("http://a.test/").unwrap().origin();
    let crawl_delay = Some(Duration::from_secs(10));
    let known = RobotsMark::Known { until: at(90_000_000), renew_at: at(90_000_000), crawl_delay };
    desk.frontier.robots_known(at(960), &origin, known);
    assert!(desk.frontier.is_early(&lease));
}

#[test]
fn a_page_of_another_origin_does_not_wait_for_a_robots_txt_that_is_down() {
    let mut desk = Desk::new(|options| options.obey_robots = true);
    desk.add(at(0), "http://a.test:81/", 0);
    let down = CrawlUrl::parse("http://a.test:81/").unwrap().origin();
    let up = CrawlUrl::parse("http://a.test/").unwrap().origin();
    let lease = desk.next(at(0)).unwrap();
    desk.frontier.robots_known(at(0), &down, RobotsMark::Unreachable { retry_at: at(30_000) });
    let known =
        RobotsMark::Known { until: at(90_000_000), renew_at: at(90_000_000), crawl_delay: None };
    desk.frontier.robots_known(at(0), &up, known);
    desk.answer(&lease, at(0));
    assert!(desk.next(at(2_000)).is_none());
    desk.add(at(3_000), "http://a.test:81/more", 0);
    assert!(desk.next(at(3_000)).is_none());
    desk.add(at(3_000), "http://a.test/page", 0);
    assert_eq!(desk.path(at(3_000)).as_deref(), Some("/page"));
}

fn slowly(seconds: u32) -> HostRule {
    HostRule { delay_ms: Some(seconds * 1_000) }
}

#[test]
fn a_hosts_own_delay_holds_for_the_pause_that_has_begun_and_may_not_shorten_it() {
    let mut desk = Desk::new(|_| {});
    for page in 1..=4 {
        desk.add(at(0), &format!("http://a.test/{page}"), 0);
    }
    let first = desk.next(at(0)).unwrap();
    desk.answer(&first, at(0));
    desk.frontier.rule(at(500), &first.host, slowly(20));
    assert!(desk.next(at(20_000)).is_none(), "longer than politeness.delay");
    let second = desk.next(at(20_010)).unwrap();
    desk.answer(&second, at(20_010));
    // The pause that has begun stays as it is; the next one is shorter, but not below the delay.
    desk.frontier.rule(at(21_000), &first.host, HostRule { delay_ms: Some(1) });
    assert!(desk.next(at(40_010)).is_none());
    let third = desk.next(at(40_020)).unwrap();
    desk.answer(&third, at(40_020));
    assert!(desk.next(at(41_020)).is_none());
    assert_eq!(desk.path(at(41_030)).as_deref(), Some("/4"));
}

#[test]
fn a_hosts_own_delay_is_known_when_it_wakes_up() {
    let mut desk = Desk::new(|_| {});
    let mut wake = Wake { rule: slowly(50), ..Wake::default() };
    wake.state.last_end = at(0);
    desk.wakes.insert(HostKey::new("a.test"), wake);
    desk.add(at(10), "http://a.test/", 0);
    assert!(desk.next(at(50_009)).is_none());
    assert_eq!(desk.path(at(50_010)).as_deref(), Some("/"));
}

#[test]
fn the_longest_of_all_delays_counts() {
    for (rule, crawl_delay, pause) in [(3, 7, 7_010), (7, 3, 7_010), (0, 0, 1_010)] {
        let mut desk = Desk::new(|options| options.obey_robots = true);
        desk.add(at(0), "http://a.test/x", 0);
        let lease = desk.next(at(0)).unwrap();
        let Errand::Robots(errand) = lease.errand.clone() else { panic!("{lease:?}") };
        desk.frontier.rule(at(0), &lease.host, slowly(rule));
        desk.answer(&lease, at(0));
        let crawl_delay = Some(Duration::from_secs(crawl_delay));
        let mark = RobotsMark::Known { until: at(1_000_000), renew_at: at(1_000_000), crawl_delay };
        desk.frontier.robots_known(at(0), &errand.origin, mark);
        assert!(desk.next(at(pause - 1)).is_none(), "{rule}");
        assert_eq!(desk.path(at(pause)).as_deref(), Some("/x"), "{rule}");
    }
}

#[test]
fn a_visit_that_was_leased_ahead_is_early_when_its_host_is_slowed_down() {
    let ahead = Duration::from_millis(100);
    let mut desk = Desk::new(|_| {});
    desk.add(at(0), "http://a.test/1", 0);
    desk.add(at(0), "http://a.test/2", 0);
    let first = desk.next(at(0)).unwrap();
    desk.answer(&first, at(0));
    desk.serve(at(920));
    let Next::Visit(lease) = desk.frontier.next(at(920), ahead, &mut desk.addresses) else {
        panic!("its pause is over soon enough");
    };
    assert!(!desk.frontier.is_early(&lease));
    desk.frontier.rule(at(950), &first.host, slowly(2));
    assert!(desk.frontier.is_early(&lease));
}
