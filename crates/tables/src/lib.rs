//! Which tables does a crawl leave for whoever asks in SQL?
//!
//! Two, as Parquet: the table of captures, with the columns of Common Crawl's index under the same
//! names and types ([`Row`], [`UrlTable`]), so that queries and tools made for that work here; and the
//! table of links ([`LinkTable`]). [`TableSink`] writes the first while the crawl runs.
//!
//! Always: a file under its final name is whole.
//!
//! Not here: reading archives and pages.

mod erase;
mod host;
mod language;
mod link_table;
mod sheet;
mod sink;
mod url_table;

pub use erase::{RowFate, RowPlace, erase};
pub use language::iso_639_3;
pub use link_table::{LinkRow, LinkTable};
pub use sheet::Error;
pub use sink::{Look, Seen, TablePlace, TableSink};
pub use url_table::{Row, Subset, UrlTable};
