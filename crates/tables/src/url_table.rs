//! What does a row say of a capture?
//!
//! The columns are those of Common Crawl's index, in the same order and with the same types; what each
//! holds is described in docs/export.md. In a folder `crawl=…/subset=…` the last two stand in the path, as
//! Hive lays tables out ([`UrlTable::part`]); a file that stands alone has them as columns
//! ([`UrlTable::alone`]).

use std::io::Write;

use serde::{Deserialize, Serialize};
use types::{CrawlUrl, Timestamp};

use crate::host::HostParts;
use crate::language::iso_639_3;
use crate::sheet::{Cell, Error, Sheet};

/// Which part of the table a capture belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subset {
    /// Pages that came whole or cut, with status 200.
    Warc,
    /// Redirects, pages that were not found or not changed, and all else.
    CrawlDiagnostics,
    RobotsTxt,
}

impl Subset {
    pub const ALL: [Self; 3] = [Self::Warc, Self::CrawlDiagnostics, Self::RobotsTxt];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warc => "warc",
            Self::CrawlDiagnostics => "crawldiagnostics",
            Self::RobotsTxt => "robotstxt",
        }
    }

    /// `has_payload`: the record is a response, no revisit. Whoever fetches a record of the subset
    /// `warc` finds a page in it.
    pub fn of(url: &CrawlUrl, status: u16, has_payload: bool) -> Self {
        if url.path_and_query() == "/robots.txt" {
            return Self::RobotsTxt;
        }
        if status == 200 && has_payload { Self::Warc } else { Self::CrawlDiagnostics }
    }
}

/// A capture, as far as it does not follow from its URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub url: CrawlUrl,
    pub at: Timestamp,
    /// 0 for an answer without a head.
    pub status: u16,
    /// Where a redirect leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    /// SHA-1 of the payload in base 32, without `sha1:` before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// As the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// As the content is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<String>,
    /// BCP 47.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The words of WARC-Truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<String>,
    /// Below the crawl's directory.
    pub filename: String,
    pub offset: u64,
    pub length: u64,
    /// The shard, in two digits.
    pub segment: String,
    pub subset: Subset,
}

impl Row {
    /// Whether the columns can hold where it lies: they have 32 bits, as Common Crawl's.
    pub fn fits(&self) -> bool {
        i32::try_from(self.offset).is_ok() && i32::try_from(self.length).is_ok()
    }
}

const COLUMNS: &str = "
    required binary url_surtkey (STRING);
    required binary url (STRING);
    required binary url_host_name (STRING);
    optional binary url_host_tld (STRING);
    optional binary url_host_2nd_last_part (STRING);
    optional binary url_host_3rd_last_part (STRING);
    optional binary url_host_4th_last_part (STRING);
    optional binary url_host_5th_last_part (STRING);
    optional binary url_host_registry_suffix (STRING);
    optional binary url_host_registered_domain (STRING);
    optional binary url_host_private_suffix (STRING);
    optional binary url_host_private_domain (STRING);
    optional binary url_host_name_reversed (STRING);
    required binary url_protocol (STRING);
    optional int32 url_port;
    required binary url_path (STRING);
    optional binary url_query (STRING);
    required int64 fetch_time (TIMESTAMP(MILLIS,true));
    required int32 fetch_status (INTEGER(16,true));
    optional binary fetch_redirect (STRING);
    optional binary content_digest (STRING);
    optional binary content_mime_type (STRING);
    optional binary content_mime_detected (STRING);
    optional binary content_charset (STRING);
    optional binary content_languages (STRING);
    optional binary content_truncated (STRING);
    required binary warc_filename (STRING);
    required int32 warc_record_offset;
    required int32 warc_record_length;
    required binary warc_segment (STRING);
";
const IN_THE_PATH: &str = "
    required binary crawl (STRING);
    required binary subset (STRING);
";

/// The columns of a part, in the language of Parquet.
pub(crate) fn part_schema() -> String {
    format!("message captures {{ {COLUMNS} }}")
}

/// A file of the table in the making.
#[derive(Debug)]
pub struct UrlTable<W: Write + Send> {
    sheet: Sheet<W>,
    /// The name of the crawl, where it is a column.
    crawl: Option<String>,
}

impl<W: Write + Send> UrlTable<W> {
    /// A file whose path names crawl and subset.
    pub fn part(out: W) -> Result<Self, Error> {
        let sheet = Sheet::new(out, &part_schema())?;
        Ok(Self { sheet, crawl: None })
    }

    /// A file with all 32 columns.
    pub fn alone(out: W, crawl: &str) -> Result<Self, Error> {
        let sheet = Sheet::new(out, &format!("message captures {{ {COLUMNS} {IN_THE_PATH} }}"))?;
        Ok(Self { sheet, crawl: Some(crawl.to_owned()) })
    }

