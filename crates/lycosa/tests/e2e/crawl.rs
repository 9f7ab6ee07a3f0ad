//! Whole crawls by the real binary, of tiny webs on real sockets.

use std::process::Stdio;

use crate::common::{Ran, Site, filtered, lycosa, run, signal, wait_for_line, wait_until};
use expect_test::expect;

const SMALL: &str = "\
--- a.test/robots.txt
User-agent: *
Disallow: /secret
--- a.test/
<title>Home</title><a href=/one>1</a> <a href=/secret/x>s</a> <a href=/gone>g</a>
<a href=http://b.test:PORT/>elsewhere</a> <a href=/moved>m</a>
--- a.test/one
<a href=/two rel=nofollow>2</a> <a href=/>home</a> <a href=mailto:me@a.test>write</a>
--- a.test/two
never
--- a.test/moved 302 Location: /one
--- b.test/
<a href=/more>more</a>
--- b.test/more
more";

#[test]
fn a_small_site_is_crawled_archived_reported_and_explained() {
    let site = Site::fixture(SMALL);
    let home = site.url("a.test", "/");
    let ran = site.crawl(&[&home]).exits(0);
    assert_eq!(ran.out, "", "data goes to stdout, and there is none");
    let ran = ran.says("done: 4 pages");

    let mut paths: Vec<String> =
        site.journal().iter().map(|entry| entry.path.to_string()).collect();
    paths.sort();
    assert_eq!(paths, ["/", "/gone", "/moved", "/one", "/robots.txt"]);

    let report = site.report();
    assert_eq!(report["ending"], "done");
    assert_eq!(report["exit_code"], 0);
    assert_eq!(report["totals"]["pages"], 4);
    assert_eq!(report["statuses"]["200"], 2);
    assert_eq!(report["statuses"]["404"], 1);
    assert_eq!(report["urls"]["refused"]["robots"], 1);
    for (name, want) in [("fetched", 2), ("moved", 1), ("gone", 1)] {
        assert_eq!(report["urls"][name], want, "{name}");
        assert_eq!(report["urls"]["hosts"][0][name], want, "{name} of its only host");
    }
    assert_eq!(report["links_skipped"]["crawl.scope"], 1);
    assert_eq!(report["links_skipped"]["nofollow"], 1);
    assert_eq!(report["links_skipped"]["scheme"], 1, "a mailto: link");
    assert_eq!(report["archive"][0]["file"], "lycosa-00-00000.warc.gz");
    assert_eq!(report["settings"]["politeness.delay"], "0s");

    let archive = "crawl/archive/lycosa-00-00000.warc.gz";
    site.run(&["warc", "check", archive]).exits(0).prints(": ok");
    let listed = site.run(&["warc", "ls", archive]).exits(0);
    assert_eq!(listed.out.lines().filter(|line| line.contains(" response ")).count(), 5);
    let index = std::fs::read_to_string(site.dir().join("indexes/lycosa-00-00000.cdxj")).unwrap();
    assert_eq!(index.lines().count(), 5, "{index}");
    assert_eq!(index.matches("\"mime\"").count(), 5, "{index}");
    let skipped = std::fs::read_to_string(site.dir().join("reports/skipped.jsonl")).unwrap();
    assert!(skipped.contains("/secret/x") && skipped.contains("Disallow: /secret"), "{skipped}");
    assert!(ran.err.contains("lycosa explain crawl URL"));

    explains(&site);
    site.run(&["status", "crawl"]).exits(0).prints("at rest").prints("pages     4 ");
}

