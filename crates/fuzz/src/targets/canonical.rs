//! Any text as a URL, alone or joined to a base: types.
//!
//! An input is a URL, or a base before a link. Each is read by the usual rules, by none that
//! strips, and by all that do.
//!
//! Holds: what canonicalises is a fixed point, is the WHATWG's own serialisation, is read back by
//! the cheap reader as it was written, is printable ASCII without fragment, user info and default
//! port, and has its parameters in order.

use std::sync::LazyLock;

use types::{Base, Canon, CanonSettings, CrawlUrl, HostKey, UrlError, UrlRef, host};
use url::Url;

use crate::{Shape, Target, parts};

pub const TARGET: Target =
    Target { name: "canonical", words: WORDS, seeds: Vec::new, check, inputs: 20_000 };

const WORDS: &[&[u8]] = &[
    b"http://",
    b"https://",
    b"HTTP:\\\\",
    b"//",
    b"http:",
    b"ftp://",
    b"javascript:",
    b"data:,",
    b"a.test",
    b"www.example.co.uk",
    b"user:pass@",
    b":80",
    b":443",
    b":8080",
    b":0",
    b":",
    b"[::1]",
    b"[::ffff:1.2.3.4]",
    b"127.1",
    b"0x7f.1",
    b"0300.0.0.1",
    b"1e3.test",
    b"xn--",
    b"xn--mnchen-3ya",
    "münchen".as_bytes(),
    "ｅｘ．ｔｅｓｔ".as_bytes(),
    "\u{ad}".as_bytes(),
    "\u{200d}".as_bytes(),
    "。".as_bytes(),
    b"..",
    b".",
    b"/../",
    b"/./",
    b"/%2e%2e/",
    b"%2E",
    b"%2f",
    b"%",
    b"%%37%31",
    b"%7e",
    b"%C3%A9",
    b"%zz",
    b"?",
    b"?&",
    b"&",
    b"=",
    b"?b=2&a=1",
    b"utm_source=x",
    b"PHPSESSID=1",
    b"%75tm_source=x",
    b";jsessionid=1F3",
    b";jsessionid=",
    b";JSESSIONID=a/",
    b"#",
    b"#!/a",
    b"index.html",
    b"/index.php/",
    b"default.aspx",
    b"\t",
    b"\r\n",
    b" ",
    b"\\",
    b"@",
    b"|",
    b"^",
    b"`{}\"<>",
    b"\n----\n",
];

fn check(input: &[u8]) -> Shape {
    let (base, link) = parts(input);
    let (base, link) = (String::from_utf8_lossy(base), String::from_utf8_lossy(link));
    let mut shape = Shape::default();
    let whole = Base::parse(&base).ok();
    for canon in &*CANONS {
        let parsed = canon.parse(&link);
        add_result(&parsed, &mut shape);
        if let Ok(url) = parsed {
            check_url(canon, &url);
        }
        // A URL of ours is the base of most links, anybody's the base of some.
        let ours = canon.parse(&base).ok().as_ref().map(Base::from);
        for base in whole.iter().chain(&ours) {
            check_join(canon, base, &link, &mut shape);
        }
    }
    shape
}

fn add_result(result: &Result<CrawlUrl, UrlError>, shape: &mut Shape) {
    match result {
        Ok(url) => {
            shape.add(u64::from(url.authority() != url.host()));
            shape.add(u64::from(url.query().is_some()));
            shape.add(u64::from(url.host_key().address().is_some()));
            shape.add(u64::from(url.as_str().contains('%')));
            shape.add_size(url.path().len());
        }
        Err(UrlError::Syntax(_)) => shape.add(10),
        Err(UrlError::Scheme(_)) => shape.add(11),
        Err(UrlError::NoHost(_)) => shape.add(12),
        Err(UrlError::TooLong(_)) => shape.add(13),
    }
}

static CANONS: LazyLock<[Canon; 3]> =
    LazyLock::new(|| every_setting().map(|settings| Canon::new(&settings)));

