//! Is this archive sound, and if not, where and how?
//!
//! Every record is read to its end: gzip checksums, framing, header lines, mandatory fields,
//! lengths, digests, and whether the records of one capture find each other. After damage the
//! check goes on at the next record it can find, so one bad sector does not hide the rest.
//!
//! A payload digest counts as right if it fits the body as stored or with its chunk framing
//! taken off: the standard wants the second, most tools write the first (see `record`).
//!
//! Not here: whether the content makes sense.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Seek};

use sha1::Digest as _;

use crate::reader::{Extent, Header};
use crate::{Damage, Error, Framing, Reader, WarcDate};

mod digests;
use digests::BlockAudit;

/// Most problems listed in a report; a file with more is not worth reading line by line.
const PROBLEMS_MAX: usize = 1000;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that could be read to their end.
    pub records: u64,
    /// The same by WARC-Type.
    pub by_type: BTreeMap<String, u64>,
    /// Digests that fit what they digest.
    pub digests_verified: u64,
    /// The first problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// Problems beyond those listed.
    pub problems_unlisted: u64,
    /// Problems that are damage, listed or not.
    pub damage: u64,
}

/// One thing that is wrong with one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where the record (or its gzip member) starts.
    pub offset: u64,
    pub record_id: Option<String>,
    pub what: Defect,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Readable, but not as the standard has it.
    Violation,
    /// Content is lost or changed.
    Damage,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    #[error("the file ends inside this record")]
    Truncated,
    #[error("{0}")]
    Damaged(Damage),
    #[error("{bytes} bytes from here hold no readable record")]
    Unreadable { bytes: u64 },
    #[error("{field} says {said}, the content has {found}")]
    Digest { field: &'static str, said: String, found: String },
    #[error("{field} cannot be verified: {said}")]
    DigestUnknown { field: &'static str, said: String },
    #[error("shares its gzip member with other records, so it cannot be read by offset")]
    SharedMember,
    #[error("not followed by exactly two line ends")]
    Trailer,
    #[error("version {0} is none that we know")]
    Version(String),
    #[error("header lines end without carriage return")]
    BareLineEnds,
    #[error("header has a line that is no field")]
    NotAField,
    #[error("header is not UTF-8")]
    NotUtf8,
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} is not allowed here")]
    NotAllowed(&'static str),
    #[error("{0} is repeated")]
    Repeated(&'static str),
    #[error("WARC-Date is no date: {0}")]
    Date(String),
    #[error("another record has the same WARC-Record-ID")]
    SameId,
    #[error("{field} names no record of this file: {target}")]
    Dangling { field: &'static str, target: String },
}

impl Defect {
    /// Whether content is lost, or only form.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Truncated | Self::Damaged(_) | Self::Unreadable { .. } | Self::Digest { .. } => {
                Severity::Damage
            }
            _ => Severity::Violation,
        }
    }
}

/// Checks a whole file.
///
/// # Errors
/// [`Error::Io`] if the input cannot be read; all else is in the report.
pub fn check<R: BufRead + Seek>(input: R) -> Result<Report, Error> {
    let mut reader = Reader::new(input);
    let mut check = Check::default();
    loop {
        match next(&mut reader, &mut check) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Error::Truncated { offset }) => check.report(offset, None, Defect::Truncated),
            Err(Error::Damaged { offset, damage }) => {
                check.report(offset, None, Defect::Damaged(damage));
            }
            Err(error) => return Err(error),
        }
        if let Some(failure) = reader.failed {
            let Some(found) = reader.resync()? else { break };
            let bytes = found - failure.offset;
            check.report(failure.offset, None, Defect::Unreadable { bytes });
        }
    }
    check.dangling();
    Ok(check.report)
}

/// Checks one record; false at the end.
fn next<R: BufRead>(reader: &mut Reader<R>, check: &mut Check) -> Result<bool, Error> {
    let Some(header) = reader.next_record()? else { return Ok(false) };
    let mut audit = BlockAudit::new(&header);
    while let Some(piece) = reader.chunk()? {
        audit.push(piece);
    }
    let Some(extent) = reader.finish()? else { return Ok(false) };
    check.record(&header, extent, audit);
    Ok(true)
}

#[derive(Default)]
struct Check {
    report: Report,
    /// Hashes of the ids seen: 16 bytes a record instead of a string.
    ids: BTreeSet<u128>,
    /// References to records not seen yet: hash → offset, own id, field, target. Short, because
    /// the records of a capture stand together.
    open: BTreeMap<u128, (u64, Option<String>, &'static str, String)>,
}

impl Check {
    fn report(&mut self, offset: u64, record_id: Option<String>, what: Defect) {
        self.report.damage += u64::from(what.severity() == Severity::Damage);
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(Problem { offset, record_id, what });
        } else {
            self.report.problems_unlisted += 1;
        }
    }

