//! What do other extractors take for the main content, and how long do they need?
//!
//! Each writes its texts into a file, a line of JSON a page, to be scored by the same program as
//! ours (`content texts`, in the crate `page`); the time of a page is printed here, ours beside it,
//! all on one thread of one process.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dom_smoothie::Readability;
use page::{Input, Limits};
use serde_json::json;
use trafilatura::Options;

use crate::pages::{self, Page};

type Extractor = fn(&Page) -> Option<String>;

const EXTRACTORS: [(&str, Extractor); 3] =
    [("lycosa", lycosa), ("dom_smoothie", smoothie), ("trafilatura", trafilatura)];

pub fn run(folder: &Path, out: &Path) -> ExitCode {
    fs::create_dir_all(out).expect("the folder for texts can be made");
    let pages: Vec<Page> = pages::all(folder).collect();
    println!("{:14} {:>12} {:>9} {:>9} {:>9}", "", "pages per s", "median", "p99", "gave up");
    for (name, extract) in EXTRACTORS {
        let file = fs::File::create(out.join(format!("{name}.jsonl"))).expect("a file can be made");
        let mut file = BufWriter::new(file);
        let mut times = Vec::new();
        let mut failed = 0;
        for page in &pages {
            let started = Instant::now();
            // One of them panics on a few pages; that counts as nothing found.
            let text = catch_unwind(|| extract(page)).ok().flatten();
            times.push(started.elapsed());
            failed += usize::from(text.is_none());
            let line = json!({ "id": page.id, "text": text.unwrap_or_default() });
            writeln!(file, "{line}").expect("a text can be written");
        }
        file.flush().expect("the texts can be written");
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let all: Duration = times.iter().sum();
        println!(
            "{name:14} {:12.0} {:9.1?} {:9.1?} {failed:9}",
            times.len() as f64 / all.as_secs_f64(),
            at(0.5),
            at(0.99),
        );
    }
    ExitCode::SUCCESS
}

fn lycosa(page: &Page) -> Option<String> {
    let limits = Limits { body_bytes_max: 16 << 20, ..Limits::default() };
    let input = Input::new(&page.url, page.html.as_bytes());
    let (_, content) = page::extract(Input { content_type: Some("text/html"), limits, ..input });
    content.map(|content| content.text)
}

fn smoothie(page: &Page) -> Option<String> {
    let url = Some(page.url.as_str()).filter(|url| !url.is_empty());
    let mut reader = Readability::new(page.html.as_str(), url, None).ok()?;
    reader.parse().ok().map(|article| article.text_content.to_string())
}

fn trafilatura(page: &Page) -> Option<String> {
    let options = Options::default().with_fallback(true);
    trafilatura::extract(&page.html, &options).ok().map(|found| found.content_text)
}
