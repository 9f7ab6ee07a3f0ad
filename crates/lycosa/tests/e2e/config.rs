//! Settings: layers, complaints, and what is printed.

use crate::common::{lycosa, run};

#[test]
fn each_layer_covers_the_one_below_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = "[politeness]\ndelay = \"2s\"\nip_delay = \"2s\"\nbackoff_max = \"2h\"\n";
    std::fs::write(path.join("x.toml"), file).unwrap();
    std::fs::create_dir(path.join("dir")).unwrap();
    let kept =
        "[politeness]\ndelay = \"1m\"\nip_delay = \"1m\"\nbackoff_max = \"1m\"\npark_after = 3\n";
    std::fs::write(path.join("dir/lycosa.toml"), kept).unwrap();
    let words = ["config", "show", "dir", "--config", "x.toml", "-s", "politeness.delay=4s"];
    let output = lycosa(path)
        .args(words)
        .env("LYCOSA_POLITENESS__DELAY", "3s")
        .env("LYCOSA_POLITENESS__IP_DELAY", "3s")
        .output()
        .unwrap();
    crate::common::Ran::from(output)
        .exits(0)
        .prints("politeness.delay = \"4s\"  # -s\n")
        .prints("politeness.ip_delay = \"3s\"  # environment LYCOSA_POLITENESS__IP_DELAY\n")
        .prints("politeness.backoff_max = \"2h\"  # x.toml\n")
        .prints("politeness.park_after = 3  # dir/lycosa.toml\n")
        .prints("politeness.crawl_delay_max = \"5m\"  # default\n");
}

#[test]
fn a_mistake_is_a_sentence_and_exit_code_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("bad.toml"), "[politness]\ndelay = \"1s\"\n").unwrap();
    std::fs::write(path.join("unit.toml"), "[politeness]\ndelay = 5\n").unwrap();
    std::fs::write(path.join("good.toml"), "[crawl]\nmax_pages = 5\n").unwrap();
    let check = |words: &[&str], what: &str| {
        run(path, words).exits(4).says(what);
    };
    check(&["config", "check", "bad.toml"], "did you mean [politeness]?");
    check(&["config", "check", "unit.toml"], "write it as \"5s\"");
    check(&["config", "check", "none.toml"], "cannot read none.toml");
    check(&["config", "show", "-s", "politeness.dealy=1s"], "did you mean politeness.delay?");
    check(&["config", "show", "-s", "politeness.delay=5"], "500ms, 1s, 5m");
    check(&["config", "show", "-s", "render.mode=auto"], "not available in this version");
    run(path, &["config", "check", "good.toml"]).exits(0).prints("good.toml: ok");
}

#[test]
fn what_a_crawl_would_refuse_is_found_by_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (file, pair, what) in [
        ("fetch.headers = { \"a b\" = \"1\" }", "fetch.headers.a b=1", "this is not a field name"),
        ("fetch.headers = { Host = \"x\" }", "fetch.headers.Host=x", "lycosa sets it itself"),
        ("network.tls_ca = [\"none.pem\"]", "network.tls_ca=none.pem", "none.pem"),
    ] {
        std::fs::write(path.join("bad.toml"), file).unwrap();
        run(path, &["config", "check", "bad.toml"]).exits(4).says(what);
        run(path, &["config", "show", "-s", pair]).exits(4).says(what);
        let seed = ["crawl", "http://a.test/", "--contact", "me@example.org"];
        run(path, &[&seed[..], &["-s", pair]].concat()).exits(4).says(what);
        run(path, &[&seed[..], &["-s", pair, "--dry-run"]].concat()).exits(4).says(what);
    }
}

#[test]
fn the_default_file_is_complete_and_right() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["config", "default"]).exits(0);
    std::fs::write(folder.path().join("all.toml"), &ran.out).unwrap();
    run(folder.path(), &["config", "check", "all.toml"]).exits(0);
    assert!(ran.out.contains("[politeness]") && ran.out.contains("delay = \"1s\""));
}

#[test]
fn show_as_json_is_one_object_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["config", "show", "--json"]).exits(0);
    for line in ran.out.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["key"].is_string() && value["origin"].is_string(), "{line}");
    }
    assert!(ran.out.lines().count() > 60);
}
