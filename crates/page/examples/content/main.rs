//! Learns what is main content, and says how well it is found.
//!
//!     content cross FOLDER [SPLIT [DUMP]]   out-of-fold scores, five folds by domain
//!     content train FOLDER MODEL            learns from all pages and writes the model
//!     content score FOLDER                  times the shipped model
//!     content oracle FOLDER [DUMP]          what the best choice of blocks would score
//!     content texts FOLDER FILE             what others' texts score: lines of JSON, `id` and `text`
//!
//! FOLDER holds pages with known main text (`html/`, `ground-truth/`). SPLIT is a number, 0 unless
//! given: each stands for other folds, so that a gain can be told from luck. DUMP gets every page,
//! the worst first, with every block. Everything is deterministic.

mod boost;
mod labels;
mod learn;
mod pages;
mod report;
mod speed;

use std::collections::HashMap;
use std::path::Path;

use lycosa_page::content::study::{self, Model};

use learn::Learnt;
use pages::{Known, Sample, parallel};
use report::{Found, Report};

const FOLDS: u64 = 5;
const THREADS: usize = 2;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cross", folder] => cross(Path::new(folder), 0, None),
        ["cross", folder, split, rest @ ..] if split.parse::<u64>().is_ok() => {
            let split = split.parse().expect("it was just parsed");
            cross(Path::new(folder), split, rest.first().copied());
        }
        ["train", folder, model] => train(Path::new(folder), Path::new(model)),
        ["score", folder] => speed::score(Path::new(folder)),
        ["texts", folder, file] => texts(Path::new(folder), Path::new(file)),
        ["oracle", folder, rest @ ..] => oracle(Path::new(folder), rest.first().copied()),
        _ => {
            eprintln!("content cross|train|score|oracle|texts FOLDER [SPLIT, DUMP, MODEL or FILE]");
            std::process::exit(2);
        }
    }
}

/// The fold of a domain: the same in every run.
fn fold(domain: &str, folds: u64) -> u64 {
    let hash = domain.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 17) % folds
}

/// The fold that a domain is tested in.
fn outer_fold(domain: &str, split: u64) -> u64 {
    match split {
        0 => fold(domain, FOLDS),
        _ => fold(&format!("{split} {domain}"), FOLDS),
    }
}

fn cross(folder: &Path, split: u64, dump: Option<&str>) {
    let samples = pages::load(folder, THREADS);
    eprintln!("{} pages are loaded", samples.len());
    let parts = parallel(FOLDS as usize, THREADS, |part| {
        let is_test = |sample: &&Sample| outer_fold(&sample.domain, split) == part as u64;
        let training: Vec<&Sample> = samples.iter().filter(|sample| !is_test(sample)).collect();
        let learnt = learn::learn(&training);
        let tests = samples.iter().filter(is_test);
        let found: Vec<Found> = tests.map(|sample| find(sample, &learnt.model)).collect();
        eprintln!("fold {part} is done");
        found
    });
    let mut report = Report::default();
    parts.into_iter().flatten().for_each(|found| report.add(found));
    report.print();
    dump.into_iter().for_each(|path| report.dump(path));
}

fn train(folder: &Path, path: &Path) {
    let samples = pages::load(folder, THREADS);
    let Learnt { model, .. } = learn::learn(&samples.iter().collect::<Vec<_>>());
    let bytes = model.save();
    std::fs::write(path, &bytes).expect("the model can be written");
    println!("{} bytes", bytes.len());
}

/// How good the best choice of blocks would be: what no model can beat.
fn oracle(folder: &Path, dump: Option<&str>) {
    let mut report = Report::default();
    for sample in pages::load(folder, THREADS) {
        let taken: Vec<(f32, bool)> =
            sample.labels.iter().map(|&label| (label, label >= 0.5)).collect();
        let blocks = sample.page.blocks.iter().zip(&taken).filter(|(_, taken)| taken.1);
        let text: Vec<&str> = blocks.map(|(block, _)| block.text.as_str()).collect();
        report.add(Found::of(&sample, &text.join("\n"), &sample.known.kind, &taken));
    }
    report.print();
    dump.into_iter().for_each(|path| report.dump(path));
}

/// Scores texts that somebody else took from the pages.
fn texts(folder: &Path, file: &Path) {
    let file = std::fs::read_to_string(file).expect("the texts can be read");
    let lines = file
        .lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(line).expect("a line is JSON") });
    let found: HashMap<String, String> = lines
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap_or("").to_owned();
            (word("id"), word("text"))
        })
        .collect();
    let mut report = Report::default();
    for known in Known::all(folder) {
        let text = found.get(&known.id).map_or("", String::as_str);
        report.add(Found::in_text(&known, text, ""));
    }
    report.print();
}

/// What a model that has not seen the page finds in it.
fn find(sample: &Sample, model: &Model) -> Found {
    let (content, verdicts) = study::read(model, &sample.known.url, &sample.html());
    Found::of(sample, &content.text, content.page_type.as_str(), &verdicts)
}
