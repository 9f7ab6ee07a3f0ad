//! The text of pages as WARC records, as Common Crawl's WET files have it.
//!
//! A `conversion` record a page: plain text in UTF-8, WARC-Refers-To the answer that it was taken from. In a
//! file that is packed each record is a gzip member of its own.

use types::UrlId;
use warc::{Capture as Event, Compressor, Level, Record, RecordId, WarcDate, WarcFields};

use super::reading::Page;

/// Makes records.
#[derive(Debug)]
pub struct Wet {
    packer: Option<Compressor>,
}

impl Wet {
    pub fn new(packed: bool) -> Self {
        Self { packer: packed.then(|| Compressor::new(Level::DEFAULT)) }
    }

    /// The record that opens a file.
    pub fn opening(&mut self, filename: &str, now: WarcDate) -> Result<Vec<u8>, warc::Error> {
        let mut fields = WarcFields::new();
        fields.push("software", concat!("lycosa/", env!("CARGO_PKG_VERSION")));
        fields.push("format", "WARC File Format 1.1");
        fields.push("description", "plain text of archived pages");
        let unique = UrlId::of(&format!("{filename} {now}")).0;
        let id = RecordId::derive(unique, "warcinfo");
        let record = Record::warcinfo(id, now, filename, &fields).build()?;
        Ok(self.bytes(&record))
    }

    /// The record of a page.
    pub fn page(&mut self, page: &Page) -> Result<Vec<u8>, warc::Error> {
        let capture = &page.capture;
        let seconds = i64::try_from(capture.at.secs()).unwrap_or(i64::MAX);
        let event = Event {
            uri: capture.url.as_str(),
            date: WarcDate::from_unix_seconds(seconds),
            warcinfo: None,
            ip: None,
            protocols: &[],
        };
        // The same page has the same name in every export.
        let id = RecordId::derive(UrlId::of(&capture.record_id).0, "conversion");
        let text = page.text().as_bytes();
        let mut record = Record::conversion(&event, id, &capture.record_id, "text/plain", text);
        let language = page.language().and_then(tables::iso_639_3);
        if let Some(language) = &language {
            record = record.field("WARC-Identified-Content-Language", language);
        }
        Ok(self.bytes(&record.build()?))
    }

    fn bytes(&mut self, record: &Record<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &mut self.packer {
            Some(packer) => {
                packer.member(record, &mut bytes);
            }
            None => record.write_plain(&mut bytes),
        }
        bytes
    }
}
