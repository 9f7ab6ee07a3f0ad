//! The pages of a folder, and where each came from.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub struct Page {
    pub id: String,
    pub url: String,
    pub html: String,
}

/// In the order of their names.
pub fn all(folder: &Path) -> impl Iterator<Item = Page> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder.join("ground-truth"))
        .expect("the folder has a folder `ground-truth`")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    names.sort();
    let html = folder.join("html");
    names.into_iter().map(move |name| read(&html, &name))
}

fn read(html: &Path, name: &Path) -> Page {
    let text = fs::read_to_string(name).expect("what is known can be read");
    let known: Value = serde_json::from_str(&text).expect("what is known is JSON");
    let id = name.file_stem().expect("it has a name").to_string_lossy().into_owned();
    let file = fs::File::open(html.join(format!("{id}.html.gz"))).expect("a page can be opened");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a page is gzip");
    let url = known["url"].as_str().unwrap_or("").to_owned();
    Page { id, url, html: String::from_utf8_lossy(&bytes).into_owned() }
}
