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
//! | 1 | records hold their path alone (`stored`); the filter is a file of prints (`prints`); hosts
//! have no count of what waits, and their queues begin where `heads` says |

use std::ops::ControlFlow;

use ports::{PortResult, codec};
use types::Record;

use super::keys::{self, HostKind};
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
    let rows = rewrite(kv, Family::Url, record)? + rewrite(kv, Family::Host, host_row)?;
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

/// What becomes of a row, if it is still as the old format wrote it.
type Rewrite = fn(&[u8], &[u8], &mut Batch) -> PortResult<()>;

fn record(key: &[u8], value: &[u8], batch: &mut Batch) -> PortResult<()> {
    if value.first() == Some(&LAYOUT_1) {
        let record: Record = codec::decode("a URL's record", value)?;
        batch.put_with(Family::Url, key, |out| stored::write(&record, out));
    }
    Ok(())
}

fn host_row(key: &[u8], _: &[u8], batch: &mut Batch) -> PortResult<()> {
    let (_, kind) = keys::read_host(key)?;
    if kind == [HostKind::Queue as u8] {
        batch.delete(Family::Host, key);
    }
    Ok(())
}

/// Goes over a family in small batches. Answers how many rows have changed.
fn rewrite(kv: &mut dyn Kv, family: Family, each: Rewrite) -> PortResult<u64> {
    let (mut from, mut rows) = (Some(Vec::new()), 0);
    while let Some(start) = from.take() {
        let mut batch = Batch::default();
        let mut seen = 0;
        kv.scan(family, &start, None, &mut |key, value| {
            if seen == STEP {
                from = Some(key.to_vec());
                return Ok(ControlFlow::Break(()));
            }
            seen += 1;
            each(key, value, &mut batch)?;
            Ok(ControlFlow::Continue(()))
        })?;
        rows += batch.len() as u64;
        kv.commit(&batch, Durability::Os)?;
    }
    Ok(rows)
}
