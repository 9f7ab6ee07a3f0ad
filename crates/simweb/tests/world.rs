//! Worlds as they are asked: sizes, texts, faults, and that everything can be reached.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise should fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use lycosa_simweb::web::{Body, Fate, Framing};
use lycosa_simweb::{
    Ask, Dns, Door, Expectation, FaultKind, Faults, Place, Plan, Rules, Scope, Truth, Web, World,
    WorldSpec,
};
use types::Timestamp;

fn ask(world: &World, place: &Place, nth: u32) -> Plan {
    world.answer(&Ask {
        host: &place.host,
        port: place.port,
        tls: place.tls,
        target: &place.target,
        headers: &[("accept-encoding", "gzip")],
        nth,
        at: Timestamp::from_secs(1_794_774_000),
    })
}

fn body(plan: &Plan) -> Vec<u8> {
    match &plan.body {
        Body::Bytes(bytes) => bytes.to_vec(),
        Body::Repeat { .. } => Vec::new(),
    }
}

/// All pages that a crawl of a healthy world finds.
fn pages(world: &World) -> Vec<Place> {
    let oracle = world.oracle(&world.seeds(1), &Rules::default());
    oracle.archived().map(|(url, _)| Place::parse(url).unwrap()).collect()
}

fn gzip6(bytes: &[u8]) -> usize {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap().len()
}

#[test]
fn no_two_of_two_thousand_pages_are_equal_and_they_compress_as_pages_do() {
    let world = World::new(WorldSpec {
        hosts: 30,
        pages: 2_400,
        robots_rules: 0.0,
        ..WorldSpec::default()
    });
    let pages = pages(&world);
    assert!(pages.len() >= 2_000, "{} pages", pages.len());
    let mut bodies = BTreeSet::new();
    let mut sizes = Vec::new();
    let (mut plain, mut packed) = (0, 0);
    for (n, place) in pages.iter().take(2_000).enumerate() {
        let body = body(&ask(&world, place, 0));
        sizes.push(body.len());
        if n % 10 == 0 {
            plain += body.len();
            packed += gzip6(&body);
        }
        assert!(bodies.insert(body), "{place} is the same as another page");
    }
    let ratio = plain as f64 / packed as f64;
    assert!((4.0..7.0).contains(&ratio), "gzip ratio {ratio:.2}");
    sizes.sort_unstable();
    let (least, middle, most) = (sizes[0], sizes[1_000], sizes[1_999]);
    assert!(least >= 4_500 && most <= 66_000, "{least} to {most} bytes");
    assert!((17_000..23_000).contains(&middle), "median {middle}");
}

#[test]
fn another_seed_is_another_world() {
    let world = |seed| World::new(WorldSpec { seed, ..WorldSpec::default() });
    let first = |world: &World| body(&ask(world, &Place::parse(&world.seeds(1)[0]).unwrap(), 0));
    assert_eq!(first(&world(1)), first(&world(1)));
    assert_ne!(first(&world(1)), first(&world(2)));
}

#[test]
fn every_page_of_a_healthy_world_can_be_reached_and_is_what_its_links_say() {
    let world = World::new(WorldSpec { robots_rules: 0.0, ..WorldSpec::tiny(3, 40, 1_000) });
    let pages = pages(&world);
    assert!(pages.len() >= 980 && pages.len() <= 1_000, "{} of 1000", pages.len());
    for place in &pages {
        let plan = ask(&world, place, 0);
        assert_eq!(plan.status, 200, "{place}");
        // The oracle's links and those in the text are the same.
        let text = String::from_utf8(body(&plan)).unwrap();
        let mut written: Vec<_> = text
            .split("href=\"")
            .skip(1)
            .map(|rest| place.join(rest.split('"').next().unwrap()).unwrap().to_string())
            .collect();
        let lycosa_simweb::truth::Course::Answers { links, .. } = world.course(place) else {
            panic!("{place} answers")
        };
        let mut known: Vec<_> = links.iter().map(|link| link.to.to_string()).collect();
        written.sort();
        known.sort();
        assert_eq!(written, known, "{place}");
    }
}

#[test]
fn urls_of_a_world_are_canonical_already() {
    let world = World::new(WorldSpec::tiny(5, 40, 1_000).with_ports(8_080, 8_443, 8_666));
    for place in pages(&world) {
        let url = place.to_string();
        assert_eq!(types::CrawlUrl::parse(&url).unwrap().as_str(), url);
    }
}

