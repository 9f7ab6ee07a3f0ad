//! What did a page say that was visited before?
//!
//! The full-text index hears of a page while its text is in memory. After a crash the log of visits tells
//! of pages again, without their texts; and a page that was a copy of another may become the one that is
//! found. Then its answer is read from the archive once more, as its visit did.

use std::sync::Mutex;

use ports::shard_store::VisitLine;
use search::{Recall, Recalled};
use types::ShardId;

use crate::captures::Captures;
use crate::dir::{Dir, Mark};
use crate::settings::Settings;

/// Reads from the archive of a crawl's directory, which is opened when it is first asked.
pub fn from_archive(dir: &Dir, mark: &Mark, settings: &Settings) -> Recall {
    let (dir, mark) = (dir.clone(), mark.clone());
    let product = settings.identity.product.clone();
    let limits = crate::wiring::page_limits(settings);
    let opened: Mutex<Option<Captures>> = Mutex::new(None);
    Box::new(move |shard, line| {
        let mut captures = opened.lock().expect("no panic while locked");
        if captures.is_none() {
            *captures = Captures::open(&dir, &mark).ok();
        }
        // Without an archive there is nothing to read.
        let Some(captures) = &*captures else { return Recalled::Nothing };
        read(captures, (shard, line), &product, limits)
    })
}

fn read(
    captures: &Captures,
    (shard, line): (ShardId, &VisitLine),
    product: &str,
    limits: page::Limits,
) -> Recalled {
    let Some(place) = line.warc else { return Recalled::Nothing };
    let capture = match captures.read(shard, place) {
        Ok(Some(capture)) if capture.url == line.url => capture,
        Ok(_) => return Recalled::Nothing,
        Err(error) => {
            tracing::warn!(url = %line.url, error = format!("{error:#}"), "archive cannot be read");
            return Recalled::Nothing;
        }
    };
    let headers = capture.page_headers();
    let (document, content) = page::extract(page::Input {
        url: line.url.as_str(),
        body: &capture.body,
        content_type: capture.header("content-type"),
        headers: &headers,
        product,
        limits,
    });
    match content {
        _ if document.robots.noindex => Recalled::NoIndex,
        Some(content) => Recalled::Page(engine::stages::read::reading(&content).into()),
        None => Recalled::Nothing,
    }
}
