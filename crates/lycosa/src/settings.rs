//! What can be set, and what is it set to?
//!
//! The parts live beside the code they steer; this file puts them together. Values come in layers
//! (`layers`): default < DIR/lycosa.toml < `--config` < environment < flag, and each keeps where it
//! came from. What a key is called, how its text is read and what it means comes from the schema
//! of these structs (`keys`): a field's doc comment is its manual.
//!
//! Not here: what the settings are turned into (`wiring`).

mod check;
#[cfg(test)]
mod fuzz;
pub mod keys;
pub mod layers;
pub mod render;
pub mod sheet;
pub mod value;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{ByteSize, CanonSettings, HumanDuration};

pub use check::is_contact;

/// Everything that can be set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub crawl: frontier::CrawlSettings,
    pub identity: Identity,
    pub politeness: frontier::Politeness,
    pub robots: engine::RobotsSettings,
    pub url: CanonSettings,
    pub network: fetch::settings::NetworkSettings,
    pub dns: fetch::settings::DnsSettings,
    pub fetch: fetch::settings::FetchSettings,
    pub read: ReadSettings,
    pub duplicates: DuplicatesSettings,
    pub archive: ArchiveSettings,
    pub table: TableSettings,
    pub search: SearchSettings,
    pub pages: PagesSettings,
    pub recrawl: RecrawlSettings,
    pub render: RenderSettings,
    pub store: StoreSettings,
    pub workers: WorkersSettings,
    pub api: ApiSettings,
    pub sheet: Vec<sheet::Sheet>,
}

/// Who we say we are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// A URL or an e-mail address at which site owners reach whoever runs this crawl. Without it
    /// only addresses in `network.allow` are visited.
    pub contact: Option<String>,
    /// Our name in robots.txt: letters, `-` and `_`.
    pub product: String,
    /// The User-Agent header. `{product}`, `{version}` and `{contact}` are filled in.
    pub user_agent: String,
    /// An e-mail address for the From header, which some archives send beside the User-Agent.
    pub from: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            contact: None,
            product: "lycosa".to_owned(),
            user_agent: "Mozilla/5.0 (compatible; {product}/{version}; +{contact})".to_owned(),
            from: None,
        }
    }
}

impl Identity {
    /// The header as it is sent. Without a contact, which only private addresses get to see, the
    /// part that names it is left out.
    pub fn header(&self) -> String {
        let filled = self
            .user_agent
            .replace("{product}", &self.product)
            .replace("{version}", env!("CARGO_PKG_VERSION"));
        match &self.contact {
            Some(contact) => filled.replace("{contact}", contact),
            None => filled.replace("; +{contact}", "").replace("{contact}", ""),
        }
    }
}

/// What is made of pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadSettings {
    /// Whether the text of pages is read: their main content, its language and length, and the
    /// prints by which copies are known. Without it only links, titles and directives are.
    pub content: bool,
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self { content: true }
    }
}

/// Pages that have the text of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DuplicatesSettings {
    /// Whether pages are compared with all that were met before. Copies are archived all the same;
    /// `lycosa explain` and pages.jsonl name the original. Needs `read.content`.
    pub enabled: bool,
    /// Memory for what was read from the prints on the disk.
    pub cache_max: ByteSize,
}

impl Default for DuplicatesSettings {
    fn default() -> Self {
        Self { enabled: true, cache_max: ByteSize(32 << 20) }
    }
}

/// The WARC files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArchiveSettings {
    /// Whether answers are archived at all.
    pub enabled: bool,
    /// A file that has grown to this is closed and the next one begun.
    pub file_bytes_max: ByteSize,
    /// `gzip`, one member a record; `zstd` is not available in this version.
    pub compression: Compression,
    /// From 1 (fast) to 12 (small). Level 1 keeps more than 90 % of level 6's ratio at half its
    /// time.
    pub level: u8,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            file_bytes_max: ByteSize(1_000_000_000),
            compression: Compression::Gzip,
            level: 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    Gzip,
    Zstd,
}

/// The Parquet table of captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TableSettings {
    /// Whether it is written, where answers are archived: one row a capture, with the columns of
    /// Common Crawl's index, in `table/`.
    pub enabled: bool,
    /// Rows of a file. Until there are so many they wait in a side file, for an hour at most, or until
    /// the crawl ends.
    pub part_rows_max: u64,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self { enabled: true, part_rows_max: 250_000 }
    }
}

