//! How are URLs taken from a stream, and how many at once?
//!
//! What has come is sent to the desk together, and acknowledged when the desk has committed it. Only
//! so much of one stream is under way; then it is not read any further, and the caller's client
//! waits. A caller who writes and never reads an acknowledgement comes to a halt in the same way.

use futures_util::{Stream, StreamExt as _};
use tonic::Status;

use crate::foreign::Handle;
use crate::foreign::desk::{Put, Taken, What};
use crate::foreign::names;
use wire::urlfrontier::ack_message::Status as Ack;
use wire::urlfrontier::{self as api, url_item};

/// Items of one stream that are not acknowledged yet; the server reads no further then.
const ITEMS_MAX: usize = 1_024;
/// Batches, likewise.
const BATCHES_MAX: usize = 16;
/// Items that are sent to the desk together.
const CHUNK: usize = 256;

/// Takes single items; they may be acknowledged in another order.
pub(super) fn acks(
    items: impl Stream<Item = Result<api::UrlItem, Status>>,
    desk: Handle,
) -> impl Stream<Item = Result<api::AckMessage, Status>> {
    let acks = items.ready_chunks(CHUNK).map(move |items| {
        let desk = desk.clone();
        async move {
            let (mut ids, mut puts) = (Vec::new(), Vec::new());
            let mut broken = None;
            for item in items {
                match item {
                    Ok(item) => {
                        let (id, put) = read_item(item);
                        ids.push(id);
                        puts.push(put);
                    }
                    Err(status) => broken = Some(status),
                }
            }
            let statuses = put(&desk, puts).await;
            let acks = ids.into_iter().zip(statuses);
            let acks = acks.map(|(id, status)| Ok(api::AckMessage { id, status }));
            acks.chain(broken.map(Err)).collect::<Vec<_>>()
        }
    });
    acks.buffer_unordered(ITEMS_MAX / CHUNK).flat_map(futures_util::stream::iter)
}

/// Takes batches; what became of the items of each is told in their order.
pub(super) fn batch_acks(
    batches: impl Stream<Item = Result<api::DiscoveredBatch, Status>>,
    desk: Handle,
) -> impl Stream<Item = Result<api::BatchAck, Status>> {
    let acks = batches.map(move |batch| {
        let desk = desk.clone();
        async move {
            let api::DiscoveredBatch { id, items } = batch?;
            let puts = items.into_iter().map(|info| read_info(info, What::Discovered)).collect();
            Ok(api::BatchAck { id, statuses: put(&desk, puts).await })
        }
    });
    acks.buffer_unordered(BATCHES_MAX)
}

/// Puts what can be put; the rest is skipped.
async fn put(desk: &Handle, puts: Vec<Option<Put>>) -> Vec<i32> {
    let usable: Vec<bool> = puts.iter().map(Option::is_some).collect();
    let puts: Vec<Put> = puts.into_iter().flatten().collect();
    desk.events.unusable(usable.len() - puts.len());
    let taken = if puts.is_empty() { Vec::new() } else { desk.put(puts).await };
    let mut taken = taken.into_iter();
    let statuses = usable.into_iter().map(|usable| {
        let taken = if usable { taken.next() } else { Some(Taken::Skipped) };
        ack(taken.unwrap_or(Taken::Failed)) as i32
    });
    statuses.collect()
}

fn ack(taken: Taken) -> Ack {
    match taken {
        Taken::Ok => Ack::Ok,
        Taken::Skipped => Ack::Skipped,
        Taken::Failed => Ack::Fail,
    }
}

/// The id by which an item is acknowledged, and what it brings; none if that cannot be taken.
fn read_item(item: api::UrlItem) -> (String, Option<Put>) {
    let (info, what) = match item.item {
        Some(url_item::Item::Discovered(item)) => (item.info, What::Discovered),
        Some(url_item::Item::Known(item)) => {
            let due = Some(item.refetchable_from_date).filter(|date| *date != 0);
            (item.info, What::Known { due })
        }
        None => (None, What::Discovered),
    };
    let info = info.unwrap_or_default();
    let id = if item.id.is_empty() { info.url.clone() } else { item.id };
    (id, read_info(info, what))
}

fn read_info(info: api::UrlInfo, what: What) -> Option<Put> {
    let api::UrlInfo { url, key, metadata, crawl_id } = info;
    if url.len() > names::URL_MAX {
        return None;
    }
    let key = names::key(&key, &url)?.into();
    let values = |list: api::StringList| list.values.into_iter().map(Box::from).collect();
    let mut metadata: Vec<(Box<str>, Vec<Box<str>>)> =
        metadata.into_iter().map(|(name, list)| (name.into(), values(list))).collect();
    metadata.sort_unstable();
    Some(Put { crawl: names::crawl(&crawl_id), key, url: url.into(), metadata, what })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use futures_util::{FutureExt as _, stream};

    use super::*;

    fn info(n: u32) -> api::UrlInfo {
        api::UrlInfo { url: format!("http://a.test/{n}"), ..api::UrlInfo::default() }
    }

    /// Answers that are there without waiting, until there are none or enough.
    fn read<T>(answers: &mut (impl Stream<Item = T> + Unpin), enough: usize) -> usize {
        let next = std::iter::from_fn(|| answers.next().now_or_never().flatten());
        next.take(enough).count()
    }

    #[test]
    fn at_most_1024_items_of_a_stream_are_under_way() {
        let came = Cell::new(0);
        let items = stream::iter(0..).map(|n| {
            came.set(n + 1);
            let item = api::DiscoveredUrlItem { info: Some(info(n)) };
            let item = Some(url_item::Item::Discovered(item));
            Ok(api::UrlItem { item, ..api::UrlItem::default() })
        });
        let (desk, orders) = Handle::unattended();
        let mut acks = pin!(acks(items, desk));
        for _ in 0..3 {
            assert_eq!((read(&mut acks, 1), came.get()), (0, 1_024), "nothing is committed");
        }
        drop(orders); // everything fails at once from now on
        assert_eq!((read(&mut acks, 256), came.get()), (256, 1_024), "as many as are under way");
        assert_eq!((read(&mut acks, 1), came.get()), (1, 1_024 + 256), "room for as many as went");
    }

    #[test]
    fn at_most_16_batches_of_a_stream_are_under_way() {
        let came = Cell::new(0);
        let batches = stream::iter(0..).map(|n| {
            came.set(n + 1);
            Ok(api::DiscoveredBatch { id: n.to_string(), items: vec![info(n); 2_000] })
        });
        let (desk, orders) = Handle::unattended();
        let mut acks = pin!(batch_acks(batches, desk));
        for _ in 0..3 {
            assert_eq!((read(&mut acks, 1), came.get()), (0, 16), "nothing is committed");
        }
        drop(orders); // everything fails at once from now on
        assert_eq!((read(&mut acks, 1), came.get()), (1, 16));
        assert_eq!((read(&mut acks, 1), came.get()), (1, 17), "room for as many as went");
    }
}