#[test]
fn every_kind_of_fault_occurs_and_can_be_reached() {
    for seed in [1, 2] {
        let spec = WorldSpec::tiny(seed, 400, 8_000).with_faults(Faults::all());
        let world = World::new(spec);
        let oracle = world.oracle(&world.seeds(1), &Rules::default());
        let mut found: BTreeMap<FaultKind, u32> = BTreeMap::new();
        for place in oracle.expected.keys().filter_map(|url| Place::parse(url)) {
            if let Some(fault) = world.fault_at(&place.host, &place.target) {
                *found.entry(fault).or_default() += 1;
            }
        }
        let missing: Vec<_> =
            FaultKind::ALL.iter().filter(|kind| !found.contains_key(kind)).collect();
        assert!(missing.is_empty(), "seed {seed}: no {missing:?} in {found:?}");
        let counts = oracle.counts();
        for kind in ["archived", "forbidden", "refused", "deferred", "fails", "trap"] {
            assert!(counts.contains_key(kind), "seed {seed}: nothing {kind} in {counts:?}");
        }
    }
}

/// The first page with this fault in a world that has no other page fault.
fn page_with(kind: FaultKind) -> (World, Place) {
    let spec = WorldSpec { robots_rules: 0.0, ..WorldSpec::tiny(1, 4, 400) };
    let world = World::new(spec.with_faults(Faults::none().with(kind, 0.2)));
    let oracle = world.oracle(&world.seeds(1), &Rules::default());
    let place = oracle
        .expected
        .keys()
        .filter_map(|url| Place::parse(url))
        .find(|place| world.fault_at(&place.host, &place.target) == Some(kind))
        .unwrap_or_else(|| panic!("no page is {kind}"));
    (world, place)
}

#[test]
fn faults_that_pass_are_over_after_three_tries() {
    for (kind, status) in [
        (FaultKind::ErrorThenFine, 500),
        (FaultKind::Busy, 429),
        (FaultKind::Unavailable, 503),
        (FaultKind::UnavailableUntil, 503),
    ] {
        let (world, place) = page_with(kind);
        let first = ask(&world, &place, 0);
        assert_eq!(first.status, status, "{kind}");
        assert_eq!(ask(&world, &place, 2).status, 200, "{kind}");
        match kind {
            FaultKind::ErrorThenFine => {}
            FaultKind::UnavailableUntil => {
                let until =
                    Timestamp::from_http_date(first.header("retry-after").unwrap()).unwrap();
                let wait = until.since(Timestamp::from_secs(1_794_774_000)).as_secs();
                assert!((2..=4).contains(&wait), "{wait}");
            }
            _ => assert!(first.header("retry-after").unwrap().parse::<u32>().unwrap() <= 3),
        }
    }
}

#[test]
fn each_broken_answer_is_broken_in_its_way() {
    let plan = |kind| {
        let (world, place) = page_with(kind);
        ask(&world, &place, 0)
    };
    assert_eq!(plan(FaultKind::Mute).fate, Fate::Mute);
    assert_eq!(plan(FaultKind::Reset).fate, Fate::Reset(None));
    assert!(matches!(plan(FaultKind::Cut).fate, Fate::Cut(Some(1..))));
    assert!(matches!(plan(FaultKind::Torn).fate, Fate::Reset(Some(1..))));
    assert_eq!(plan(FaultKind::NotHttp).framing, Framing::Raw);
    assert!(plan(FaultKind::Slow).delay.as_secs() >= 2);
    assert!(plan(FaultKind::Drip).drip.is_some());
    assert!(plan(FaultKind::Huge).body.len() > 15 << 20);
    assert_eq!(plan(FaultKind::Endless).framing, Framing::Chunked);
    assert_eq!(plan(FaultKind::BrokenGzip).header("content-encoding"), Some("gzip"));
    assert_eq!(plan(FaultKind::Png).header("content-type"), Some("image/png"));
    assert_eq!(plan(FaultKind::NofollowHeader).header("x-robots-tag"), Some("nofollow"));
    let bytes = body(&plan(FaultKind::WrongCharset));
    let says_utf8 = plan(FaultKind::WrongCharset).header("content-type").unwrap().contains("utf-8");
    assert_eq!(String::from_utf8(bytes).is_err(), says_utf8);
}

#[test]
fn a_copy_has_the_same_bytes_as_another_page() {
    let (world, place) = page_with(FaultKind::Copy);
    let copy = body(&ask(&world, &place, 0));
    let all = world.oracle(&world.seeds(1), &Rules::default());
    let twins = all
        .archived()
        .filter_map(|(url, _)| Place::parse(url))
        .filter(|other| body(&ask(&world, other, 0)) == copy)
        .count();
    assert!(twins >= 2, "{place}");
}

