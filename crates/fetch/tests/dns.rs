//! Names become addresses: remembered, bounded, guarded.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use lycosa_fetch::{DnsResolver, DnsSettings, Guard, NetworkSettings, Upstream};
use ports::{Clock, Resolution, Resolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Notify;
use types::{HostKey, HumanDuration, Timestamp};

/// A clock that stands still until it is moved.
struct StillClock(AtomicU64);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

impl StillClock {
    fn advance(&self, span: Duration) {
        self.0.fetch_add(span.as_micros() as u64, Ordering::SeqCst);
    }
}

const START: Timestamp = Timestamp::from_secs(1_000_000);

enum Reply {
    /// Those of the kind that was asked for are given.
    Addresses(&'static [&'static str], u32),
    /// An alias, then an address.
    Alias(&'static str, &'static str, u32),
    /// An alias, and whoever wants more must ask for it.
    AliasAlone(&'static str, u32),
    No(ResponseCode),
    Silence,
    /// Only TCP can carry it.
    TooLong(&'static [&'static str]),
}

/// A question as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    name: String,
    kind: RecordType,
    tcp: bool,
}

struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl NameServer {
    async fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        // The same port for both; another process may have just taken the one for TCP.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answer = {
            let asked = Arc::clone(&asked);
            Arc::new(move |query: &[u8], tcp: bool| respond(query, tcp, &reply, &asked))
        };
        tokio::spawn({
            let answer = Arc::clone(&answer);
            async move {
                let mut buffer = [0; 4096];
                loop {
                    let (len, from) = udp.recv_from(&mut buffer).await.unwrap();
                    if let Some(reply) = answer(&buffer[..len], false) {
                        udp.send_to(&reply, from).await.unwrap();
                    }
                }
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = tcp.accept().await.unwrap();
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    while let Ok(len) = stream.read_u16().await {
                        let mut query = vec![0; len.into()];
                        stream.read_exact(&mut query).await.unwrap();
                        if let Some(reply) = answer(&query, true) {
                            stream.write_u16(reply.len().try_into().unwrap()).await.unwrap();
                            stream.write_all(&reply).await.unwrap();
                        }
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// Different questions. A datagram may be sent again when the machine is busy.
    fn asked(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().enumerate().filter(|(n, question)| !asked[..*n].contains(question)).count()
    }
}

fn respond(
    query: &[u8],
    tcp: bool,
    reply: &impl Fn(&str) -> Reply,
    asked: &Mutex<Vec<Question>>,
) -> Option<Vec<u8>> {
    let query = Message::from_vec(query).unwrap();
    let question = &query.queries[0];
    let (name, kind) = (question.name().clone(), question.query_type());
    let text = name.to_ascii().to_lowercase();
    asked.lock().unwrap().push(Question { name: text.clone(), kind, tcp });
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    message.metadata.recursion_available = true;
    message.add_query(question.clone());
    let mut add = |owner: &Name, addresses: &[&str], ttl| {
        for address in addresses {
            let data = RData::from(address.parse::<IpAddr>().unwrap());
            if data.record_type() == kind {
                message.add_answer(Record::from_rdata(owner.clone(), ttl, data));
            }
        }
    };
    match reply(&text) {
        Reply::Silence => return None,
        Reply::No(code) => message.metadata.response_code = code,
        Reply::Addresses(addresses, ttl) => add(&name, addresses, ttl),
        Reply::TooLong(addresses) if tcp => add(&name, addresses, 3600),
        Reply::TooLong(_) => message.metadata.truncation = true,
        Reply::AliasAlone(alias, ttl) => {
            let alias = CNAME(Name::from_ascii(alias).unwrap());
            message.add_answer(Record::from_rdata(name, ttl, RData::CNAME(alias)));
        }
        Reply::Alias(alias, address, ttl) => {
            let alias = Name::from_ascii(alias).unwrap();
            let record = Record::from_rdata(name, 60, RData::CNAME(CNAME(alias.clone())));
            message.add_answer(record);
            let data = RData::from(address.parse::<IpAddr>().unwrap());
            if data.record_type() == kind {
                message.add_answer(Record::from_rdata(alias, ttl, data));
            }
        }
    }
    Some(message.to_vec().unwrap())
}

struct World {
    resolver: Arc<DnsResolver>,
    clock: Arc<StillClock>,
}

fn world(servers: &[&NameServer], change: impl FnOnce(&mut DnsSettings)) -> World {
    let mut settings = DnsSettings {
        upstreams: servers.iter().map(|server| Upstream(server.address)).collect(),
        timeout: HumanDuration::from_secs(10),
        ..DnsSettings::default()
    };
    change(&mut settings);
    let guard = Arc::new(Guard::new(&NetworkSettings::default(), true));
    let clock = Arc::new(StillClock(AtomicU64::new(START.0)));
    let resolver = DnsResolver::new(&settings, guard, clock.clone()).unwrap();
    World { resolver: Arc::new(resolver), clock }
}

impl World {
    async fn resolve(&self, host: &str) -> Resolution {
        self.resolver.resolve(&HostKey::new(host)).await
    }

    async fn addresses(&self, host: &str) -> Vec<String> {
        match self.resolve(host).await {
            Resolution::Addresses { addresses, .. } => {
                addresses.iter().map(ToString::to_string).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn until(resolution: &Resolution) -> u64 {
    let until = match resolution {
        Resolution::Addresses { until, .. }
        | Resolution::Forbidden { until, .. }
        | Resolution::Failed { until, .. } => until,
    };
    until.since(START).as_secs()
}

#[tokio::test]
async fn both_kinds_are_asked_for_and_ipv4_goes_first() {
    let server =
        NameServer::start(|_| Reply::Addresses(&["2606:4700::1", "1.1.1.1", "1.0.0.1"], 3600))
            .await;
    let world = world(&[&server], |_| ());
    assert_eq!(world.addresses("www.example.org").await, ["1.1.1.1", "1.0.0.1", "2606:4700::1"]);
    assert_eq!(server.asked(), 2);
    let asked = server.asked.lock().unwrap().clone();
    for kind in [RecordType::A, RecordType::AAAA] {
        let name = "www.example.org.".to_owned();
        assert!(asked.contains(&Question { name, kind, tcp: false }), "{asked:?}");
    }
}

#[tokio::test]
async fn the_time_to_live_is_held_within_bounds() {
    let server = NameServer::start(|name| match name {
        "short." => Reply::Addresses(&["1.1.1.1"], 1),
        "middle." => Reply::Addresses(&["1.1.1.1"], 3600),
        "long." => Reply::Addresses(&["1.1.1.1"], 1_000_000),
        "alias." => Reply::Alias("target.", "1.1.1.1", 1_000),
        _ => Reply::No(ResponseCode::NXDomain),
    })
    .await;
    let world = world(&[&server], |settings| settings.ttl_min = HumanDuration::from_secs(30));
    assert_eq!(until(&world.resolve("short").await), 30);
    assert_eq!(until(&world.resolve("middle").await), 3600);
    assert_eq!(until(&world.resolve("long").await), 86_400);
    // The alias itself may change sooner than what it leads to.
    assert_eq!(until(&world.resolve("alias").await), 60);
}

#[tokio::test]
async fn an_answer_is_remembered_until_its_time_is_over() {
    let server = NameServer::start(|_| Reply::Addresses(&["1.1.1.1"], 600)).await;
    let world = world(&[&server], |_| ());
    let first = world.resolve("a.test").await;
    world.clock.advance(Duration::from_secs(599));
    assert_eq!(world.resolve("a.test").await, first);
    assert_eq!(world.resolver.stats().queries, 1);
    world.clock.advance(Duration::from_secs(1));
    world.resolve("a.test").await;
    let stats = world.resolver.stats();
    assert_eq!((stats.hits, stats.queries, stats.failed, stats.entries), (1, 2, 0, 1));
    assert_eq!(stats.latency.iter().sum::<u64>(), 2);
}

#[tokio::test]
async fn that_there_is_no_answer_is_remembered_too() {
    let server = NameServer::start(|name| match name {
        "gone.test." => Reply::No(ResponseCode::NXDomain),
        "empty.test." => Reply::Addresses(&[], 600),
        _ => Reply::No(ResponseCode::ServFail),
    })
    .await;
    let world = world(&[&server], |settings| settings.attempts = 1);
    for (host, why, secs) in [
        ("gone.test", "no such name", 300),
        ("empty.test", "the name has no address", 300),
        ("ill.test", "", 30),
        ("not_ascii.ü", "not a name that DNS can carry", 300),
    ] {
        let resolution = world.resolve(host).await;
        assert_eq!(until(&resolution), secs, "{host}: {resolution:?}");
        let Resolution::Failed { why: said, .. } = &resolution else { panic!("{resolution:?}") };
        assert!(said.contains(why), "{host}: {said}");
        let queries = world.resolver.stats().queries;
        assert_eq!(world.resolve(host).await, resolution);
        assert_eq!(world.resolver.stats().queries, queries, "{host} is asked again");
    }
}

#[tokio::test]
async fn many_who_ask_at_once_cause_one_query() {
    let server = NameServer::start(|_| Reply::Addresses(&["1.1.1.1"], 600)).await;
    let world = world(&[&server], |_| ());
    let askers: Vec<_> = (0..100)
        .map(|_| {
            let resolver = Arc::clone(&world.resolver);
            tokio::spawn(async move { resolver.resolve(&HostKey::new("a.test")).await })
        })
        .collect();
    for asker in askers {
        assert!(matches!(asker.await.unwrap(), Resolution::Addresses { .. }));
    }
    assert_eq!(server.asked(), 2);
    assert_eq!(world.resolver.stats().queries, 1);
}

#[tokio::test]
async fn an_asker_who_goes_away_leaves_the_question_to_the_next() {
    let asked = Arc::new(Notify::new());
    let server = NameServer::start({
        let asked = Arc::clone(&asked);
        let first = AtomicU64::new(0);
        move |_| {
            asked.notify_one();
            match first.fetch_add(1, Ordering::SeqCst) {
                // The first query for both kinds is lost.
                0 | 1 => Reply::Silence,
                _ => Reply::Addresses(&["1.1.1.1"], 600),
            }
        }
    })
    .await;
    let world = world(&[&server], |settings| {
        settings.timeout = HumanDuration::from_secs(60);
    });
    let host = HostKey::new("a.test");
    let mut first = world.resolver.resolve(&host);
    let second = world.resolver.resolve(&host);
    tokio::select! {
        biased;
        _ = &mut first => panic!("nobody answered"),
        () = asked.notified() => {}
    }
    drop(first);
    assert!(matches!(second.await, Resolution::Addresses { .. }));
}

#[tokio::test]
async fn a_server_that_cannot_tell_is_left_for_the_next_one() {
    for bad in [
        || Reply::Silence,
        || Reply::No(ResponseCode::ServFail),
        || Reply::No(ResponseCode::Refused),
    ] {
        let ill = NameServer::start(move |_| bad()).await;
        let well = NameServer::start(|_| Reply::Addresses(&["1.1.1.1"], 600)).await;
        let world = world(&[&ill, &well], |settings| {
            settings.timeout = HumanDuration::from_millis(300);
            settings.attempts = 3;
        });
        assert_eq!(world.addresses("a.test").await, ["1.1.1.1"]);
        let asked = ill.asked();
        assert!(asked > 0);
        // The one that answered is asked first from now on.
        assert_eq!(world.addresses("b.test").await, ["1.1.1.1"]);
        assert_eq!(ill.asked(), asked);
    }
}

#[tokio::test]
async fn an_answer_too_long_for_udp_comes_by_tcp() {
    let server = NameServer::start(|_| Reply::TooLong(&["1.1.1.1", "2606:4700::1"])).await;
    let world = world(&[&server], |_| ());
    assert_eq!(world.addresses("a.test").await, ["1.1.1.1", "2606:4700::1"]);
    assert!(server.asked.lock().unwrap().iter().any(|question| question.tcp));
}

#[tokio::test]
async fn forbidden_addresses_are_never_handed_out() {
    let server = NameServer::start(|name| match name {
        "mixed.test." => Reply::Addresses(&["10.0.0.1", "1.1.1.1", "fd00::1"], 600),
        "inside.test." => Reply::Addresses(&["fd00::1", "192.168.0.1"], 600),
        "alias.test." => Reply::Alias("target.", "169.254.169.254", 600),
        "mapped.test." => Reply::Addresses(&["::ffff:1.1.1.1", "::ffff:127.0.0.1"], 600),
        _ => Reply::No(ResponseCode::NXDomain),
    })
    .await;
    let world = world(&[&server], |_| ());
    assert_eq!(world.addresses("mixed.test").await, ["1.1.1.1"]);
    assert_eq!(world.addresses("mapped.test").await, ["1.1.1.1"]);
    for (host, address, range) in [
        ("inside.test", "192.168.0.1", "192.168.0.0/16 (private use)"),
        ("alias.test", "169.254.169.254", "169.254.0.0/16 (link local)"),
    ] {
        match world.resolve(host).await {
            Resolution::Forbidden { address: found, range: said, .. } => {
                assert_eq!((found.to_string(), &*said), (address.to_owned(), range));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn addresses_and_localhost_need_no_server() {
    let server = NameServer::start(|_| Reply::Silence).await;
    let world = world(&[&server], |_| ());
    assert_eq!(world.addresses("1.1.1.1").await, ["1.1.1.1"]);
    assert_eq!(world.addresses("[2606:4700::1]").await, ["2606:4700::1"]);
    for host in ["127.0.0.1", "[::1]", "localhost", "www.localhost", "[::ffff:10.0.0.1]"] {
        let resolution = world.resolve(host).await;
        assert!(matches!(resolution, Resolution::Forbidden { .. }), "{host}: {resolution:?}");
    }
    assert_eq!(server.asked(), 0);
}

#[test]
fn a_resolver_can_be_made_before_there_is_a_runtime() {
    let settings =
        DnsSettings { upstreams: vec!["127.0.0.1:53".parse().unwrap()], ..DnsSettings::default() };
    let guard = Arc::new(Guard::new(&NetworkSettings::default(), true));
    DnsResolver::new(&settings, guard, Arc::new(StillClock(AtomicU64::new(0)))).unwrap();
}

#[tokio::test]
async fn only_so_many_names_are_remembered() {
    let server = NameServer::start(|_| Reply::Addresses(&["1.1.1.1"], 600)).await;
    let world = world(&[&server], |settings| settings.cache_entries_max = 10);
    for n in 0..30 {
        world.resolve(&format!("h{n}.test")).await;
    }
    assert_eq!(world.resolver.stats().entries, 10);
    world.resolve("h29.test").await;
    assert_eq!(world.resolver.stats().queries, 30);
    world.resolve("h0.test").await;
    assert_eq!(world.resolver.stats().queries, 31);
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_costs_no_name() {
    let dead = Arc::new(AtomicBool::new(false));
    let mortal = NameServer::start({
        let dead = Arc::clone(&dead);
        move |_| match dead.load(Ordering::SeqCst) {
            true => Reply::Silence,
            false => Reply::Addresses(&["1.1.1.1"], 600),
        }
    })
    .await;
    let other = NameServer::start(|_| Reply::Addresses(&["1.1.1.1"], 600)).await;
    let world = world(&[&mortal, &other], |settings| {
        settings.timeout = HumanDuration::from_millis(500);
        settings.attempts = 5;
    });
    let mut askers = Vec::new();
    for n in 0..200 {
        if n == 100 {
            dead.store(true, Ordering::SeqCst);
        }
        let resolver = Arc::clone(&world.resolver);
        let host = HostKey::new(&format!("h{n}.test"));
        let asker = tokio::spawn(async move { resolver.resolve(&host).await });
        match n < 50 {
            // Some before, the rest all at once.
            true => assert!(matches!(asker.await.unwrap(), Resolution::Addresses { .. })),
            false => askers.push(asker),
        }
    }
    for asker in askers {
        let resolution = asker.await.unwrap();
        assert!(matches!(resolution, Resolution::Addresses { .. }), "{resolution:?}");
    }
    assert_eq!(world.resolver.stats().failed, 0);
    assert!(mortal.asked() >= 50 && other.asked() >= 50);
}

#[tokio::test]
async fn a_sick_server_is_not_waited_for_and_is_asked_again_later() {
    let mute = NameServer::start(|_| Reply::Silence).await;
    let well = NameServer::start(|name| match name.starts_with("ill") {
        true => Reply::No(ResponseCode::ServFail),
        false => Reply::Addresses(&["1.1.1.1"], 600),
    })
    .await;
    let world = world(&[&mute, &well], |settings| {
        settings.timeout = HumanDuration::from_millis(500);
        settings.attempts = 2;
    });
    assert_eq!(world.addresses("a.test").await, ["1.1.1.1"]);
    assert_eq!(world.resolver.stats().sick, 1);
    let asked = mute.asked();
    // The other cannot tell; the sick one would only be waited for.
    assert!(matches!(world.resolve("ill-1.test").await, Resolution::Failed { .. }));
    assert_eq!(mute.asked(), asked);
    // When it may be well again, it is asked, and is sick for longer.
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(world.resolver.stats().sick, 0);
    assert!(matches!(world.resolve("ill-2.test").await, Resolution::Failed { .. }));
    assert!(mute.asked() > asked);
    world.clock.advance(Duration::from_millis(1500));
    assert_eq!(world.resolver.stats().sick, 1);
}

#[tokio::test]
async fn a_server_that_is_alone_is_asked_though_it_is_sick() {
    let dead = Arc::new(AtomicBool::new(true));
    let server = NameServer::start({
        let dead = Arc::clone(&dead);
        move |_| match dead.load(Ordering::SeqCst) {
            true => Reply::Silence,
            false => Reply::Addresses(&["1.1.1.1"], 600),
        }
    })
    .await;
    let world = world(&[&server], |settings| {
        settings.timeout = HumanDuration::from_millis(500);
        settings.attempts = 1;
    });
    assert!(matches!(world.resolve("a.test").await, Resolution::Failed { .. }));
    assert_eq!(world.resolver.stats().sick, 1);
    dead.store(false, Ordering::SeqCst);
    assert_eq!(world.addresses("b.test").await, ["1.1.1.1"]);
    assert_eq!(world.resolver.stats().sick, 0);
}

/// Names as links bring them: few are met again and again, most seldom.
fn link_stream(names: usize, count: usize, seed: u64) -> impl Iterator<Item = HostKey> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        HostKey::new(&format!("h{}.test", (names as f64).powf(unit) as usize))
    })
}

/// The size of a release is `cargo xtask names`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_links_is_answered_from_memory_though_a_server_dies() {
    const ASKERS: usize = 16;
    let names = std::env::var("LYCOSA_NAMES").map_or(2_000, |text| text.parse().unwrap());
    let dead = Arc::new(AtomicBool::new(false));
    let mortal = NameServer::start({
        let dead = Arc::clone(&dead);
        move |_| match dead.load(Ordering::SeqCst) {
            true => Reply::Silence,
            false => Reply::Addresses(&["1.1.1.1"], 600),
        }
    })
    .await;
    let other = NameServer::start(|_| Reply::Addresses(&["1.1.1.1"], 600)).await;
    let world = world(&[&mortal, &other], |settings| {
        settings.timeout = HumanDuration::from_secs(2);
        settings.attempts = 5;
        settings.cache_entries_max = names + 1;
    });
    let run = async |each: usize, seed: usize| {
        let mut askers = tokio::task::JoinSet::new();
        for asker in 0..ASKERS {
            let resolver = Arc::clone(&world.resolver);
            askers.spawn(async move {
                for host in link_stream(names, each, (seed + asker) as u64) {
                    let found = resolver.resolve(&host).await;
                    assert!(matches!(found, Resolution::Addresses { .. }), "{host}: {found:?}");
                }
            });
        }
        askers.join_all().await;
        world.resolver.stats()
    };
    run(names * 10 / ASKERS, 1).await;
    dead.store(true, Ordering::SeqCst);
    let warm = run(names * 10 / ASKERS, 101).await;
    let stats = run(names * 10 / ASKERS, 201).await;
    let (hits, queries) = (stats.hits - warm.hits, stats.queries - warm.queries);
    let share = hits as f64 / (hits + queries) as f64;
    println!(
        "{names} names, {} in memory: {:.2} % of {} look-ups answered from there, {} queries failed",
        stats.entries,
        share * 100.0,
        hits + queries,
        stats.failed
    );
    assert!(share >= 0.95, "{share}");
    assert_eq!(stats.failed, 0);
}

#[tokio::test]
async fn an_answer_is_renewed_before_its_end_and_kept_when_nobody_can_tell() {
    let stage = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&stage);
    let server = NameServer::start(move |_| match seen.load(Ordering::SeqCst) {
        0 => Reply::Addresses(&["1.1.1.1"], 600),
        1 => Reply::Addresses(&["1.0.0.1"], 3_600),
        _ => Reply::No(ResponseCode::ServFail),
    })
    .await;
    let world = world(&[&server], |_| ());
    let host = HostKey::new("a.test");
    assert_eq!(until(&world.resolve("a.test").await), 600);
    stage.store(1, Ordering::SeqCst);
    world.clock.advance(Duration::from_secs(500));
    assert_eq!(until(&world.resolve("a.test").await), 600, "it still holds");
    assert_eq!(until(&world.resolver.renew(&host).await), 500 + 3_600);
    assert_eq!(world.addresses("a.test").await, ["1.0.0.1"]);
    stage.store(2, Ordering::SeqCst);
    let failed = world.resolver.renew(&host).await;
    assert!(matches!(failed, Resolution::Failed { .. }), "{failed:?}");
    assert_eq!(world.addresses("a.test").await, ["1.0.0.1"], "what is remembered stays");
}

#[tokio::test]
async fn a_chain_of_aliases_is_followed_to_its_end_and_holds_as_long_as_its_weakest_link() {
    let server = NameServer::start(|name| match name {
        "one.test." => Reply::AliasAlone("two.test.", 3_000),
        "two.test." => Reply::AliasAlone("three.test.", 30),
        "three.test." => Reply::Alias("four.test.", "1.1.1.1", 3_600),
        "four.test." => Reply::Addresses(&["1.1.1.1"], 3_600),
        "round.test." => Reply::AliasAlone("about.test.", 3_000),
        "about.test." => Reply::AliasAlone("round.test.", 3_000),
        _ => Reply::No(ResponseCode::NXDomain),
    })
    .await;
    let world = world(&[&server], |settings| settings.ttl_min = HumanDuration::from_secs(1));
    assert_eq!(world.addresses("one.test").await, ["1.1.1.1"]);
    assert_eq!(until(&world.resolve("one.test").await), 30);
    let round = world.resolve("round.test").await;
    assert!(matches!(round, Resolution::Failed { .. }), "{round:?}");
    let asked = server.asked.lock().unwrap().iter().filter(|q| q.name.contains("ou")).count();
    assert!(asked <= 64, "{asked} questions for names that lead to each other");
}
