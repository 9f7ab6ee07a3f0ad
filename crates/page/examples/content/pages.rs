//! The pages with known main text, and what is known of each.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use lycosa_page::content::study::{self, Page};
use serde_json::Value;

/// What reviewers say of a page.
#[derive(Debug)]
pub struct Known {
    pub id: String,
    pub url: String,
    pub kind: String,
    pub truth: String,
    pub title: Option<String>,
    pub author: Option<String>,
    pub published: Option<String>,
    pub with: Vec<String>,
    pub without: Vec<String>,
    html: PathBuf,
}

impl Known {
    /// The whole set, in the order of its names.
    pub fn all(folder: &Path) -> Vec<Self> {
        let mut names: Vec<PathBuf> = fs::read_dir(folder.join("ground-truth"))
            .expect("the set has a folder `ground-truth`")
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        names.sort();
        names.iter().map(|name| Self::read(folder, name)).collect()
    }

    fn read(folder: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a truth can be read");
        let known: Value = serde_json::from_str(&text).expect("a truth is JSON");
        let id = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let truth = &known["ground_truth"];
        let list = |name: &str| -> Vec<String> {
            let list = truth[name].as_array().into_iter().flatten();
            list.filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let word = |name: &str| truth[name].as_str().map(str::to_owned);
        Self {
            url: known["url"].as_str().unwrap_or("").to_owned(),
            kind: known["_internal"]["page_type"]["primary"].as_str().unwrap_or("").to_owned(),
            truth: word("main_content").unwrap_or_default(),
            title: word("title"),
            author: word("author"),
            published: word("publish_date"),
            with: list("with"),
            without: list("without"),
            html: folder.join("html").join(format!("{id}.html.gz")),
            id,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let file = fs::File::open(&self.html).expect("a page can be opened");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a page is gzip");
        bytes
    }
}

/// A page to learn from.
#[derive(Debug)]
pub struct Sample {
    pub known: Known,
    pub domain: String,
    pub page: Page,
    /// Per block, which part of it is in the truth.
    pub labels: Vec<f32>,
}

impl Sample {
    pub fn html(&self) -> String {
        String::from_utf8_lossy(&self.known.bytes()).into_owned()
    }
}

pub fn load(folder: &Path, threads: usize) -> Vec<Sample> {
    let all = Known::all(folder);
    let read = parallel(all.len(), threads, |at| {
        let known = &all[at];
        let page = study::page(&known.url, &String::from_utf8_lossy(&known.bytes()));
        let labels = crate::labels::labels(&page, &known.truth);
        (page, labels)
    });
    let both = all.into_iter().zip(read);
    both.map(|(known, (page, labels))| Sample { domain: domain(&known.url), known, page, labels })
        .collect()
}

/// The registrable domain, roughly: too coarse does no harm here.
fn domain(url: &str) -> String {
    let host = url.split("//").nth(1).unwrap_or(url);
    let host = host.split(['/', ':', '?']).next().unwrap_or("");
    let labels: Vec<&str> = host.split('.').collect();
    let short = labels.len() > 2 && labels[labels.len() - 2].len() <= 3;
    labels[labels.len().saturating_sub(if short { 3 } else { 2 })..].join(".")
}

/// The words of a text as the score counts them.
pub fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// F1 of two texts over their words as multisets.
pub fn f1(text: &str, truth: &str) -> f64 {
    let (text, truth) = (words(text), words(truth));
    if text.is_empty() || truth.is_empty() {
        return f64::from(u8::from(text.is_empty() && truth.is_empty()));
    }
    let mut counts: HashMap<&str, i64> = HashMap::new();
    truth.iter().for_each(|word| *counts.entry(word).or_default() += 1);
    let mut common = 0.0;
    for word in &text {
        if let Some(count) = counts.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1.0;
        }
    }
    2.0 * common / (text.len() + truth.len()) as f64
}

/// Runs `work` for 0 to `count` on some threads; results in order.
pub fn parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if at >= count {
                            return mine;
                        }
                        mine.push((at, work(at)));
                    }
                })
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no page panics")).collect()
    });
    results.sort_by_key(|result| result.0);
    results.into_iter().map(|result| result.1).collect()
}
