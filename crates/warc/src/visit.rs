//! Which records does one visit leave?
//!
//! Request, response, metadata, in this order, each a gzip member, each pointing at the response
//! (the response at the request), all with the same date: one capture event in the words of the
//! standard. They are appended together or not at all.
//!
//! Where the payload is one that an earlier visit to the same URL has brought, a revisit record
//! stands in the response's place: its head, and where the payload is.

use std::io::Write;

use crate::cdxj::REVISIT_MIME;
use crate::{
    Algorithm, Capture, Compressor, Digest, Earlier, Error, HttpHead, MemberRange, Record,
    RecordId, Rest, Revisit, TransferCoded, Truncated, WarcFields,
};

/// All that is kept of one visit.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    pub capture: Capture<'a>,
    pub ids: VisitIds,
    /// Bytes sent: head and body in one.
    pub request: &'a [u8],
    /// See [`Record::response`].
    pub response_head: &'a [u8],
    pub response_body: &'a [&'a [u8]],
    /// What of a large body is not in memory; only [`Compressor::write_visit`] can write it.
    pub response_rest: Option<&'a dyn Rest>,
    /// The payload that we have of this URL; only a whole answer with a payload of its own, or a
    /// 304, may be given one.
    pub earlier: Option<Earlier>,
    pub truncated: Option<Truncated>,
    /// Type of the payload as identified by reading it.
    pub payload_type: Option<&'a str>,
    pub metadata: Option<&'a WarcFields>,
    pub algorithm: Algorithm,
    pub transfer_coded: TransferCoded,
}

/// The names of a visit's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisitIds {
    pub request: RecordId,
    pub response: RecordId,
    pub metadata: RecordId,
}

impl VisitIds {
    /// From the visit's own unique number.
    #[must_use]
    pub fn derive(visit: u128) -> Self {
        Self {
            request: RecordId::derive(visit, "request"),
            response: RecordId::derive(visit, "response"),
            metadata: RecordId::derive(visit, "metadata"),
        }
    }
}

/// Where a visit's records lie in the buffer, and what its index line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitMembers {
    pub request: MemberRange,
    /// The response, or the revisit in its place.
    pub response: MemberRange,
    pub metadata: Option<MemberRange>,
    /// Set if it is a revisit.
    pub revisit: Option<Revisit>,
    /// For the index line; see [`Record::index_digest`].
    pub digest: Digest,
    /// For the index line: what readers will find in the response's head.
    pub head: Option<HttpHead>,
}

impl VisitMembers {
    /// The media type for the index line.
    #[must_use]
    pub fn mime(&self) -> Option<&str> {
        match self.revisit {
            Some(_) => Some(REVISIT_MIME),
            None => self.head.as_ref().and_then(HttpHead::mime),
        }
    }
}

impl Compressor {
    /// Appends the visit's records to `out`.
    ///
    /// # Errors
    /// [`Error::UnsafeValue`]; `out` is then as it was.
    pub fn visit(&mut self, visit: &Visit<'_>, out: &mut Vec<u8>) -> Result<VisitMembers, Error> {
        debug_assert!(visit.response_rest.is_none(), "a rest is streamed");
        let records = Records::of(visit)?;
        Ok(VisitMembers {
            request: self.member(&records.request, out),
            response: self.member(&records.response, out),
            metadata: records.metadata.map(|record| self.member(&record, out)),
            revisit: records.revisit,
            digest: records.digest,
            head: records.response.into_http_head(),
        })
    }

    /// The same for an answer of any size: no part of it is held in memory that was not there before.
    /// Ranges count from the first byte that is written.
    ///
    /// # Errors
    /// [`Error::UnsafeValue`]; [`Error::Io`] if the rest cannot be read or `out` not be written. What
    /// was written then is of no use.
    pub fn write_visit(
        &mut self,
        visit: &Visit<'_>,
        out: &mut dyn Write,
    ) -> Result<VisitMembers, Error> {
        let records = Records::of(visit)?;
        let mut at = 0;
        let mut write = |record: &Record<'_>| -> Result<MemberRange, Error> {
            let start = at;
            let len = self.write_member(record, out)?;
            at += len;
            Ok(MemberRange { start, len })
        };
        Ok(VisitMembers {
            request: write(&records.request)?,
            response: write(&records.response)?,
            metadata: records.metadata.map(|record| write(&record)).transpose()?,
            revisit: records.revisit,
            digest: records.digest,
            head: records.response.into_http_head(),
        })
    }
}

/// The records of a visit, digested.
struct Records<'a> {
    request: Record<'a>,
    response: Record<'a>,
    metadata: Option<Record<'a>>,
    revisit: Option<Revisit>,
    digest: Digest,
}

