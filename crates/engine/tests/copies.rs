//! Whole crawls of a web with copies: which page is whose, with one shard or four, and when the crawler
//! dies on the way.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Machine, in_virtual_time};
use expect_test::{Expect, expect};
use local::Standing;
use local::sim_disk::Chance;
use lycosa_engine::Ending;
use simweb::Fixture;

const SEED: &str = "http://a.test/";

/// Words of a language of its own, a text for every number.
fn text(number: u64) -> Vec<String> {
    let mut chance = Chance(number.wrapping_mul(7_919));
    const SYLLABLES: [&str; 16] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu",
        "va",
    ];
    let word = |chance: &mut Chance| -> String {
        let length = 2 + chance.below(3);
        (0..length).map(|_| SYLLABLES[chance.below(16) as usize]).collect()
    };
    (0..240).map(|_| word(&mut chance)).collect()
}

/// The same with a few words replaced.
fn edited(mut words: Vec<String>) -> Vec<String> {
    for at in [20, 90, 150, 200] {
        words[at] = "another".into();
    }
    words
}

/// A text in one of two templates, which share nothing.
fn page(template: bool, words: &[String], links: &[&str]) -> String {
    let paragraphs: String =
        words.chunks(60).map(|words| format!("<p>{}.</p> ", words.join(" "))).collect();
    let links: String = links.iter().map(|to| format!("<a href={to}>more</a> ")).collect();
    if template {
        format!(
            "<title>A page</title><header><nav><a href=/>Home</a> <a href=/>About us</a></nav></header> \
             <main><article>{paragraphs}</article></main><footer>{links} All rights reserved</footer>"
        )
    } else {
        format!(
            "<title>Elsewhere</title><div id=menu><ul><li><a href=/>Start</a><li><a href=/>Contact</a> \
             </ul></div><div class=content>{paragraphs}</div><div class=sidebar>{links} Follow us \
             here and there</div>"
        )
    }
}

fn short_page(place: &str) -> String {
    format!("<title>Done</title><main><article><p>Added to your {place}</p></article></main>")
}

fn web() -> String {
    let one = text(1);
    let copies = ["http://b.test/exact", "http://c.test/near", "http://d.test/other", "/other"];
    let short = ["http://b.test/short", "http://c.test/short"];
    let links = [&copies[..], &short].concat();
    let pages = [
        ("a.test/", page(true, &text(9), &["/one", "http://d.test/short"])),
        ("a.test/one", page(true, &one, &links)),
        ("b.test/exact", page(false, &one, &[])),
        ("c.test/near", page(false, &edited(one.clone()), &[])),
        ("d.test/other", page(true, &text(2), &[])),
        ("a.test/other", page(true, &text(3), &[])),
        ("b.test/short", short_page("cart")),
        ("c.test/short", short_page("list")),
        ("d.test/short", short_page("cart")),
    ];
    pages.map(|(url, html)| format!("--- {url}\n{html}\n")).concat()
}

fn machine(shards: u16) -> Machine {
    let mut machine = Machine::new(1, Arc::new(Fixture::parse(web().trim_end()).unwrap()));
    machine.shards = shards;
    machine
}

fn verdicts(machine: &Machine) -> String {
    let duplicates = machine.duplicates().unwrap();
    assert_eq!(duplicates.audit().unwrap(), [""; 0]);
    let pages = duplicates.pages().unwrap().into_iter();
    let told = pages.map(|url| {
        let say = match duplicates.standing(&url).unwrap().unwrap() {
            Standing::Original { copies } => format!("original of {copies}"),
            Standing::Copy { of, exact: true, .. } => format!("same text as {of}"),
            Standing::Copy { of, distance, .. } => format!("near {of}, distance {distance}"),
        };
        (url.to_string(), say)
    });
    let told: BTreeMap<String, String> = told.collect();
    told.into_iter().map(|(url, say)| format!("{url}: {say}\n")).collect()
}

fn expected() -> Expect {
    expect![[r#"
        http://a.test/: original of 0
        http://a.test/one: original of 2
        http://a.test/other: original of 0
        http://b.test/exact: same text as http://a.test/one
        http://b.test/short: same text as http://d.test/short
        http://c.test/near: near http://a.test/one, distance 6
        http://c.test/short: original of 0
        http://d.test/other: original of 0
        http://d.test/short: original of 1
    "#]]
}

#[test]
fn copies_are_known_whatever_they_are_wrapped_in() {
    for shards in [1, 4] {
        in_virtual_time(async {
            let machine = machine(shards);
            assert_eq!(machine.run(&[SEED]).await.unwrap(), Ending::Done);
            expected().assert_eq(&verdicts(&machine));
            let counts = machine.duplicates().unwrap().counts();
            assert_eq!((counts.pages, counts.copies()), (9, 3), "{counts:?}");
            assert_eq!((counts.judged, counts.exact, counts.near), (9, 2, 1));
        });
    }
}

#[test]
fn a_crawler_that_dies_gives_no_other_verdicts() {
    for shards in [1, 4] {
        let writes = in_virtual_time(async {
            let machine = machine(shards);
            machine.run(&[SEED]).await.unwrap();
            machine.disk.writes()
        });
        assert!(writes > 30, "{writes}");
        for death in 1..writes {
            in_virtual_time(async {
                let machine = machine(shards);
                machine.disk.fail_after(death);
                let died = machine.run(&[SEED]).await;
                assert!(died.is_err() && machine.disk.is_dead(), "write {death}: {died:?}");
                if death % 2 == 0 {
                    machine.disk.kill()
                } else {
                    machine.disk.crash(death)
                }
                assert_eq!(machine.run(&[SEED]).await.unwrap(), Ending::Done);
                expected().assert_eq(&verdicts(&machine));
            });
        }
    }
}
