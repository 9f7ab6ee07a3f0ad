//! Settings for some hosts only: what their servers see, and what others never do.

use std::time::Duration;

use simweb::checks;

use crate::common::{Ran, Site, lycosa};
use crate::judge;

const WEB: &str = "
--- a.test/robots.txt
User-agent: *
Disallow: /secret
--- a.test/ Set-Cookie: session=7
<a href=/1>1</a> <a href=/secret>s</a> <a href=http://b.test:PORT/>b</a> <a href=/away>x</a>
--- a.test/1
one
--- a.test/secret
ours
--- a.test/away 302 Location: http://b.test:PORT/moved
--- b.test/robots.txt
User-agent: *
Disallow: /secret
--- b.test/ Set-Cookie: session=8
<a href=/2>2</a> <a href=/3>3</a> <a href=/secret>s</a>
--- b.test/2
two
--- b.test/3
three
--- b.test/secret
theirs
--- b.test/moved
moved
";

const SHEETS: &str = "
[[sheet]]
hosts = [\"a.test\"]
ignore_robots = true
cookies = true
basic_auth = \"ann:geheim\"
basic_auth_plain = true
headers = { X-Only = \"a\" }

[[sheet]]
hosts = [\"b.*\"]
delay = \"150ms\"
";

/// The requests of an archive, host first.
fn requests(site: &Site) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    for file in judge::files(&site.dir()) {
        let file = std::io::BufReader::new(std::fs::File::open(file).expect("a WARC file"));
        let mut reader = warc::Reader::new(file);
        while let Some(header) = reader.next_record().expect("it is whole") {
            if header.fields.get("WARC-Type") == Some("request") {
                let url = header.fields.get("WARC-Target-URI").expect("a URL").to_owned();
                let block = reader.block(1 << 20).expect("it is whole").expect("it is short");
                requests.push((url, String::from_utf8(block).expect("a head is text")));
            }
        }
    }
    requests
}

#[test]
fn what_is_meant_for_one_host_reaches_no_other() {
    let site = Site::fixture(WEB);
    let file = site.path().join("sheets.toml");
    std::fs::write(&file, SHEETS).expect("there is room");
    let file = file.to_str().expect("a plain path");
    let seed = site.url("a.test", "/");
    let ran = site.crawl(&[&seed, "--scope", "any", "--config", file]).exits(0);
    ran.says("robots.txt is NOT obeyed at a.test").says("password for a.test may be sent");

    let asked: Vec<_> =
        site.journal().iter().map(|e| (e.host.to_string(), e.path.to_string())).collect();
    let has = |host: &str, path: &str| asked.contains(&(host.to_owned(), path.to_owned()));
    assert!(has("a.test", "/secret") && !has("b.test", "/secret"), "{asked:?}");
    assert!(has("b.test", "/moved"));
    let ours: Vec<_> = site.journal().into_iter().filter(|e| &*e.host == "b.test").collect();
    checks::assert_none(&checks::gaps(&ours, |_| Duration::from_millis(150)));

    let mut cookies = 0;
    for (url, head) in requests(&site) {
        let mine = url.starts_with(&site.url("a.test", "/"));
        assert_eq!(head.contains("X-Only: a\r\n"), mine, "{url}: {head}");
        assert_eq!(head.contains("Authorization: ***** "), mine, "{url}: {head}");
        assert!(!head.contains("YW5uOmdl") && !head.contains("session=8"), "{url}: {head}");
        cookies += usize::from(head.contains("Cookie: session=7\r\n"));
    }
    assert_eq!(cookies, 3, "/1, /secret and /away");

    let shown = lycosa(site.path())
        .args(["config", "show", "--config", file, "-s", "politeness.delay=0s"])
        .output();
    let shown = Ran::from(shown.expect("it starts")).exits(0);
    assert!(!shown.out.contains("geheim"), "{}", shown.out);
    shown.prints("sheet.1.basic_auth = \"ann:…\"").prints("sheet.2.delay = \"150ms\"");
    let kept = std::fs::metadata(site.dir().join("lycosa.toml")).expect("the settings are kept");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&kept.permissions()) & 0o077, 0);
}
