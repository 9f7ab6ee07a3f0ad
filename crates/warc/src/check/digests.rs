//! Do a record's digests fit its block?
//!
//! The block passes by once, in pieces; up to three digests grow along: the block's, the
//! payload's as stored, and the payload's without chunk framing.

use super::Defect;
use crate::digest::{Digest, Hasher};
use crate::http::{Dechunker, HEAD_BYTES_MAX, HeadScanner, HttpHead, TransferCoding};
use crate::reader::Header;

const BLOCK: &str = "WARC-Block-Digest";
const PAYLOAD: &str = "WARC-Payload-Digest";

#[derive(Default)]
pub(super) struct BlockAudit {
    block: Option<(Digest, Hasher)>,
    payload: Option<PayloadAudit>,
    /// Digests that we cannot read: field and value.
    unknown: Vec<(&'static str, String)>,
}

struct PayloadAudit {
    said: Digest,
    /// Head bytes so far, while the head has not ended; `None` where the payload is the block.
    head: Option<(HeadScanner, Vec<u8>)>,
    stored: Hasher,
    decoded: Option<(Dechunker, Hasher)>,
}

impl BlockAudit {
    pub(super) fn new(header: &Header) -> Self {
        let mut audit = Self::default();
        let fields = &header.fields;
        let kind = fields.get("WARC-Type").unwrap_or("").to_ascii_lowercase();
        audit.block = audit.said(BLOCK, fields.get(BLOCK)).map(|said| (said, hasher(&said)));
        // The payload of a revisit is elsewhere, that of a segment is spread over several records.
        if kind == "revisit" || fields.get("WARC-Segment-Number").is_some() {
            return audit;
        }
        let is_http = ["request", "response"].contains(&kind.as_str())
            && fields.get("WARC-Target-URI").is_some_and(|uri| {
                let uri = uri.trim_start_matches('<').to_ascii_lowercase();
                uri.starts_with("http:") || uri.starts_with("https:")
            });
        let head = is_http.then(|| (HeadScanner::default(), Vec::new()));
        audit.payload = audit.said(PAYLOAD, fields.get(PAYLOAD)).map(|said| PayloadAudit {
            said,
            head,
            stored: hasher(&said),
            decoded: None,
        });
        audit
    }

    fn said(&mut self, field: &'static str, value: Option<&str>) -> Option<Digest> {
        let value = value?;
        let said = Digest::parse(value);
        if said.is_none() {
            self.unknown.push((field, value.to_owned()));
        }
        said
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        if let Some((_, hasher)) = &mut self.block {
            hasher.update(piece);
        }
        if let Some(payload) = &mut self.payload {
            payload.push(piece);
        }
    }

    /// Notes what does not fit; gives the number of digests that do.
    pub(super) fn finish(self, defects: &mut Vec<Defect>) -> u64 {
        let block = self.block.map(|(said, hasher)| (BLOCK, said, hasher.finish(), None));
        let payload = self.payload.map(|payload| {
            let decoded = payload.decoded.filter(|(dechunker, _)| dechunker.is_sound());
            let decoded = decoded.map(|(_, hasher)| hasher.finish());
            (PAYLOAD, payload.said, payload.stored.finish(), decoded)
        });
        let mut verified = 0;
        for (field, said, stored, decoded) in block.into_iter().chain(payload) {
            if said == stored || Some(said) == decoded {
                verified += 1;
            } else {
                let found = decoded.unwrap_or(stored).to_string();
                defects.push(Defect::Digest { field, said: said.to_string(), found });
            }
        }
        let unknown = self.unknown.into_iter();
        defects.extend(unknown.map(|(field, said)| Defect::DigestUnknown { field, said }));
        verified
    }
}

impl PayloadAudit {
    fn push(&mut self, mut piece: &[u8]) {
        if let Some((scanner, head)) = &mut self.head {
            let end = scanner.push(piece);
            let (of_head, rest) = piece.split_at(end.unwrap_or(piece.len()));
            head.extend_from_slice(&of_head[..of_head.len().min(HEAD_BYTES_MAX - head.len())]);
            if end.is_none() {
                return;
            }
            let coding = HttpHead::parse(head).map(|head| head.transfer_coding());
            if coding == Some(TransferCoding::Chunked) {
                self.decoded = Some((Dechunker::default(), hasher(&self.said)));
            }
            self.head = None;
            piece = rest;
        }
        self.stored.update(piece);
        if let Some((dechunker, hasher)) = &mut self.decoded {
            dechunker.push(piece, |bytes| hasher.update(bytes));
        }
    }
}

fn hasher(said: &Digest) -> Hasher {
    Hasher::new(said.algorithm())
}