    /// One more row; [`Row::fits`] must have been asked.
    pub fn push(&mut self, row: &Row) -> Result<(), Error> {
        let url = &row.url;
        let host = HostParts::of(url.host());
        let surt = warc::surt(url.as_str());
        let label = |at: usize| Cell::Text(host.labels.get(at).copied());
        let port = (url.port() != url.scheme().default_port()).then(|| i32::from(url.port()));
        // -1 is what Common Crawl has where there is no status.
        let status = i16::try_from(row.status).ok().filter(|status| *status > 0).unwrap_or(-1);
        let language = row.language.as_deref().and_then(iso_639_3);
        let place = |number: u64| Cell::Int(i32::try_from(number).ok());
        let millis = i64::try_from(row.at.millis()).ok();
        let mut cells = vec![
            Cell::text(&surt),
            Cell::text(url.as_str()),
            Cell::text(url.host()),
            label(0),
            label(1),
            label(2),
            label(3),
            label(4),
            Cell::Text(host.registry_suffix),
            Cell::Text(host.registered_domain),
            Cell::Text(host.private_suffix),
            Cell::Text(host.private_domain),
            Cell::Text(host.reversed.as_deref()),
            Cell::text(url.scheme().as_str()),
            Cell::Int(port),
            Cell::text(url.path()),
            Cell::Text(url.query()),
            Cell::Long(millis),
            Cell::Int(Some(i32::from(status))),
            Cell::Text(row.redirect.as_deref()),
            Cell::Text(row.digest.as_deref()),
            Cell::Text(row.mime.as_deref()),
            Cell::Text(row.detected.as_deref()),
            Cell::Text(row.charset.as_deref()),
            Cell::Text(language.as_deref()),
            Cell::Text(row.truncated.as_deref()),
            Cell::text(&row.filename),
            place(row.offset),
            place(row.length),
            Cell::text(&row.segment),
        ];
        if let Some(crawl) = &self.crawl {
            cells.extend([Cell::text(crawl), Cell::text(row.subset.as_str())]);
        }
        self.sheet.push(&cells)
    }

    /// Ends the file and gives back what it was written to.
    pub fn finish(self) -> Result<W, Error> {
        self.sheet.finish()
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;

    fn row(url: &str, status: u16) -> Row {
        let url = CrawlUrl::parse(url).unwrap();
        Row {
            subset: Subset::of(&url, status, true),
            url,
            at: Timestamp::from_millis(1_793_867_400_123),
            status,
            redirect: None,
            digest: Some("CH7IV3XAD3M7A42JARKRLJ3T5PGGCGXD".to_owned()),
            mime: Some("text/html".to_owned()),
            detected: Some("text/html".to_owned()),
            charset: Some("UTF-8".to_owned()),
            language: Some("pt-BR".to_owned()),
            truncated: None,
            filename: "archive/lycosa-00-00000.warc.gz".to_owned(),
            offset: 1,
            length: 2,
            segment: "00".to_owned(),
        }
    }

    #[test]
    fn what_is_written_reads_the_same_and_a_lone_file_has_all_columns() {
        let mut table = UrlTable::alone(tempfile::tempfile().unwrap(), "c1").unwrap();
        table.push(&row("https://www.example.co.uk:8443/a%20b?q=1", 200)).unwrap();
        table.push(&row("http://127.0.0.1/robots.txt", 0)).unwrap();
        let reader = SerializedFileReader::new(table.finish().unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().schema().get_fields().len(), 32);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let text = |row: usize, at: usize| rows[row].get_string(at).ok().map(String::as_str);
        assert_eq!(text(0, 0), Some("uk,co,example:8443)/a%20b?q=1"));
        let parts: Vec<_> = (3..13).map(|at| text(0, at)).collect();
        let domain = Some("example.co.uk");
        let want = [Some("uk"), Some("co"), Some("example"), Some("www"), None, Some("co.uk")];
        assert_eq!(parts[..6], want);
        assert_eq!(parts[6..], [domain, Some("co.uk"), domain, Some("uk.co.example.www")]);
        assert_eq!(rows[0].get_int(14).unwrap(), 8443);
        assert_eq!((text(0, 15), text(0, 16)), (Some("/a%20b"), Some("q=1")));
        assert_eq!(rows[0].get_timestamp_millis(17).unwrap(), 1_793_867_400_123);
        assert_eq!(rows[0].get_short(18).unwrap(), 200);
        assert_eq!((text(0, 24), text(0, 25)), (Some("por"), None));
        assert_eq!((text(0, 30), text(0, 31)), (Some("c1"), Some("warc")));
        assert_eq!((text(1, 3), text(1, 31)), (None, Some("robotstxt")));
        assert_eq!(rows[1].get_short(18).unwrap(), -1);
        assert!(rows[1].get_int(14).is_err(), "no port in the URL");
    }

    #[test]
    fn a_place_beyond_32_bits_does_not_fit() {
        let mut row = row("http://a.test/", 200);
        assert!(row.fits());
        row.offset = 1 << 31;
        assert!(!row.fits());
        let mut table = UrlTable::part(Vec::new()).unwrap();
        assert!(table.push(&row).is_err(), "never a wrong place");
    }

    #[test]
    fn a_capture_belongs_to_the_subset_that_common_crawl_would_put_it_in() {
        let of = |url, status, payload| Subset::of(&CrawlUrl::parse(url).unwrap(), status, payload);
        assert_eq!(of("http://a.test/", 200, true), Subset::Warc);
        assert_eq!(of("http://a.test/", 200, false), Subset::CrawlDiagnostics);
        assert_eq!(of("http://a.test/", 404, true), Subset::CrawlDiagnostics);
        assert_eq!(of("http://a.test/robots.txt", 404, true), Subset::RobotsTxt);
    }
}