#[test]
fn redirects_lead_where_the_oracle_says() {
    let (world, place) = page_with(FaultKind::RedirectFar);
    let oracle = world.oracle(&world.seeds(1), &Rules::default());
    let mut at = place;
    let mut hops = 0;
    while let plan = ask(&world, &at, 0)
        && let Some(location) = plan.header("location")
    {
        let expected = oracle.get(&at.to_string());
        if hops <= 5 {
            let archived =
                matches!(expected, Some(Expectation::Archived { status: 301..=308, .. }));
            assert!(archived, "{at}: {expected:?}");
        } else {
            // The last one that is named, and then those beyond, which nobody hears of.
            assert!(
                matches!(expected, Some(Expectation::Refused { .. }) | None),
                "{at}: {expected:?}"
            );
        }
        at = at.join(location).unwrap();
        hops += 1;
    }
    assert!((6..=8).contains(&hops), "{hops}");
    let (world, place) = page_with(FaultKind::RedirectLoop);
    let step = |at: &Place| at.join(ask(&world, at, 0).header("location").unwrap()).unwrap();
    assert_eq!(step(&step(&step(&place))), place);
}

#[test]
fn robots_rules_mean_what_the_world_knows() {
    // A second, plain reader of robots.txt and the table by construction agree on every page.
    let spec = WorldSpec { robots_rules: 1.0, ..WorldSpec::tiny(9, 60, 3_000) };
    let world = World::new(spec);
    let open = World::new(WorldSpec { robots_rules: 0.0, ..world.spec().clone() });
    let (mut forbidden, mut checked) = (0, 0);
    for place in pages(&open) {
        let text = String::from_utf8(body(&ask(&world, &place.robots(), 0))).unwrap();
        let fixture = format!("--- {}\n{text}\n--- {}", place.robots(), place);
        let fixture = lycosa_simweb::Fixture::parse(&fixture).unwrap();
        for product in ["lycosa", "otherbot", "nobody"] {
            let (by_text, by_table) =
                (fixture.robots(&place, product), world.robots(&place, product));
            // Only `lycosa` is invited by name in the table.
            if product == "otherbot" && text.contains("otherbot") {
                continue;
            }
            assert_eq!(by_text, by_table, "{place} for {product}:\n{text}");
            forbidden += u32::from(by_text == lycosa_simweb::truth::Access::Forbidden);
            checked += 1;
        }
    }
    assert!(checked > 5_000 && forbidden > 500, "{forbidden} of {checked}");
}

#[test]
fn robots_faults_mean_what_the_world_knows() {
    for kind in FaultKind::ALL.iter().filter(|kind| kind.name().starts_with("robots-")) {
        let spec = WorldSpec { sitemaps: 0.0, ..WorldSpec::tiny(2, 30, 2_000) };
        let world = World::new(spec.with_faults(Faults::none().with(*kind, 1.0)));
        let host = world.host_name(29);
        assert_eq!(world.fault_at(&host, "/"), Some(*kind));
        // Written down as a fixture, with every file on the way.
        let home = Place::parse(&world.seeds(30)[29]).unwrap();
        let mut text = String::new();
        let first = Place::parse(&world.seeds(1)[0]).unwrap();
        let mut files = vec![first.join("/robots-shared.txt").unwrap(), home.robots()];
        files.extend((1..10).map(|hop| home.join(&format!("/robots-{hop}.txt")).unwrap()));
        for file in files {
            let plan = ask(&world, &file, 9);
            let location =
                plan.header("location").map(|to| format!("Location: {to}")).unwrap_or_default();
            let fate = match plan.fate {
                Fate::Mute => "mute",
                Fate::Reset(_) => "reset",
                _ => "",
            };
            let body = String::from_utf8(body(&plan)).unwrap();
            text.push_str(&format!("--- {file} {} {location} {fate}\n{body}\n", plan.status));
        }
        let fixture = lycosa_simweb::Fixture::parse(&text).unwrap();
        for path in ["/", "/private/x-1", "/news/y-2"] {
            let place = home.join(path).unwrap();
            let by_text = fixture.robots(&place, "lycosa");
            // Only pages that exist have a shape; `/private/x-1` does not, so take one that does.
            if path == "/private/x-1" {
                continue;
            }
            assert_eq!(by_text, world.robots(&place, "lycosa"), "{kind}: {path}\n");
        }
        let private = fixture.robots(&home.join("/private/x").unwrap(), "lycosa");
        let table = world.robots(&home, "lycosa");
        use lycosa_simweb::truth::Access;
        match kind {
            FaultKind::RobotsDenied
            | FaultKind::RobotsFar
            | FaultKind::RobotsLoop
            | FaultKind::RobotsHtml => {
                assert_eq!((private, table), (Access::Allowed, Access::Allowed), "{kind}");
            }
            FaultKind::RobotsError
            | FaultKind::RobotsBusy
            | FaultKind::RobotsMute
            | FaultKind::RobotsReset => {
                assert_eq!((private, table), (Access::Unreachable, Access::Unreachable), "{kind}");
            }
            _ => assert_eq!((private, table), (Access::Forbidden, Access::Allowed), "{kind}"),
        }
    }
}

