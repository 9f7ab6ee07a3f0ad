//! Learns what is main content, and says how well it is found.
//!
//!     content cross FOLDER [DUMP]     out-of-fold scores, five folds by domain; DUMP gets every block
//!     content train FOLDER MODEL      learns from all pages and writes the model
//!     content score FOLDER            times the shipped model
//!     content oracle FOLDER           what the best choice of blocks would score
//!
//! FOLDER holds pages with known main text (`html/`, `ground-truth/`). Everything is deterministic.
//! The score of a page is F1 over its words as multisets.

mod boost;
mod labels;
mod learn;
mod pages;
mod report;
mod speed;

use std::path::Path;

use lycosa_page::content::study::{self, Model};

use learn::Learnt;
use pages::{Sample, parallel};
use report::{Found, Report};

const FOLDS: u64 = 5;
const THREADS: usize = 2;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cross", folder, rest @ ..] => cross(Path::new(folder), rest.first().copied()),
        ["train", folder, model] => train(Path::new(folder), Path::new(model)),
        ["score", folder] => speed::score(Path::new(folder)),
        ["oracle", folder] => oracle(Path::new(folder)),
        _ => {
            eprintln!("content cross|train|score|oracle FOLDER [DUMP or MODEL]");
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

fn cross(folder: &Path, dump: Option<&str>) {
    let samples = pages::load(folder, THREADS);
    eprintln!("{} pages are loaded", samples.len());
    let parts = parallel(FOLDS as usize, THREADS, |part| {
        let is_test = |sample: &&Sample| fold(&sample.domain, FOLDS) == part as u64;
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
    if let Some(path) = dump {
        report.dump(path);
    }
}

fn train(folder: &Path, path: &Path) {
    let samples = pages::load(folder, THREADS);
    let Learnt { model, .. } = learn::learn(&samples.iter().collect::<Vec<_>>());
    let bytes = model.save();
    std::fs::write(path, &bytes).expect("the model can be written");
    println!("{} bytes", bytes.len());
}

/// How good the best choice of blocks would be: what no model can beat.
fn oracle(folder: &Path) {
    let mut report = Report::default();
    for sample in pages::load(folder, THREADS) {
        let taken: Vec<(f32, bool)> =
            sample.labels.iter().map(|&label| (label, label >= 0.5)).collect();
        let blocks = sample.page.blocks.iter().zip(&taken).filter(|(_, taken)| taken.1);
        let text: Vec<&str> = blocks.map(|(block, _)| block.text.as_str()).collect();
        report.add(Found::of(&sample, &text.join("\n"), &sample.known.kind, &taken));
    }
    report.print();
}

/// What a model that has not seen the page finds in it.
fn find(sample: &Sample, model: &Model) -> Found {
    let (content, verdicts) = study::read(model, &sample.known.url, &sample.html());
    Found::of(sample, &content.text, content.page_type.as_str(), &verdicts)
}
