//! What does the table of captures say of an answer?
//!
//! Its row is mostly what the log of visits has. The rest is read of the archived answer: where it
//! redirects to, what it is, in which encoding; of its first kilobytes where the crawl writes the table,
//! of all of it in an export.

use ports::{PortError, PortResult};
use tables::{Look, Row, Seen, Subset, TablePlace};
use types::{Base, Canon, ShardId};

use page::{ContentKind, Document};

use crate::captures::{Capture, Captures};
use crate::dir::{Dir, Mark};

/// How much of a page is read for its row while the crawl runs. Encodings are told in the first
/// kilobyte, or guessed.
const START_BYTES: usize = 8 << 10;

/// The crawl's name in the table.
pub fn crawl_name(mark: &Mark) -> String {
    format!("{:016x}", mark.crawl_id)
}

/// Where the table of a shard lies.
pub fn place(dir: &Dir, mark: &Mark, shard: ShardId) -> TablePlace {
    TablePlace { table: dir.table(), state: dir.state(), shard, crawl: crawl_name(mark), warc_name }
}

fn warc_name(shard: ShardId, serial: u32) -> String {
    format!("archive/{}", local::ArchiveSettings::new(shard, "lycosa").file_name(serial))
}

/// What looks at answers for the table of a shard.
pub fn look(captures: Captures, shard: ShardId) -> Look {
    Box::new(move |line, place| -> PortResult<Seen> {
        let capture = match captures.start(shard, place, START_BYTES) {
            Ok(Some(capture)) => capture,
            Ok(None) => {
                tracing::error!(url = %line.url, "an archived answer is not where the log says");
                return Ok(Seen::default());
            }
            Err(error) => {
                // A disk that fails stops the crawl; a damaged record costs its row three cells.
                if let Some(cause) = error.chain().find_map(|cause| cause.downcast_ref()) {
                    return Err(PortError::io("read an archived answer for the table", cause));
                }
                tracing::error!(url = %line.url, error = %format!("{error:#}"), "not read for the table");
                return Ok(Seen::default());
            }
        };
        if capture.is_revisit() || !is_read(capture.status) {
            return Ok(Seen { redirect: redirect(&capture), ..Seen::default() });
        }
        let headers = capture.page_headers();
        let document = page::read(page::Input {
            content_type: capture.header("content-type"),
            headers: &headers,
            ..page::Input::new(capture.url.as_str(), &capture.body)
        });
        Ok(seen(&capture, &document))
    })
}

/// Of other answers only the head is looked at.
fn is_read(status: u16) -> bool {
    (200..300).contains(&status)
}

/// A row of an export. `page`: what was read of a page.
pub fn row(capture: &Capture, page: Option<(&Document, Option<&str>)>) -> Row {
    let has_payload = !capture.is_revisit();
    let seen = match page {
        Some((document, _)) if has_payload => seen(capture, document),
        _ => Seen { redirect: redirect(capture), ..Seen::default() },
    };
    let digest = capture.digest.as_deref();
    let mime = match has_payload {
        true => capture.header("content-type").map(essence),
        false => Some(warc::cdxj::REVISIT_MIME),
    };
    // `lycosa-07-00000.warc.gz`; other crawlers' files are of no segment of ours.
    let segment = capture.place.file.split('-').nth(1).filter(|part| part.parse::<u16>().is_ok());
    Row {
        subset: Subset::of(&capture.url, capture.status, has_payload),
        url: capture.url.clone(),
        at: capture.at,
        status: capture.status,
        redirect: seen.redirect,
        digest: digest.map(|text| text.rsplit(':').next().unwrap_or(text).to_owned()),
        mime: mime.map(str::to_owned),
        detected: seen.detected,
        charset: seen.charset,
        language: page.and_then(|(_, language)| language).map(str::to_owned),
        truncated: capture.truncated.clone(),
        filename: format!("archive/{}", capture.place.file),
        offset: capture.place.offset,
        length: capture.place.length,
        segment: segment.unwrap_or("00").to_owned(),
    }
}

