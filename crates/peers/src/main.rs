//! Ours beside others, on a folder of real pages.
//!
//!     peers links FOLDER         are our links those of the standard's tree?
//!     peers extract FOLDER OUT   what other extractors find, into OUT (feature `extractors`)
//!
//! FOLDER holds pages as `html/NNNN.html.gz` with what is known of them as `ground-truth/NNNN.json`.

#[cfg(feature = "extractors")]
mod extract;
mod pages;

use std::path::Path;
use std::process::ExitCode;

use lycosa_peers::compare;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["links", folder] => links(Path::new(folder)),
        #[cfg(feature = "extractors")]
        ["extract", folder, out] => extract::run(Path::new(folder), Path::new(out)),
        _ => {
            eprintln!("peers links|extract FOLDER [OUT] (extract needs the feature `extractors`)");
            ExitCode::from(2)
        }
    }
}

fn links(folder: &Path) -> ExitCode {
    let (mut pages, mut same, mut copies, mut dropped, mut differ) = (0, 0, 0, 0, 0);
    for page in pages::all(folder) {
        let difference = compare(&page.url, &page.html);
        pages += 1;
        same += difference.same;
        copies += difference.copies;
        dropped += difference.dropped;
        if !difference.is_none() {
            differ += 1;
            print!("{} {}\n{difference}", page.id, page.url);
        }
    }
    println!("{pages} pages, {same} links as in their trees, {differ} pages differ");
    println!("{copies} anchors that the standard repeats, {dropped} links it leaves out");
    if differ == 0 && pages > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
