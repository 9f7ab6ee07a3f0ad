//! How does a state of an earlier version become one of this?
//!
//! At open, before anything else, row by row and in small batches. A row says by its first byte in
//! which layout it is, so a process that dies half way is no harm: the next goes over the rows
//! again and leaves those alone that are done. The format's number is the last thing to change; a
//! version that does not know the new rows refuses them by their first byte until then, and the
//! whole state afterwards.
//!
//! | from | what changes |
//! |---|---|
//! | 1 | records hold their path alone (`stored`); the filter is a file of prints (`prints`) |

use std::ops::ControlFlow;

use ports::{PortResult, codec};
use types::Record;

use super::meta::{self, FORMAT, Format};
use super::stored;
use crate::kv::{Batch, Durability, Family, Kv};

/// The layout of rows in format 1.
const LAYOUT_1: u8 = 1;
/// The filter's file in format 1.
const FILTER_1: &str = "seen.filter";
/// Rows looked at for one batch.
const STEP: usize = 8_192;

/// Brings the state from format 1 to 2.
pub(super) fn from_1(kv: &mut dyn Kv, format: Format) -> PortResult<Format> {
    tracing::info!("the state has format 1 and is brought to format {FORMAT}; this is done once");
    let (mut from, mut rows) = (Some(Vec::new()), 0_u64);
    while let Some(start) = from {
        let (batch, next) = rewrite(kv, &start)?;
        rows += batch.len() as u64;
        kv.commit(&batch, Durability::Os)?;
        from = next;
    }
    let format = Format { version: FORMAT, ..format };
    let mut batch = Batch::default();
    meta::put_format(&mut batch, &format);
    // Made anew from the keys.
    meta::delete_filter(&mut batch);
    kv.commit(&batch, Durability::Disk)?;
    kv.remove_side(FILTER_1)?;
    tracing::info!(rows, "the state has format {FORMAT} now");
    Ok(format)
}

/// The rows from a key on that are still in the old layout, in the new one; and where to go on.
fn rewrite(kv: &dyn Kv, from: &[u8]) -> PortResult<(Batch, Option<Vec<u8>>)> {
    let mut batch = Batch::default();
    let (mut seen, mut next) = (0, None);
    kv.scan(Family::Url, from, None, &mut |key, value| {
        if seen == STEP {
            next = Some(key.to_vec());
            return Ok(ControlFlow::Break(()));
        }
        seen += 1;
        if value.first() == Some(&LAYOUT_1) {
            let record: Record = codec::decode("a URL's record", value)?;
            batch.put_with(Family::Url, key, |out| stored::write(&record, out));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((batch, next))
}
