//! What a crawl came to: the files that a run leaves, and what `lycosa report` says of a crawl at rest and at
//! work.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Ran, Site, signal, wait_until};

const WEB: &str = "\
--- a.test/robots.txt
User-agent: *
Disallow: /secret
--- a.test/
<html lang=en><title>Home</title><a href=/one>1</a> <a href=/secret/x>s</a> <a href=/gone>g</a>
<a href=http://b.test:PORT/>elsewhere</a> <a href=/odd>o</a> <a href=/busy>b</a>
--- a.test/one
<a href=mailto:me@a.test>write</a>
--- a.test/odd Content-Type: text/x-<script>alert(1)</script>
odd
--- a.test/busy 500
unwell
--- b.test/
<title>B</title>";

/// Nothing on the page loads, runs or breaks out.
fn check_page(html: &str) {
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    for bad in ["<script", "<link", "<img", "@import", "url(", " src=", "javascript:", " onload="] {
        assert!(!html.contains(bad), "{bad}");
    }
    for (open, close) in
        [("<section", "</section>"), ("<svg", "</svg>"), ("<table", "</table>"), ("<tr>", "</tr>")]
    {
        assert_eq!(html.matches(open).count(), html.matches(close).count(), "{open}");
    }
    for (figure, what) in
        html.split("<figure>").skip(1).map(|rest| (rest, rest.split("</section>").next()))
    {
        let table =
            what.is_some_and(|section| section.contains("<table") || section.contains("None."));
        assert!(table, "a plot without its table: {}", &figure[..200.min(figure.len())]);
    }
    for heading in [
        "Pages over time",
        "Statuses",
        "Content types",
        "Languages",
        "Duplicates",
        "Fetch times",
        "Top hosts",
        "Slowest hosts",
        "Refused by robots.txt",
        "Skipped, and why",
        "Errors",
        "Archive and settings",
    ] {
        assert!(html.contains(heading), "{heading}");
    }
}

#[test]
fn a_run_leaves_a_page_that_needs_nothing_else_and_takes_nothing_from_servers() {
    let site = Site::fixture(WEB);
    let home = site.url("a.test", "/");
    site.crawl(&[&home, "--scope", "any", "-s", "fetch.attempts_max=1"])
        .exits(0)
        .says("report.html");
    let html = std::fs::read_to_string(site.dir().join("report.html")).unwrap();
    check_page(&html);
    assert!(html.contains("text/x-&lt;script&gt;"), "what the server called its type");
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("URL refused"), "{html}");

    let report = site.report();
    let urls = &report["urls"];
    assert_eq!(urls["types"]["counts"]["text/html"], 3, "{urls}");
    assert_eq!(urls["forbidding"][0]["host"], "a.test");
    assert_eq!(urls["forbidding"][0]["forbidden"], 1);
    let sum = |value: &Value| -> u64 {
        let all = value.as_object().expect("counts");
        all.values().filter_map(Value::as_u64).sum()
    };
    let answers = sum(&urls["answers_over_time"]["counts"]);
    let took: u64 =
        urls["took"]["counts"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!((answers, took), (6, 6), "all but robots.txt: {urls}");
}

#[test]
fn a_report_is_made_on_demand_in_every_form() {
    let site = Site::fixture(WEB);
    let home = site.url("a.test", "/");
    site.crawl(&[&home, "--scope", "any", "-s", "fetch.attempts_max=1"]).exits(0);
    let before = site.report();
    let json = site.run(&["report", "crawl", "--json"]).exits(0);
    let now: Value = serde_json::from_str(&json.out).unwrap();
    for field in
        ["totals", "statuses", "failures", "links_skipped", "ending", "run", "seeds", "archive"]
    {
        assert_eq!(now[field], before[field], "{field}");
    }
    assert_eq!(now["urls"]["hosts"], before["urls"]["hosts"]);
    site.run(&["report", "crawl"]).exits(0).prints("done: ").prints("answers");
    let html = site.run(&["report", "crawl", "--html"]).exits(0);
    check_page(&html.out);
    let said = site.run(&["report", "crawl", "-o", "told.html"]).exits(0);
    assert_eq!(said.out, "");
    check_page(&std::fs::read_to_string(site.path().join("told.html")).unwrap());
    site.run(&["report", "crawl", "-o", "told"]).exits(2).says("--html or --json");
    site.run(&["report", "crawl", "--html", "--json"]).exits(2);
    site.run(&["report", "elsewhere"]).exits(1).says("is no crawl directory");
}

#[test]
fn a_crawl_at_work_tells_what_it_came_to_so_far() {
    let pages: String = (0..200)
        .map(|n| format!("--- a.test/{n} slow=100ms\n<a href=/{}>next</a>\n", n + 1))
        .collect();
    let site = Site::fixture(pages.trim_end());
    let first = site.url("a.test", "/0");
    let words = [&*first, "-d", "1000"];
    let mut command = site.crawl_command(&words);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the third request", || site.journal().len() >= 3);
    let json = site.run(&["report", "crawl", "--json"]).exits(0);
    let told: Value = serde_json::from_str(&json.out).unwrap();
    assert!(told["totals"]["pages"].as_u64() >= Some(1), "{told}");
    assert!(told["ending"].is_null() && told["urls"]["complete"] == true, "{told}");
    check_page(&site.run(&["report", "crawl", "--html"]).exits(0).out);
    site.run(&["report", "crawl"]).exits(0).prints("no run has ended yet");
    signal(&child, "INT");
    Ran::from(child.wait_with_output().unwrap()).exits(11);
}
