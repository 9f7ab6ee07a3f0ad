//! Which records does one visit leave?
//!
//! Request, response, metadata, in this order, each a gzip member, each pointing at the response
//! (the response at the request), all with the same date: one capture event in the words of the
//! standard. They are appended together or not at all.

use crate::{
    Algorithm, Capture, Compressor, Digest, Error, HttpHead, MemberRange, Record, RecordId,
    TransferCoded, Truncated, WarcFields,
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
    pub response: MemberRange,
    pub metadata: Option<MemberRange>,
    /// For the index line; see [`Record::index_digest`].
    pub digest: Digest,
    /// For the index line: what readers will find in the response's head.
    pub head: Option<HttpHead>,
}

impl Compressor {
    /// Appends the visit's records to `out`.
    ///
    /// # Errors
    /// [`Error::UnsafeValue`]; `out` is then as it was.
    pub fn visit(&mut self, visit: &Visit<'_>, out: &mut Vec<u8>) -> Result<VisitMembers, Error> {
        let Visit { capture, ids, .. } = visit;
        let request = Record::request(capture, ids.request, visit.request, &[])
            .concurrent_to(ids.response)
            .algorithm(visit.algorithm)
            .build()?;
        let response = response(visit).build()?;
        let metadata = match visit.metadata {
            Some(fields) => {
                let record = Record::metadata(capture, ids.metadata, fields);
                Some(record.concurrent_to(ids.response).algorithm(visit.algorithm).build()?)
            }
            None => None,
        };
        let digest = response.index_digest().expect("a response always has a payload");
        Ok(VisitMembers {
            request: self.member(&request, out),
            response: self.member(&response, out),
            metadata: metadata.map(|record| self.member(&record, out)),
            digest,
            head: response.into_http_head(),
        })
    }
}

fn response<'a>(visit: &Visit<'a>) -> crate::RecordBuilder<'a> {
    let Visit { capture, ids, response_head, response_body, .. } = visit;
    let mut record = Record::response(capture, ids.response, response_head, response_body)
        .concurrent_to(ids.request)
        .algorithm(visit.algorithm)
        .transfer_coded(visit.transfer_coded);
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