/// Whether the page of a capture is read for its row.
pub fn wants_page(capture: &Capture) -> bool {
    is_read(capture.status) && !capture.is_revisit()
}

fn seen(capture: &Capture, document: &Document) -> Seen {
    let declared = capture.media_type();
    Seen {
        redirect: redirect(capture),
        detected: Some(detected(document.kind, declared.as_deref(), &capture.body)),
        charset: document.charset.map(|charset| charset.name.to_owned()),
    }
}

/// The target of a redirect, absolute if it can be.
fn redirect(capture: &Capture) -> Option<String> {
    let location = capture.header("location").filter(|_| (300..400).contains(&capture.status))?;
    let base = Base::parse(capture.url.as_str()).ok()?;
    let joined = Canon::default().join(&base, location);
    Some(joined.map_or_else(|_| location.to_owned(), |url| url.as_str().to_owned()))
}

fn essence(content_type: &str) -> &str {
    content_type.split([';', ' ']).next().unwrap_or(content_type)
}

/// The media type by what the content is; what is declared serves where it says the same more exactly.
fn detected(kind: ContentKind, declared: Option<&str>, body: &[u8]) -> String {
    let declared = declared.unwrap_or_default();
    let or = |fits: bool, usual: &str| if fits { declared.to_owned() } else { usual.to_owned() };
    match kind {
        ContentKind::Html => "text/html".to_owned(),
        ContentKind::Xhtml => "application/xhtml+xml".to_owned(),
        ContentKind::Pdf => "application/pdf".to_owned(),
        ContentKind::Xml => or(declared.ends_with("xml"), "application/xml"),
        ContentKind::Json => or(declared.ends_with("json"), "application/json"),
        ContentKind::Text => {
            let script = declared.starts_with("application/") && declared.ends_with("javascript");
            or(declared.starts_with("text/") && declared != "text/html" || script, "text/plain")
        }
        ContentKind::Image => image(body).unwrap_or(or(declared.starts_with("image/"), "image/*")),
        ContentKind::Office => or(declared.contains("document"), "application/zip"),
        ContentKind::Other => or(!declared.is_empty(), "application/octet-stream"),
    }
}

fn image(body: &[u8]) -> Option<String> {
    const SIGNATURES: [(&[u8], &str); 7] = [
        (b"GIF8", "gif"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff", "jpeg"),
        (b"\0\0\x01\0", "vnd.microsoft.icon"),
        (b"II*\0", "tiff"),
        (b"MM\0*", "tiff"),
        (b"BM", "bmp"),
    ];
    if body.starts_with(b"RIFF") && body.get(8..12) == Some(b"WEBP") {
        return Some("image/webp".to_owned());
    }
    let found = SIGNATURES.iter().find(|(signature, _)| body.starts_with(signature));
    found.map(|(_, name)| format!("image/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_called_by_what_it_is() {
        let check = |kind, declared: &str, body: &[u8], want: &str| {
            let declared = (!declared.is_empty()).then_some(declared);
            assert_eq!(detected(kind, declared, body), want);
        };
        check(ContentKind::Html, "text/plain", b"", "text/html");
        check(ContentKind::Xml, "application/rss+xml", b"", "application/rss+xml");
        check(ContentKind::Xml, "text/html", b"", "application/xml");
        check(ContentKind::Text, "text/css", b"", "text/css");
        check(ContentKind::Text, "text/html", b"", "text/plain");
        check(ContentKind::Text, "application/javascript", b"", "application/javascript");
        check(ContentKind::Image, "text/html", b"GIF89a", "image/gif");
        check(ContentKind::Image, "image/svg+xml", b"<svg", "image/svg+xml");
        check(ContentKind::Image, "", b"RIFF....WEBP", "image/webp");
        check(ContentKind::Other, "", b"", "application/octet-stream");
        check(ContentKind::Other, "font/woff2", b"", "font/woff2");
    }
}
