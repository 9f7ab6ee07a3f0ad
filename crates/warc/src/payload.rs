//! Over which bytes do a record's digests go?
//!
//! WARC-Block-Digest goes over the block. WARC-Payload-Digest goes, by the standard (6.3.2), over
//! the *entity-body*: what follows the HTTP head, content codings (gzip, br) left on, transfer
//! codings (chunked) taken off. `warcio check` (1.8.1) however digests whatever is stored after
//! the head, chunk framing and all, while jwarc takes the framing off; so for a body stored with
//! its framing no value satisfies both (webrecorder/warcio#74, iipc/warc-specifications#22). The
//! field is optional, so by default ([`TransferCoded::Omit`]) such a response goes without it
//! and is held by its block digest; for every other response all readers agree.
//!
//! The same rule serves an answer without a head, with a blank line inside it or cut off within
//! it: where readers would not agree on where the payload starts, we claim no digest of it.

use std::io;

use crate::digest::{Algorithm, Digest, Hasher};
use crate::http::{Dechunker, HttpHead, TransferCoding, head_len};
use crate::record::Rest;

/// What WARC-Payload-Digest says of a response whose body is stored with a transfer coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransferCoded {
    /// Nothing: the one choice that the standard, `warcio check` and jwarc all accept.
    #[default]
    Omit,
    /// The digest of the decoded body, as the standard has it; `warcio check` reports a mismatch.
    Decoded,
    /// The digest of the body as stored; `warcio check` is content, jwarc reports a mismatch.
    AsStored,
}

/// The digests of an HTTP message, and what line-oriented readers find in its head.
pub(crate) struct MessageDigests {
    pub(crate) block: Digest,
    /// For WARC-Payload-Digest.
    pub(crate) payload: Option<Digest>,
    /// Of the body as it is stored; for the index, where the record has no `payload`.
    pub(crate) stored: Digest,
    pub(crate) http_head: Option<HttpHead>,
}

impl MessageDigests {
    /// One pass over the block, of which all but `rest` is in memory. `head_claimed` is the length
    /// of its head, as the fetcher saw it.
    pub(crate) fn new(
        block: &[&[u8]],
        rest: Option<&dyn Rest>,
        head_claimed: usize,
        algorithm: Algorithm,
        transfer_coded: TransferCoded,
    ) -> io::Result<Self> {
        // Where readers will find the payload; the claim decides only whether all agree.
        let head_found = head_len(block);
        let head = block.first().copied().unwrap_or_default();
        let ends_empty = head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n");
        let agreed = ends_empty && head.len() == head_claimed && head_found == Some(head_claimed);
        let head_found = head_found.unwrap_or_else(|| block.iter().map(|slice| slice.len()).sum());
        let http_head = HttpHead::of_block(block, head_found);
        let coding = http_head.as_ref().map_or(TransferCoding::None, HttpHead::transfer_coding);
        let choice = match coding {
            TransferCoding::None => TransferCoded::AsStored,
            _ => transfer_coded,
        };

        let claims_stored = agreed && choice == TransferCoded::AsStored;
        let [mut whole, mut decoded] = [(); 2].map(|()| Hasher::new(algorithm));
        // Where the record claims nothing, indexers digest for themselves, and with SHA-1.
        let mut stored = Hasher::new(if claims_stored { algorithm } else { Algorithm::Sha1 });
        let decodes = choice == TransferCoded::Decoded && coding == TransferCoding::Chunked;
        let mut dechunker = decodes.then(Dechunker::default);
        let mut head_left = head_found;
        let mut digest = |slice: &[u8]| {
            whole.update(slice);
            let body = &slice[head_left.min(slice.len())..];
            head_left -= slice.len() - body.len();
            stored.update(body);
            if let Some(dechunker) = &mut dechunker {
                dechunker.push(body, |bytes| decoded.update(bytes));
            }
        };
        block.iter().for_each(|slice| digest(slice));
        if let Some(rest) = rest {
            rest.read(&mut |piece| {
                digest(piece);
                Ok(())
            })?;
        }
        let stored = stored.finish();
        let payload = match choice {
            TransferCoded::AsStored => claims_stored.then_some(stored),
            TransferCoded::Decoded => {
                dechunker.filter(|chunks| agreed && chunks.is_sound()).map(|_| decoded.finish())
            }
            TransferCoded::Omit => None,
        };
        Ok(Self { block: whole.finish(), payload, stored, http_head })
    }
}
