//! What do the pages of a crawl say: an index of their words, and how it is asked.
//!
//! [`SearchIndex`] is written while the crawl runs, as a sink of every shard's visit log ([`SearchSink`]);
//! [`Asked`] is opened by whoever asks, also meanwhile. A question is understood by [`query`], pages and
//! questions are cut into words by `words`, and `schema` says what of a page is where. The index itself is
//! tantivy's.
//!
//! Always: a page is in the index once, as its latest visit told it; what asked not to be indexed, what
//! is a copy of another page and what has gone is not.
//!
//! Not here: what the text of a page is (`page`), which pages are copies (`local::duplicates`), and where
//! an archived answer lies; the last two are given by whoever opens the index.

mod ask;
mod copy;
mod erase;
mod fault;
mod note;
pub mod query;
mod queue;
mod schema;
mod snippet;
pub mod words;
mod writer;

pub use ask::{Answer, Asked, Hit, Question, RESULTS_MAX};
pub use copy::Snapshot;
pub use erase::{count, erase};
pub use query::BadQuery;
pub use snippet::{Snippet, is_direction};
pub use writer::{
    Family, Helpers, Judge, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN, Recall, Recalled, SearchIndex,
    SearchSink,
};
