//! Bad input, as a new user may type it: each is a sentence that says what to do, and its code.

use crate::common::{Site, feed, run};

#[test]
fn seeds_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("empty.txt"), "# nothing here\n\n").unwrap();
    std::fs::write(path.join("bad.txt"), "http://a.test/\nnonsense\n").unwrap();
    let check = |words: &[&str], what: &str| {
        run(path, words).exits(2).says(what);
        assert!(!path.join("crawl").exists(), "{words:?} left a directory behind");
    };
    check(&["crawl"], "lycosa crawl https://example.org/");
    check(&["crawl", "ftp://a.test/"], "lycosa speaks http and https");
    check(&["crawl", "example.org"], "did you mean http://example.org?");
    check(&["crawl", "-l", "empty.txt"], "empty.txt names no URL");
    check(&["crawl", "-l", "bad.txt"], "bad.txt, line 2: ");
    check(&["crawl", "-l", "none.txt"], "cannot read the list none.txt");
    feed(path, &["crawl", "-"], "# nothing\n").exits(2).says("standard input names no URL");
}

#[test]
fn flags_that_are_not_well_formed() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], what: &str| {
        let words = [&["crawl", "http://a.test/"], words].concat();
        run(folder.path(), &words).exits(2).says(what);
    };
    check(&["--delay", "5"], "500ms, 1s, 5m");
    check(&["--size-limit", "5"], "15MiB or 1GB");
    check(&["--scope", "planet"], "page, prefix, host, domain, any or custom");
    check(&["--include", "("], "unclosed group");
    check(&["--dns", "there"], "192.0.2.1:53");
    check(&["--proxy", "p.test:1"], "http://host:port or socks5://host:port");
    check(&["--allow-net", "there"], "127.0.0.0/8");
    check(&["--contact", "me"], "me@example.org");
    check(&["-H", "nonsense"], "Name: value");
    check(&["--limti", "5"], "--limit");
}

#[test]
fn settings_that_are_not_possible() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], what: &str| {
        let words = [&["crawl", "http://a.test/"], words].concat();
        run(folder.path(), &words).exits(4).says(what);
    };
    check(&["-s", "politeness.dealy=1s"], "did you mean politeness.delay?");
    check(&["-s", "politeness.delay=5"], "500ms, 1s, 5m");
    check(&["-s", "store.fsync=maybe"], "batch, visit, off");
    for later in [
        &["--continuous"][..],
        &["--budget", "10/s"],
        &["--render", "always"],
        &["-s", "render.mode=always"],
        &["-s", "archive.compression=zstd"],
    ] {
        check(later, "not available in this version");
    }
    check(&["--serve=0.0.0.0:0"], "api.token");
    check(&["-s", "network.tls_ca=none.pem"], "none.pem");
}

#[test]
fn a_crawl_without_contact_does_not_go_out() {
    let folder = tempfile::tempdir().unwrap();
    // A public address, a private one, and a name that does not exist: none can be visited
    // without a contact when no range is open, and a contact is what is missing first.
    for url in ["http://198.41.0.4/", "http://127.0.0.1:9/", "http://nowhere.invalid/"] {
        run(folder.path(), &["crawl", url]).exits(2).says("--contact me@example.org");
        assert!(!folder.path().join("crawl").exists());
        run(folder.path(), &["fetch", url]).exits(2).says("--contact");
    }
}

#[test]
fn without_contact_and_open_ranges_no_name_server_is_asked() {
    // It would have to be heard of here.
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let dns = server.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["crawl", "http://a.test/", "--dns", &dns]).exits(2).says("--contact");
    assert!(server.recv(&mut [0; 512]).is_err(), "a name server was asked");
}

#[test]
fn an_open_range_that_holds_no_seed_still_wants_a_contact() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["crawl", "http://198.41.0.4/", "--allow-net", "127.0.0.0/8"];
    run(folder.path(), &words).exits(2).says("--contact");
    // A contact would not help here.
    let words = ["crawl", "http://10.0.0.1/", "--allow-net", "127.0.0.0/8"];
    run(folder.path(), &words).exits(1).says("--allow-net 10.0.0.1");
}

#[test]
fn a_crawl_that_lost_its_contact_is_not_resumed() {
    let site = Site::fixture("--- a.test/\nhello");
    site.crawl(&[&site.url("a.test", "/")]).exits(0);
    site.run(&["resume", "crawl", "-s", "network.allow=[]"]).exits(2).says("--contact");
    site.run(&["status", "crawl"]).exits(0);
    let kept = std::fs::read_to_string(site.dir().join("lycosa.toml")).unwrap();
    assert!(kept.contains("127.0.0.0/8"), "what was refused is not kept: {kept}");
}

#[test]
fn addresses_that_are_not_visited() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["crawl", "http://127.0.0.1:9/", "--contact", "me@example.org"])
        .exits(1)
        .says("--allow-net 127.0.0.0/8");
}

#[test]
fn a_host_that_does_not_exist() {
    let site = Site::fixture("--- a.test/\nhello");
    let url = site.url("nowhere.test", "/");
    site.crawl(&[&url]).exits(1).says("cannot resolve nowhere.test").says("--dns IP:PORT");
    assert!(!site.dir().exists());
}

#[test]
fn an_address_that_is_taken_leaves_no_directory() {
    let site = Site::fixture("--- a.test/\nhello");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = format!("--serve={}", taken.local_addr().unwrap());
    let url = site.url("a.test", "/");
    site.crawl(&[&url, &serve]).exits(1).says("cannot listen on").says("--serve=IP:PORT");
    assert!(!site.dir().exists());
    run(site.path(), &["demo", "-o", "demo", &serve]).exits(1).says("cannot listen on");
    assert!(!site.path().join("demo").exists());
    // One that is there already stays as it is.
    site.crawl(&[&url]).exits(0);
    site.run(&["resume", "crawl", &serve]).exits(1).says("cannot listen on");
    site.run(&["resume", "crawl"]).exits(0);
}

#[test]
fn directories_that_cannot_be_used() {
    let site = Site::fixture("--- a.test/\nhello");
    let url = site.url("a.test", "/");
    std::fs::write(site.path().join("file"), "").unwrap();
    let mut words = vec!["crawl", &url, "-o", "file/below"];
    let flags = site.flags();
    words.extend(flags.iter().map(String::as_str));
    site.run(&words).exits(1).says("cannot write to file/below").says("-o");
    site.run(&["resume", "nothing"]).exits(1).says("nothing is no crawl directory");
    site.run(&["status", "nothing"]).exits(1).says("is no crawl directory");
    site.run(&["explain", "nothing", &url]).exits(1).says("is no crawl directory");

    site.crawl(&[&url]).exits(0);
    let mark = site.dir().join("state/crawl.json");
    let text = std::fs::read_to_string(&mark).unwrap();
    std::fs::write(&mark, text.replace("\"format\": 1", "\"format\": 99")).unwrap();
    site.crawl(&[&url]).exits(4).says("another version");
    site.run(&["status", "crawl"]).exits(4).says("another version");
}