impl<'a> Records<'a> {
    fn of(visit: &Visit<'a>) -> Result<Self, Error> {
        let Visit { capture, ids, .. } = visit;
        let request = Record::request(capture, ids.request, visit.request, &[])
            .concurrent_to(ids.response)
            .algorithm(visit.algorithm)
            .build()?;
        let mut response = response(visit).build()?;
        let mut digest = response.index_digest().expect("a response always has a payload");
        let not_modified = response.http_head().is_some_and(|head| head.status() == "304");
        let revisit = match visit.earlier {
            Some(_) if not_modified => Some(Revisit::NotModified),
            Some(earlier) if earlier.digest == digest => Some(Revisit::SameDigest),
            _ => None,
        };
        if let (Some(why), Some(earlier)) = (revisit, &visit.earlier) {
            let record = Record::revisit(capture, ids.response, visit.response_head, why, earlier);
            response = record.concurrent_to(ids.request).algorithm(visit.algorithm).build()?;
            digest = earlier.digest;
        }
        let metadata = match visit.metadata {
            Some(fields) => {
                let record = Record::metadata(capture, ids.metadata, fields);
                Some(record.concurrent_to(ids.response).algorithm(visit.algorithm).build()?)
            }
            None => None,
        };
        Ok(Self { request, response, metadata, revisit, digest })
    }
}

