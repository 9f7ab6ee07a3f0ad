//! Where do texts come from?
//!
//! Real main texts, when the folder is there: two halves by the domain of their pages, so that no
//! site is in both. Otherwise texts of made-up words, as frequent as words are (Zipf), each text with
//! a subject that makes some of its words more frequent.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::Chance;

/// Words of a text, and whether it is for development or held out.
#[derive(Debug)]
pub struct Text {
    pub words: Vec<String>,
    pub held_out: bool,
}

/// Shorter ones are no documents; longer ones are cut, as templates and edits scale with them.
const WORDS_MIN: usize = 60;
const WORDS_MAX: usize = 1_500;

pub fn texts(folder: Option<&str>) -> Vec<Text> {
    let real =
        folder.map(|folder| Path::new(folder).join("ground-truth")).filter(|path| path.is_dir());
    let texts = match real {
        Some(path) => {
            println!("texts: real main texts of {}", folder.unwrap_or_default());
            real_texts(&path)
        }
        None => {
            println!("texts: made-up words, because there is no folder of real pages");
            made_up()
        }
    };
    let held_out = texts.iter().filter(|text| text.held_out).count();
    println!("{} for development, {held_out} held out\n", texts.len() - held_out);
    texts
}

fn real_texts(folder: &Path) -> Vec<Text> {
    let listing = fs::read_dir(folder).expect("the folder can be listed");
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let texts = paths.iter().filter_map(|path| {
        let page: Json = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let text = page["ground_truth"]["main_content"].as_str()?;
        let words: Vec<_> = text.split_whitespace().take(WORDS_MAX).map(str::to_owned).collect();
        let url = page["url"].as_str().unwrap_or_default();
        let host = url.split('/').nth(2).unwrap_or_default().trim_start_matches("www.");
        let held_out =
            host.bytes().fold(7_u32, |all, byte| all.wrapping_mul(31) ^ u32::from(byte)) % 2 == 1;
        (words.len() >= WORDS_MIN).then_some(Text { words, held_out })
    });
    texts.collect()
}

fn made_up() -> Vec<Text> {
    const SYLLABLES: [&str; 24] = [
        "ta", "re", "mo", "li", "san", "ke", "vor", "ni", "pal", "du", "este", "gri", "on", "be",
        "cha", "ul", "fen", "ra", "tor", "in", "we", "sho", "mar", "ex",
    ];
    let mut chance = Chance::new(3);
    let vocabulary: Vec<String> = (0..20_000)
        .map(|n| {
            let syllables = 1 + (n as f64).log10() as usize / 2 + chance.below(2);
            (0..syllables).map(|_| SYLLABLES[chance.below(SYLLABLES.len())]).collect()
        })
        .collect();
    let mut text = |n: usize| {
        let length = chance.between(WORDS_MIN, 600);
        let subject = chance.below(vocabulary.len() - 200);
        let words = (0..length).map(|_| {
            let zipf =
                (vocabulary.len() as f64).powf(chance.below(1 << 20) as f64 / (1 << 20) as f64);
            let of_subject = chance.below(4) == 0;
            let at = if of_subject { subject + zipf as usize % 200 } else { zipf as usize - 1 };
            vocabulary[at].clone()
        });
        Text { words: words.collect(), held_out: n % 2 == 1 }
    };
    (0..1_400).map(&mut text).collect()
}