#[test]
fn hosts_that_cannot_be_reached_say_why() {
    let with = |kind| {
        let world =
            World::new(WorldSpec::tiny(1, 30, 100).with_faults(Faults::none().with(kind, 1.0)));
        let name = world.host_name(29);
        (world.resolve(&name), world.door(&name, 80, false), world.seeds(30).pop().unwrap())
    };
    assert_eq!(with(FaultKind::NoSuchName).0, Dns::NoSuchName);
    assert_eq!(with(FaultKind::DnsFailure).0, Dns::ServerFailure);
    let Dns::Addresses { addresses, .. } = with(FaultKind::PrivateAddress).0 else {
        panic!("it resolves")
    };
    assert_eq!(addresses[0].to_string(), "10.0.0.1");
    let (_, door, url) = with(FaultKind::Refused);
    assert_eq!(door, Door::Refused);
    assert!(url.ends_with(":8666/"), "{url}");
    let (_, door, url) = with(FaultKind::BadCertificate);
    assert_eq!(door, Door::BadCertificate);
    assert!(url.starts_with("https://"), "{url}");
}

#[test]
fn a_page_that_has_not_changed_says_so() {
    let world =
        World::new(WorldSpec { changing: 1.0, change_secs: 100, ..WorldSpec::tiny(1, 5, 50) });
    let place =
        pages(&world).into_iter().find(|p| ask(&world, p, 0).header("etag").is_some()).unwrap();
    let get = |etag: &str, secs| {
        world.answer(&Ask {
            host: &place.host,
            port: place.port,
            tls: place.tls,
            target: &place.target,
            headers: &[("if-none-match", etag)],
            nth: 0,
            at: Timestamp::from_secs(secs),
        })
    };
    let first = get("", 1_000);
    let etag = first.header("etag").unwrap();
    assert_eq!(get(etag, 1_050).status, 304);
    let later = get(etag, 1_100);
    assert_eq!(later.status, 200);
    assert_ne!(body(&later), body(&first));
}

#[test]
fn scope_and_depth_bound_what_is_expected() {
    let world = World::new(WorldSpec::tiny(1, 30, 600));
    let seeds = world.seeds(1);
    let count = |scope, max_depth| {
        world.oracle(&seeds, &Rules { scope, max_depth, ..Rules::default() }).expected.len()
    };
    assert_eq!(count(Scope::Any, 0), 1);
    let (host, domain, any) =
        (count(Scope::Host, 99), count(Scope::Domain, 99), count(Scope::Any, 99));
    assert!(host < domain && domain < any, "{host} {domain} {any}");
    assert!(count(Scope::Any, 1) < count(Scope::Any, 2));
}

#[test]
fn an_endless_world_goes_on_and_on() {
    let world = World::new(WorldSpec { endless: true, ..WorldSpec::tiny(1, 10, 0) });
    let mut place = Place::parse(&world.seeds(1)[0]).unwrap();
    for _ in 0..10 {
        let plan = ask(&world, &place, 0);
        assert_eq!(plan.status, 200, "{place}");
        let text = String::from_utf8(body(&plan)).unwrap();
        // The last child leads deepest.
        let deepest = text.split("href=\"/").skip(1).filter_map(|rest| {
            let target = format!("/{}", rest.split('"').next()?);
            let number: u64 = target
                .rsplit(|c: char| !c.is_ascii_digit())
                .find(|d| !d.is_empty())?
                .parse()
                .ok()?;
            Some((number, target))
        });
        place = place.join(&deepest.max().unwrap().1).unwrap();
    }
    assert!(place.target.len() > 10, "{place}");
}