fn response<'a>(visit: &Visit<'a>) -> crate::RecordBuilder<'a> {
    let Visit { capture, ids, response_head, response_body, .. } = visit;
    let mut record = Record::response(capture, ids.response, response_head, response_body)
        .concurrent_to(ids.request)
        .algorithm(visit.algorithm)
        .transfer_coded(visit.transfer_coded)
        .rest(visit.response_rest);
    if let Some(why) = visit.truncated {
        record = record.truncated(why);
    }
    if let Some(mime) = visit.payload_type {
        record = record.identified_payload_type(mime);
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdxj::{Entry, Line};
    use crate::testing::capture;
    use crate::{Level, Reader};

    fn visit<'a>(metadata: &'a WarcFields, body: &'a [&'a [u8]]) -> Visit<'a> {
        Visit {
            capture: capture(),
            ids: VisitIds::derive(9),
            request: b"GET / HTTP/1.1\r\n\r\n",
            response_head: b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n",
            response_body: body,
            response_rest: None,
            earlier: None,
            truncated: Some(Truncated::Length),
            payload_type: None,
            metadata: Some(metadata),
            algorithm: Algorithm::Sha1,
            transfer_coded: TransferCoded::Omit,
        }
    }

    #[test]
    fn a_visit_is_found_again_through_its_index_line() {
        let metadata = WarcFields::new();
        let mut file = b"earlier members, not yet flushed".to_vec();
        let mut compressor = Compressor::new(Level::DEFAULT);
        let visit = visit(&metadata, &[b"gone", b"!"]);
        let members = compressor.visit(&visit, &mut file).unwrap();
        let mut line = String::new();
        Entry::of_visit(&visit.capture, &members, "a.warc.gz", 1000).push_line(&mut line);

        let line = Line::parse(&line).unwrap();
        assert_eq!(
            (line.status.as_deref(), line.mime.as_deref()),
            (Some("404"), Some("text/plain"))
        );
        let start = usize::try_from(line.offset.unwrap()).unwrap() - 1000;
        let mut reader = Reader::new(&file[start..]);
        let header = reader.next_record().unwrap().unwrap();
        assert_eq!(header.fields.get("WARC-Payload-Digest"), line.digest.as_deref());
        assert_eq!(header.fields.get("WARC-Truncated"), Some("length"));
        assert_eq!(reader.finish().unwrap().unwrap().length, line.length);
    }

    #[test]
    fn a_payload_that_is_there_already_is_pointed_at() {
        let metadata = WarcFields::new();
        let mut compressor = Compressor::new(Level::DEFAULT);
        let first = visit(&metadata, &[b"page"]);
        let mut file = Vec::new();
        let members = compressor.visit(&first, &mut file).unwrap();
        assert_eq!(members.revisit, None);
        let id = first.ids.response;
        let earlier = Some(Earlier { id, date: first.capture.date, digest: members.digest });
        let plain = Visit { earlier, truncated: None, ids: VisitIds::derive(10), ..first };
        let not_modified = b"HTTP/1.1 304 Not Modified\r\n\r\n";
        for (visit, why, profile) in [
            (plain, Some(Revisit::SameDigest), "identical-payload-digest"),
            (
                Visit { response_head: not_modified, response_body: &[], ..plain },
                Some(Revisit::NotModified),
                "server-not-modified",
            ),
            (Visit { response_body: &[b"another page"], ..plain }, None, ""),
        ] {
            let start = file.len();
            let members = compressor.visit(&visit, &mut file).unwrap();
            assert_eq!(members.revisit, why);
            let mut reader = Reader::new(&file[members.response.start..]);
            let header = reader.next_record().unwrap().unwrap();
            let said = |name| header.fields.get(name).unwrap_or_default();
            assert!(said("WARC-Profile").ends_with(profile), "{}", said("WARC-Profile"));
            let Some(_) = why else {
                assert_eq!(said("WARC-Type"), "response");
                continue;
            };
            assert_eq!(said("WARC-Type"), "revisit");
            assert_eq!(said("WARC-Refers-To"), id.to_string());
            assert_eq!(said("WARC-Refers-To-Date"), first.capture.date.to_string());
            assert_eq!(said("WARC-Refers-To-Target-URI"), said("WARC-Target-URI"));
            assert_eq!(said("WARC-Payload-Digest"), members.digest.to_string());
            assert_eq!(said("Content-Length"), visit.response_head.len().to_string());
            assert_eq!(members.mime(), Some("warc/revisit"));
            assert!(file.len() > start);
        }
    }

    /// The end of a body, in a place that may break.
    #[derive(Debug)]
    struct Elsewhere {
        bytes: Vec<u8>,
        breaks: bool,
    }

    impl Rest for Elsewhere {
        fn bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read(&self, each: &mut dyn FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
            for piece in self.bytes.chunks(1000) {
                each(piece)?;
            }
            if self.breaks { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        }
    }

    #[test]
    fn a_body_that_goes_on_elsewhere_makes_the_same_records() {
        let metadata = WarcFields::new();
        let mut compressor = Compressor::new(Level::DEFAULT);
        let text = b"wolf spider ".repeat(2_000);
        let noise: Vec<u8> = (0..30_000_u32).map(|n| (n.wrapping_mul(n) >> 5) as u8).collect();
        for body in [text, noise] {
            let whole_body = [&body[..]];
            let mut whole = Vec::new();
            let expected = compressor.visit(&visit(&metadata, &whole_body), &mut whole).unwrap();
            let (start, rest) = body.split_at(5_000);
            let rest = Elsewhere { bytes: rest.to_vec(), breaks: false };
            let start = [start];
            let split = Visit { response_rest: Some(&rest), ..visit(&metadata, &start) };
            let mut parts = Vec::new();
            let members = compressor.write_visit(&split, &mut parts).unwrap();
            assert_eq!((members.digest, &members.head), (expected.digest, &expected.head));
            let all = |file: &[u8], ranges: [MemberRange; 3]| {
                ranges.map(|range| {
                    crate::testing::inflate(&file[range.start..range.start + range.len])
                })
            };
            let ranges = |members: &VisitMembers| {
                [members.request, members.response, members.metadata.unwrap()]
            };
            assert_eq!(all(&parts, ranges(&members)), all(&whole, ranges(&expected)));
            let last = members.metadata.unwrap();
            assert_eq!(last.start + last.len, parts.len());
        }
    }

    #[test]
    fn a_large_payload_that_is_there_already_is_pointed_at_and_a_broken_one_is_an_error() {
        let metadata = WarcFields::new();
        let mut compressor = Compressor::new(Level::DEFAULT);
        let mut rest = Elsewhere { bytes: vec![b'x'; 9_000], breaks: false };
        let large = Visit { response_rest: Some(&rest), ..visit(&metadata, &[b"start"]) };
        let mut file = Vec::new();
        let members = compressor.write_visit(&large, &mut file).unwrap();
        let id = large.ids.response;
        let earlier = Some(Earlier { id, date: large.capture.date, digest: members.digest });
        let again = Visit { earlier, truncated: None, ids: VisitIds::derive(10), ..large };
        let members = compressor.write_visit(&again, &mut file).unwrap();
        assert_eq!(members.revisit, Some(Revisit::SameDigest));
        rest.breaks = true;
        let broken = Visit { response_rest: Some(&rest), ..visit(&metadata, &[b"start"]) };
        assert!(matches!(compressor.write_visit(&broken, &mut file), Err(Error::Io(_))));
    }

    #[test]
    fn a_visit_is_written_whole_or_not_at_all() {
        let metadata = WarcFields::new();
        let mut visit = visit(&metadata, &[]);
        visit.payload_type = Some("text/html\r\nWARC-Type: forged");
        let mut file = b"before".to_vec();
        let refused = Compressor::new(Level::DEFAULT).visit(&visit, &mut file);
        assert!(matches!(refused, Err(Error::UnsafeValue { .. })));
        assert_eq!(file, b"before");
    }
}