/// The full-text index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Whether it is written, for `lycosa search`. Needs `read.content`. Where workers make the visits of
    /// a frontier there is none: the pages are with them.
    pub enabled: bool,
    /// Memory for pages that are not in a file of the index yet; at least `16MiB`.
    pub memory_max: ByteSize,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { enabled: true, memory_max: ByteSize(64 << 20) }
    }
}

/// `pages/pages.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PagesSettings {
    /// Whether it is written: one line a page, in the form of WACZ.
    pub enabled: bool,
}

impl Default for PagesSettings {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Coming back to pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecrawlSettings {
    /// `off` for a one-shot crawl; `interval` and `value` are not available in this version.
    pub policy: RecrawlPolicy,
    /// Visits that may be spent, such as `10/s`. Not available in this version.
    pub budget: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecrawlPolicy {
    #[default]
    Off,
    Interval,
    Value,
}

/// Pages that need JavaScript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RenderSettings {
    /// `never`; `auto` and `always` are not available in this version.
    pub mode: RenderMode,
}

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum RenderMode {
    Auto,
    Always,
    #[default]
    Never,
}

/// The state of a crawl on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// `fjall`, or `rocksdb` where it is built in. A directory keeps its engine.
    pub engine: StoreEngine,
    /// When answers must have reached the disk: `batch` (a group of visits, every 200 ms at
    /// most), `visit` (each one as soon as it is over), `off` (when the system likes: a power
    /// loss may cost the last seconds, a crash of ours nothing).
    pub fsync: Fsync,
    /// With less free disk the crawl pauses, and ends after a while.
    pub disk_free_min: ByteSize,
    /// Parts with a store thread and an archive of their own. A directory keeps its number.
    pub shards: u16,
    /// The filter of seen URLs is saved after this many new ones; newer ones are read again when
    /// a killed crawl is opened, a million in less than a second.
    pub checkpoint_urls: u64,
    /// Memory for links that were met a moment ago and need no look at the state, all shards
    /// together, 6 bytes each. It is taken as the crawl grows.
    pub recent_max: ByteSize,
    /// Memory for what was read from the state's files, all shards together.
    pub cache_max: ByteSize,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            engine: StoreEngine::Fjall,
            fsync: Fsync::Batch,
            disk_free_min: ByteSize(1_000_000_000),
            shards: 1,
            checkpoint_urls: 1_000_000,
            recent_max: ByteSize(256 << 20),
            cache_max: ByteSize(64 << 20),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreEngine {
    Fjall,
    Rocksdb,
}

impl StoreEngine {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fjall => "fjall",
            Self::Rocksdb => "rocksdb",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    Batch,
    Visit,
    Off,
}

/// Workers of a frontier in other processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSettings {
    /// A worker that is silent for so long has lost what it was given: others get it. After a restart
    /// with visits under way, the frontier waits as long before it gives anything out.
    pub lease: HumanDuration,
}

impl Default for WorkersSettings {
    fn default() -> Self {
        Self { lease: HumanDuration::from_secs(30) }
    }
}

/// The metrics server of a running crawl, and REST of a frontier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSettings {
    /// `off`, or an address such as `127.0.0.1:7070`. Any but a loopback address needs a token.
    /// Not kept in DIR/lycosa.toml: it belongs to one run.
    pub listen: Listen,
    /// What clients must send as `Authorization: Bearer …`. Not kept in DIR/lycosa.toml.
    pub token: Option<String>,
}

/// Where we listen, if anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Listen(pub Option<SocketAddr>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        text.parse().map(|address| Self(Some(address))).map_err(|_| {
            format!(
                "`{text}` is not an address to listen on: write it as 127.0.0.1:7070, or write off"
            )
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => fmt::Display::fmt(&address, f),
            None => f.write_str("off"),
        }
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "listen".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "listen" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_product_version_and_contact() {
        let mut identity =
            Identity { contact: Some("me@example.org".to_owned()), ..Identity::default() };
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            identity.header(),
            format!("Mozilla/5.0 (compatible; lycosa/{version}; +me@example.org)")
        );
        identity.contact = None;
        assert_eq!(identity.header(), format!("Mozilla/5.0 (compatible; lycosa/{version})"));
    }
}