fn explains(site: &Site) {
    let ask = |host: &str, path: &str| site.run(&["explain", "crawl", &site.url(host, path)]);
    let shown = |ran: Ran| filtered(&ran.out, site);
    let fetched = shown(ask("a.test", "/one").exits(0));
    assert!(fetched.contains("fetched: answered 200"), "{fetched}");
    assert!(
        fetched.contains("lycosa warc get crawl/archive/lycosa-00-00000.warc.gz "),
        "{fetched}"
    );
    let gone = shown(ask("a.test", "/gone").exits(0));
    assert!(gone.contains("gone: the server answered 404"), "{gone}");
    let moved = shown(ask("a.test", "/moved").exits(0));
    assert!(moved.contains("moved: redirects (302) to http://a.test:PORT/one"), "{moved}");

    let refused = shown(ask("a.test", "/secret/x").exits(0));
    let lines: Vec<&str> = refused.lines().take(5).collect();
    expect![[r#"
        http://a.test:PORT/secret/x
          state    refused: robots.txt line 2: `Disallow: /secret`
          found    TIME at depth 1
          scope    in: crawl.scope = host
          robots   forbidden by line 2: `Disallow: /secret` (http://a.test:PORT/robots.txt, fetched TIME, asked again after TIME)"#]]
    .assert_eq(&lines.join("\n"));

    let unknown = shown(ask("a.test", "/nobody").exits(1));
    assert!(unknown.contains("unknown: it would be in scope"), "{unknown}");
    // A link to this one was met, and not taken.
    let nofollow = shown(ask("a.test", "/two").exits(1));
    assert!(!nofollow.contains("no page that was visited leads to it"), "{nofollow}");
    for rule in ["nofollow", "an image", "crawl.max_depth = 15", "fetch.redirects_max = 5"] {
        assert!(nofollow.contains(rule), "{rule}: {nofollow}");
    }
    assert!(nofollow.contains("Add it as a seed"), "{nofollow}");
    // A seed would not help here.
    let forbidden = shown(ask("a.test", "/secret/unlinked").exits(1));
    assert!(
        forbidden.contains("no link to it was taken; robots.txt line 2 would forbid it: `Disallow"),
        "{forbidden}"
    );
    assert!(!forbidden.contains("seed"), "{forbidden}");
    let robots = shown(ask("a.test", "/robots.txt").exits(0));
    assert!(
        robots.contains("robots.txt: asked for as robots.txt, not as a page")
            && robots.contains("it has rules (fetched TIME"),
        "{robots}"
    );
    let outside = shown(ask("c.test", "/").exits(1));
    assert!(outside.contains("crawl.scope = host: host c.test is not a seed's"), "{outside}");
    ask("a.test", "/one").exits(0);
    let json = site.run(&["explain", "crawl", &site.url("a.test", "/one"), "--json"]).exits(0);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["state"], "fetched");
}

#[test]
fn a_robots_txt_that_could_not_be_read_was_asked_for_not_fetched() {
    let site = Site::fixture("--- a.test/robots.txt 503\nnot now\n--- a.test/\nhello");
    let home = site.url("a.test", "/");
    site.crawl(&[&home]).exits(1).says("no seed could be fetched");
    let told = filtered(&site.run(&["explain", "crawl", &home]).exits(0).out, &site);
    assert!(told.contains("nothing may be fetched: robots.txt is unreachable"), "{told}");
    assert!(told.contains("/robots.txt, asked TIME, asked again after TIME)"), "{told}");
    assert!(!told.contains("fetched TIME"), "{told}");
    let robots = site.url("a.test", "/robots.txt");
    let told = filtered(&site.run(&["explain", "crawl", &robots]).exits(0).out, &site);
    assert!(told.contains("it is unreachable, so nothing is fetched there"), "{told}");
    assert!(told.contains("(asked TIME"), "{told}");
}

#[test]
fn a_directory_is_resumed_only_when_it_is_named() {
    let site = Site::fixture(SMALL);
    let home = site.url("a.test", "/");
    site.crawl(&[&home]).exits(0);
    let flags = site.flags();
    let mut words = vec!["crawl", home.as_str()];
    words.extend(flags.iter().map(String::as_str));
    site.run(&words).exits(2).says("lycosa resume crawl");
    let before = site.journal().len();
    // Nothing is left to do, and nothing is asked again.
    site.run(&["resume", "crawl"]).exits(0);
    site.crawl(&[&home]).exits(0);
    assert_eq!(site.journal().len(), before);
    // A new seed is added.
    site.crawl(&[&site.url("b.test", "/")]).exits(0);
    assert_eq!(site.report()["totals"]["pages"], 6);
    site.crawl(&["-s", "store.shards=2"]).exits(4).says("was made with 1 and keeps it");
}

#[test]
fn a_wider_scope_takes_links_that_were_left_out() {
    let site = Site::fixture(SMALL);
    let home = site.url("a.test", "/");
    site.crawl(&[&home]).exits(0);
    site.crawl(&["--scope", "any"])
        .exits(0)
        .says("the rules have changed")
        .says("changed since the last run: crawl.scope = \"any\" (was \"host\"; --scope)");
    let hosts: Vec<String> = site.journal().iter().map(|entry| entry.url()).collect();
    assert!(hosts.contains(&site.url("b.test", "/")), "{hosts:?}");
    assert!(hosts.contains(&site.url("b.test", "/more")), "{hosts:?}");
    assert!(!hosts.contains(&site.url("a.test", "/two")), "nofollow stays nofollow");
    // Rules of robots.txt that are not obeyed any more.
    site.crawl(&["--ignore-robots"]).exits(0).says("NOT obeyed").says("1 refused URLs");
    let paths: Vec<String> = site.journal().iter().map(|entry| entry.path.to_string()).collect();
    assert!(paths.contains(&"/secret/x".to_owned()), "{paths:?}");
}

#[test]
fn a_custom_scope_without_include_takes_what_is_not_excluded() {
    let site = Site::fixture(SMALL);
    let home = site.url("a.test", "/");
    site.crawl(&[&home, "--scope", "custom"]).exits(4).says("crawl.include or crawl.exclude");
    site.crawl(&[&home, "--scope", "custom", "--exclude", "/more$"]).exits(0);
    let urls: Vec<String> = site.journal().iter().map(|entry| entry.url()).collect();
    assert!(urls.contains(&site.url("b.test", "/")), "{urls:?}");
    assert!(!urls.contains(&site.url("b.test", "/more")), "{urls:?}");
}

#[test]
fn links_that_cannot_be_judged_again_are_told() {
    // A raised limit finds the links of the last page again only in the archive.
    let site = Site::fixture(&chain(9));
    let first = site.url("a.test", "/0");
    let pages = || site.journal().iter().filter(|entry| !entry.is_robots()).count();
    site.crawl(&[&first, "-d", "1", "-s", "archive.enabled=false"]).exits(0);
    assert_eq!(pages(), 2);
    site.run(&["resume", "crawl", "-d", "2", "-s", "archive.enabled=true"])
        .exits(0)
        .says("the links of 2 pages cannot be judged again")
        .says("(2 not archived (archive.enabled = false))");
    assert_eq!(pages(), 2);
}

#[test]
fn links_in_archive_files_that_were_moved_away_are_told() {
    let site = Site::fixture(&chain(9));
    let first = site.url("a.test", "/0");
    site.crawl(&[&first, "-d", "2", "-s", "archive.file_bytes_max=1B"]).exits(0);
    // robots.txt has the first file, and each page one of the next.
    std::fs::remove_file(site.dir().join("archive/lycosa-00-00001.warc.gz")).unwrap();
    site.run(&["resume", "crawl", "-d", "3"])
        .exits(0)
        .says("the links of 1 page cannot be judged again")
        .says("(1 in 1 missing archive file, such as lycosa-00-00001.warc.gz)")
        // The files that are there are read.
        .says("1 new URLs of ");
    let ran = site.run(&["resume", "crawl", "--delay", "1ms"]).exits(0);
    assert!(!ran.err.contains("judged again"), "only changed rules ask: {}", ran.err);
}

fn chain(pages: usize) -> String {
    let mut text = String::new();
    for n in 0..pages {
        text.push_str(&format!("--- a.test/{n}\n<a href=/{}>next</a>\n", n + 1));
    }
    text
}

#[test]
fn limits_end_a_run_with_their_codes_and_it_can_be_resumed() {
    let site = Site::fixture(&chain(12));
    let first = site.url("a.test", "/0");
    let pages = || site.journal().iter().filter(|entry| !entry.is_robots()).count();
    site.crawl(&[&first, "--limit", "5"]).exits(17).says("lycosa resume crawl --limit 10");
    assert_eq!(pages(), 5, "a limit is exact");
    site.run(&["resume", "crawl", "--limit", "7"]).exits(17);
    assert_eq!(pages(), 7, "pages of earlier runs count");
    site.run(&["resume", "crawl", "--limit", "100", "--time-limit", "0s"]).exits(15);
    site.run(&["resume", "crawl", "-s", "crawl.max_time=none", "--size-limit", "1KB"]).exits(14);
    site.run(&["resume", "crawl", "-s", "crawl.max_bytes=none"]).exits(0);
    // 12 pages and the 404 behind the last.
    assert_eq!(pages(), 13);
    assert_eq!(site.report()["ending"], "done");
}

#[test]
fn a_limit_of_nothing_is_not_doubled() {
    let site = Site::fixture(&chain(3));
    let first = site.url("a.test", "/0");
    site.crawl(&[&first, "-s", "crawl.max_pages=0"]).exits(17).says("--limit 1000\n");
    site.crawl(&["-s", "crawl.max_pages=none", "--time-limit", "0s"])
        .exits(15)
        .says("--time-limit 1h\n");
    site.crawl(&["-s", "crawl.max_time=none", "--size-limit", "0"])
        .exits(14)
        .says("--size-limit 1GB\n");
    site.crawl(&["--size-limit", "1GB"]).exits(0);
}

#[test]
fn a_disk_that_is_nearly_full_pauses_and_then_ends_the_crawl() {
    let site = Site::fixture(&chain(3));
    let first = site.url("a.test", "/0");
    site.crawl(&[&first, "-s", "store.disk_free_min=900000TB"])
        .exits(16)
        .says("paused: only")
        .says("make room");
    site.run(&["resume", "crawl", "-s", "store.disk_free_min=0"]).exits(0);
    assert_eq!(site.report()["totals"]["pages"], 4);
}

#[test]
fn an_interrupt_finishes_what_is_in_flight_and_a_second_process_is_locked_out() {
    let text: String = (0..40)
        .map(|n| format!("--- a.test/{n} slow=100ms\n<a href=/{}>next</a>\n", n + 1))
        .collect();
    let site = Site::fixture(&text);
    let first = site.url("a.test", "/0");
    let child = site
        .crawl_command(&[&first, "-d", "100"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the third request", || site.journal().len() >= 3);

    // While it runs: locked, but it answers.
    site.crawl(&[&first]).exits(1).says(&child.id().to_string()).says("lycosa status crawl");
    site.run(&["status", "crawl"]).exits(0).prints(&format!("process {}", child.id()));
    site.run(&["explain", "crawl", &first]).exits(0).prints("fetched: answered 200");
    site.run(&["explain", "crawl", &site.url("a.test", "/99")]).exits(1).prints("unknown");

    signal(&child, "INT");
    let ran = Ran::from(child.wait_with_output().unwrap()).exits(11);
    let ran = ran.says("press Ctrl-C again").says("resume with: lycosa resume crawl");
    assert!(ran.err.contains("interrupted: "));
    let before = site.journal();
    assert!(before.len() < 40);
    assert!(before.iter().all(|entry| !entry.aborted), "what was in flight is finished");
    assert_eq!(site.report()["ending"], "interrupted");

    site.run(&["resume", "crawl"]).exits(0);
    let mut paths: Vec<String> =
        site.journal().iter().map(|entry| entry.path.to_string()).collect();
    let all = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), all, "nothing was fetched twice");
    assert_eq!(all, 42, "40 pages, the 404 behind them, robots.txt");
}

#[test]
fn a_second_interrupt_stops_at_once() {
    let site = Site::fixture("--- a.test/\n<a href=/slow>s</a>\n--- a.test/slow slow=20s\nlate");
    let home = site.url("a.test", "/");
    let mut child = site.crawl_command(&[&home]).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the first page", || site.journal().iter().any(|entry| &*entry.path == "/"));
    wait_until("the slow request", || {
        site.run(&["status", "crawl", "--json"]).out.contains("\"in_flight\":1")
    });
    signal(&child, "TERM");
    wait_for_line(&mut child, "press Ctrl-C again");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(13));
    assert_eq!(site.report()["ending"], "abandoned");
}

#[test]
fn json_lines_are_json_and_nothing_else_is_on_stdout() {
    let site = Site::fixture(SMALL);
    let ran = site.crawl(&[&site.url("a.test", "/"), "--json"]).exits(0);
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.first().unwrap()["event"], "start");
    assert_eq!(lines.last().unwrap()["event"], "result");
    assert_eq!(lines.last().unwrap()["totals"]["pages"], 4);
    assert!(ran.err.contains("crawling crawl"), "{}", ran.err);
    let logs: Vec<_> = std::fs::read_dir(site.dir().join("logs")).unwrap().collect();
    let log = std::fs::read_to_string(logs[0].as_ref().unwrap().path()).unwrap();
    assert!(!log.is_empty());
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn quiet_means_quiet_also_beside_json() {
    let site = Site::fixture(SMALL);
    let ran = site.crawl(&[&site.url("a.test", "/"), "--json", "-q"]).exits(0);
    assert_eq!(ran.err, "");
    assert!(ran.out.lines().all(|line| line.starts_with('{')), "{}", ran.out);
    let ran = site.crawl(&["-q"]).exits(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
}

#[test]
fn the_log_is_steered_by_the_names_of_our_parts() {
    let site = Site::fixture(SMALL);
    let home = site.url("a.test", "/");
    let mut command = site.crawl_command(&[&home]);
    let ran = Ran::from(command.env("LYCOSA_LOG", "engine=debug,warn").output().unwrap());
    // Single URLs are told at debug, by the engine alone.
    ran.exits(0).says("DEBUG").says(&site.url("a.test", "/one"));
    let mut command = site.crawl_command(&[&home]);
    let ran = Ran::from(command.env("LYCOSA_LOG", "engine=nonsense").output().unwrap());
    ran.exits(4).says("write info or engine=debug,info");
}

#[test]
fn a_dry_run_asks_nobody() {
    let site = Site::fixture(SMALL);
    let home = site.url("A.test", "/x/../?b=1&a=2");
    site.crawl(&[&home, "--dry-run"])
        .exits(0)
        .prints(&format!("seed {}", site.url("a.test", "/?a=2&b=1")))
        .prints("politeness.delay = \"0s\"  # --delay");
    let ran = site.crawl(&[&home, "--dry-run", "--json"]).exits(0);
    let plan: serde_json::Value = serde_json::from_str(&ran.out).expect("one JSON line");
    assert_eq!(plan["event"], "dry-run");
    assert_eq!(plan["resume"], false);
    assert_eq!(plan["seeds"][0], site.url("a.test", "/?a=2&b=1"));
    let settings = plan["settings"].as_array().expect("all settings");
    let delay = settings.iter().find(|line| line["key"] == "politeness.delay").unwrap();
    assert_eq!((&delay["value"], &delay["origin"]), (&"0s".into(), &"--delay".into()));
    assert!(site.journal().is_empty() && !site.dir().exists());
}

#[test]
fn no_seed_that_can_be_fetched_is_a_failure_with_its_reason() {
    let text = "--- a.test/robots.txt\nUser-agent: *\nDisallow: /\n--- a.test/\nsecret";
    let site = Site::fixture(text);
    site.crawl(&[&site.url("a.test", "/")])
        .exits(1)
        .says("no seed could be fetched")
        .says("robots.txt line 2: `Disallow: /`");
}

#[test]
fn a_seed_that_only_ever_failed_was_not_fetched() {
    let text = "--- a.test/ 503\nnot now\n--- b.test/ 429\nless\n--- c.test/ 404\nnothing";
    let site = Site::fixture(text);
    let (a, b, c) = (site.url("a.test", "/"), site.url("b.test", "/"), site.url("c.test", "/"));
    site.crawl(&[&a, &b])
        .exits(1)
        .says("no seed could be fetched")
        .says("the server answered 503")
        .says("the server answered 429");
    assert_eq!(site.report()["exit_code"], 1);
    assert!(site.report()["totals"]["pages"].as_u64() > Some(0), "failures are archived pages");
    // A plain no is an answer about the seed.
    site.crawl(&[&c]).exits(0);
}

#[test]
fn one_fetch_obeys_robots_and_shows_the_answer() {
    let site = Site::fixture(SMALL);
    let flags = site.flags();
    let fetch = |words: &[&str]| {
        let mut all = vec!["fetch"];
        all.extend(words);
        all.extend(flags.iter().map(String::as_str));
        all.extend(["--delay", "0s"]);
        run(site.path(), &all)
    };
    let ran = fetch(&[&site.url("a.test", "/one")]).exits(0).prints("status   200");
    assert!(ran.out.contains("no rule matches"), "{}", ran.out);
    let ran = fetch(&[&site.url("a.test", "/one"), "--body"]).exits(0);
    assert!(ran.out.starts_with("<a href=/two"), "{}", ran.out);
    let secret = site.url("a.test", "/secret/x");
    fetch(&[&secret]).exits(1).says("line 2: `Disallow: /secret`");
    let ran = fetch(&[&secret, "--ignore-robots"]).exits(0);
    let ignored = "line 2: `Disallow: /secret`; ignored (robots.obey = false)";
    assert!(ran.out.contains("robots   forbidden by ") && ran.out.contains(ignored), "{}", ran.out);
    let ran = fetch(&[&site.url("b.test", "/")]).exits(0);
    assert!(ran.out.contains("robots   allowed: there is no http://b.test"), "{}", ran.out);
    fetch(&[&site.url("a.test", "/moved"), "--json"]).exits(0).prints("\"status\":302");
}

#[test]
fn metrics_are_served_while_it_runs() {
    use std::io::{Read as _, Write as _};
    let site = Site::fixture("--- a.test/\n<a href=/slow>s</a>\n--- a.test/slow slow=3s\nlate");
    let home = site.url("a.test", "/");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let serve = format!("--serve={address}");
    let child = site
        .crawl_command(&[&home, &serve, "-s", "api.token=secret"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let get = |path: &str, token: &str| -> Option<String> {
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    };
    wait_until("a page in the metrics", || {
        get("/metrics", "secret")
            .is_some_and(|text| text.contains("lycosa_answers_total{status=\"200\"} 1"))
    });
    wait_until("its link among the accepted", || {
        get("/metrics", "secret").is_some_and(|text| {
            text.contains("lycosa_urls_accepted_total 1")
                && !text.contains("lycosa_commit_seconds_count 0")
        })
    });
    let status = get("/status", "secret").unwrap();
    assert!(status.contains("\"pages\":1"), "{status}");
    assert!(get("/metrics", "guess").unwrap().starts_with("HTTP/1.1 401"));
    Ran::from(child.wait_with_output().unwrap()).exits(0).says("metrics at http://");
}

#[test]
fn shards_make_no_difference() {
    let site = Site::fixture(SMALL);
    let home = site.url("a.test", "/");
    site.crawl(&[&home, "--scope", "any", "-s", "store.shards=4"]).exits(0);
    assert_eq!(site.report()["totals"]["pages"], 6);
    site.run(&["explain", "crawl", &site.url("b.test", "/more")]).exits(0).prints("fetched");
}

#[test]
fn the_demo_ends_by_itself_and_tells_what_the_servers_saw() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["demo", "-o", "demo", "--hosts", "6", "--pages", "8"]).exits(0);
    ran.says("nothing leaves this machine")
        .prints("done: ")
        .prints("0 too short or two at once")
        .prints("0 requests that a robots.txt forbids")
        .prints("lycosa explain demo");
    run(folder.path(), &["status", "demo"]).exits(0).prints("at rest");
    run(folder.path(), &["demo", "-o", "demo"]).exits(2).says("choose another folder");
}

#[test]
fn a_demo_that_keeps_serving_ends_on_either_signal() {
    for name in ["TERM", "INT"] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = lycosa(folder.path())
            .args(["demo", "-o", "demo", "--hosts", "2", "--pages", "2", "--serve=127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_line(&mut child, "stays up until Ctrl-C or SIGTERM");
        signal(&child, name);
        Ran::from(child.wait_with_output().unwrap()).exits(0).prints("as the servers saw it");
    }
}

#[test]
fn damage_in_an_archive_is_found_and_records_can_be_printed() {
    let site = Site::fixture(SMALL);
    let one = site.url("a.test", "/one");
    site.crawl(&[&site.url("a.test", "/")]).exits(0);
    let archive = "crawl/archive/lycosa-00-00000.warc.gz";
    let got = site.run(&["warc", "get", archive, &one]).exits(0).prints("WARC-Type: response");
    assert!(got.out.contains("HTTP/1.1 200") && got.out.contains("<a href=/two"), "{}", got.out);
    let body = site.run(&["warc", "get", archive, &one, "--payload"]).exits(0);
    assert!(body.out.starts_with("<a href=/two"), "{}", body.out);
    site.run(&["warc", "get", archive, "http://nobody.test/"]).exits(1).says("lycosa warc ls");

    let mut bytes = std::fs::read(site.path().join(archive)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(site.path().join("bad.warc.gz"), &bytes).unwrap();
    site.run(&["warc", "check", "bad.warc.gz"]).exits(1).prints("DAMAGED");
    site.run(&["warc", "check", "bad.warc.gz", "--json"]).exits(1).prints("\"ok\":false");
    site.run(&["warc", "check", "none.warc.gz"]).exits(1).says("cannot open none.warc.gz");
}