fn every_setting() -> [CanonSettings; 3] {
    let usual = CanonSettings::default();
    let none = CanonSettings { strip_parameters: Vec::new(), ..usual.clone() };
    let all = CanonSettings {
        strip_parameters_extra: vec!["a".to_owned(), "b*".to_owned()],
        strip_trailing_slash: true,
        strip_index_page: true,
        ..usual.clone()
    };
    [usual, none, all]
}

fn check_join(canon: &Canon, base: &Base, link: &str, shape: &mut Shape) {
    let mut text = String::from("what was there before");
    let joined = canon.join_into(base, link, None, &mut text);
    match (joined, canon.join(base, link)) {
        (Ok(()), Ok(url)) => {
            assert_eq!(url.as_str(), text, "one way to join and the other");
            check_url(canon, &url);
            // What is absolute does not care where it stands.
            let again = canon.join(base, url.as_str());
            assert_eq!(again.as_ref(), Ok(&url), "joined again");
        }
        (Err(one), Err(other)) => {
            assert_eq!(one, other, "one way to join and the other");
            add_result(&Err(one), shape);
        }
        (one, other) => panic!("{link:?} joined: {one:?}, but as a URL: {other:?}"),
    }
    let rebased = base.clone().rebased(link);
    if let Ok(url) = canon.join(&rebased, "") {
        check_url(canon, &url);
    }
}

/// What holds for every canonical URL.
pub(super) fn check_url(canon: &Canon, url: &CrawlUrl) {
    let text = url.as_str();
    assert_eq!(canon.parse(text).as_ref(), Ok(url), "the form of the form");
    assert_eq!(Url::parse(text).as_ref().map(Url::as_str), Ok(text), "the WHATWG's serialisation");
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?} is not printable ASCII");
    assert!(!text.contains('#'), "{text} has a fragment");
    assert!(!url.authority().contains('@'), "{text} has user info");

    let host = url.host();
    assert!(!host.is_empty() && !host.ends_with('.'), "{text}: the host {host:?}");
    assert!(!host.bytes().any(|byte| byte.is_ascii_uppercase()), "{text}: upper case");
    let has_port = url.authority().len() > host.len();
    assert_eq!(has_port, url.port() != url.scheme().default_port(), "{text}: the port");
    assert!(url.path().starts_with('/'), "{text}: the path {:?}", url.path());
    let names = url.query().into_iter().flat_map(|query| query.split('&'));
    let names: Vec<_> = names.map(|pair| pair.split('=').next()).collect();
    assert!(names.is_sorted(), "{text}: parameters are not in order");
    assert_ne!(url.query(), Some(""), "{text}: an empty query");

    check_readers(url);
}

/// All ways to read a canonical text agree.
fn check_readers(url: &CrawlUrl) {
    let stored = CrawlUrl::from_canonical(url.as_str()).expect("our own form is read back");
    let view = UrlRef::from_canonical(url.as_str()).expect("our own form is read back");
    let pieces = (url.scheme(), url.host(), url.port(), url.path_and_query());
    assert_eq!((stored.scheme(), stored.host(), stored.port(), stored.path_and_query()), pieces);
    assert_eq!((view.scheme(), view.host(), view.port(), view.path_and_query()), pieces);
    assert_eq!((view.path(), view.as_str()), (url.path(), url.as_str()));

    let key = url.host_key();
    assert_eq!(view.site(), url.site().as_str());
    assert_eq!(key.site(), url.site());
    assert_eq!(host::shard_of(view.site(), 16), url.site().shard(16));
    assert!(view.host().ends_with(view.site()), "{} of {}", view.site(), view.host());
    assert_eq!(HostKey::from_reversed(&key.reversed()), key, "the host turned twice");
    let origin = format!("{}/", url.origin());
    assert_eq!(CrawlUrl::parse(&origin).map(|url| url.origin()), Ok(url.origin()));
}