    fn record(&mut self, header: &Header, extent: Extent, audit: BlockAudit) {
        let kind = header.fields.get("WARC-Type").unwrap_or("").to_ascii_lowercase();
        let id = header.fields.get("WARC-Record-ID").map(str::to_owned);
        let mut defects = form(header, &kind);
        if extent.framing == Framing::Gzip && extent.length.is_none() {
            defects.push(Defect::SharedMember);
        }
        if !extent.trailer_tidy {
            defects.push(Defect::Trailer);
        }
        self.report.digests_verified += audit.finish(&mut defects);
        if let Some(id) = &id
            && !self.ids.insert(hash(id))
        {
            defects.push(Defect::SameId);
        }
        for what in defects {
            self.report(header.offset, id.clone(), what);
        }
        self.references(header, id.as_deref());
        self.report.records += 1;
        *self.report.by_type.entry(kind).or_default() += 1;
    }

    fn references(&mut self, header: &Header, id: Option<&str>) {
        if let Some(id) = id {
            self.open.remove(&hash(id));
        }
        // A revisit may refer to another file; the records of one capture may not.
        for target in header.fields.all("WARC-Concurrent-To") {
            let key = hash(target);
            if !self.ids.contains(&key) {
                let id = id.map(str::to_owned);
                let from = (header.offset, id, "WARC-Concurrent-To", target.to_owned());
                self.open.insert(key, from);
            }
        }
    }

    fn dangling(&mut self) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        open.sort();
        for (offset, id, field, target) in open {
            self.report(offset, id, Defect::Dangling { field, target });
        }
    }
}

/// What the header alone tells.
fn form(header: &Header, kind: &str) -> Vec<Defect> {
    let fields = &header.fields;
    let mut defects = Vec::new();
    let mut note = |wrong: bool, what: Defect| {
        if wrong {
            defects.push(what);
        }
    };
    let known = ["1.1", "1.0", "0.18", "0.17"].contains(&header.version.as_str());
    note(!known, Defect::Version(header.version.clone()));
    note(header.untidy.bare_line_ends, Defect::BareLineEnds);
    note(header.untidy.not_a_field, Defect::NotAField);
    note(header.untidy.not_utf8, Defect::NotUtf8);

    for field in ["WARC-Type", "WARC-Record-ID", "WARC-Date"] {
        note(fields.get(field).is_none(), Defect::Missing(field));
    }
    let target = fields.get("WARC-Target-URI").is_some();
    let about_a_url = ["response", "resource", "request", "revisit", "conversion", "continuation"]
        .contains(&kind);
    note(about_a_url && !target, Defect::Missing("WARC-Target-URI"));
    note(kind == "warcinfo" && target, Defect::NotAllowed("WARC-Target-URI"));
    let profile = fields.get("WARC-Profile").is_some();
    note(kind == "revisit" && !profile, Defect::Missing("WARC-Profile"));
    let untyped = fields.get("Content-Type").is_none() && kind != "continuation";
    note(untyped && header.content_length > 0, Defect::Missing("Content-Type"));

    if let Some(date) = fields.get("WARC-Date") {
        note(WarcDate::parse(date).is_none(), Defect::Date(date.to_owned()));
    }
    for field in ONCE {
        note(fields.all(field).nth(1).is_some(), Defect::Repeated(field));
    }
    defects
}

/// Fields of the standard that a record has at most once: all but WARC-Concurrent-To.
const ONCE: [&str; 16] = [
    "WARC-Type",
    "WARC-Record-ID",
    "WARC-Date",
    "Content-Length",
    "Content-Type",
    "WARC-Block-Digest",
    "WARC-Payload-Digest",
    "WARC-IP-Address",
    "WARC-Refers-To",
    "WARC-Target-URI",
    "WARC-Truncated",
    "WARC-Warcinfo-ID",
    "WARC-Filename",
    "WARC-Profile",
    "WARC-Identified-Payload-Type",
    "WARC-Segment-Number",
];

/// Brackets around an id are optional in WARC 1.0 and mean nothing.
fn hash(id: &str) -> u128 {
    let id = id.trim().trim_start_matches('<').trim_end_matches('>');
    let mut bits = [0; 16];
    bits.copy_from_slice(&sha1::Sha1::digest(id)[..16]);
    u128::from_be_bytes(bits)
}

#[cfg(test)]
#[path = "check/tests.rs"]
mod tests;
