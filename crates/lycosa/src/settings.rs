//! What can be set, and what is it set to?
//!
//! The parts live beside the code they steer; this file puts them together. Values come in layers
//! (`layers`): default < DIR/lycosa.toml < `--config` < environment < flag, and each keeps where it
//! came from. What a key is called, how its text is read and what it means comes from the schema
//! of these structs (`keys`): a field's doc comment is its manual.
//!
//! Not here: what the settings are turned into (`wiring`).

pub mod keys;
pub mod layers;
pub mod render;
pub mod value;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{ByteSize, CanonSettings};

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
    pub archive: ArchiveSettings,
    pub table: TableSettings,
    pub search: SearchSettings,
    pub pages: PagesSettings,
    pub recrawl: RecrawlSettings,
    pub render: RenderSettings,
    pub store: StoreSettings,
    pub api: ApiSettings,
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
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            contact: None,
            product: "lycosa".to_owned(),
            user_agent: "Mozilla/5.0 (compatible; {product}/{version}; +{contact})".to_owned(),
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

/// The Parquet table of visits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TableSettings {
    /// Whether it is written. Not available in this version: `false` only.
    pub enabled: bool,
}

/// The full-text index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Whether it is written. Not available in this version: `false` only.
    pub enabled: bool,
}

/// `pages/pages.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PagesSettings {
    /// Whether it is written. Not available in this version: `false` only.
    pub enabled: bool,
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
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            engine: StoreEngine::Fjall,
            fsync: Fsync::Batch,
            disk_free_min: ByteSize(1_000_000_000),
            shards: 1,
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

/// The metrics server of a running crawl.
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

/// Most shards in one process: each has a thread and an open WARC file.
const SHARDS_MAX: u16 = 256;

/// A value that cannot be used, and the key to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSetting {
    pub key: &'static str,
    pub why: String,
}

impl Settings {
    /// What no single key's type can see. Answers with the first problem.
    pub fn check(&self) -> Result<(), BadSetting> {
        let bad = |key, why: String| Err(BadSetting { key, why });
        self.check_built()?;
        if let Err(why) = frontier::Scope::new(&self.crawl) {
            let key = if why.contains("exclude") { "crawl.exclude" } else { "crawl.include" };
            return bad(key, why);
        }
        if self.crawl.concurrency == 0 {
            return bad("crawl.concurrency", "must be at least 1".to_owned());
        }
        let product = &self.identity.product;
        if product.is_empty() || robots::product_token(product) != product {
            let why = format!(
                "`{product}` is no name for robots.txt: use letters, `-` and `_` only, such as my-crawler"
            );
            return bad("identity.product", why);
        }
        if let Some(contact) = &self.identity.contact
            && !is_contact(contact)
        {
            let why = format!(
                "`{contact}` is neither a URL nor an e-mail address: write https://example.org/bot or me@example.org"
            );
            return bad("identity.contact", why);
        }
        if !is_header_value(&self.identity.header()) {
            return bad("identity.user_agent", "holds characters a header cannot hold".to_owned());
        }
        if let Err(why) = frontier::Addresses::new(&self.politeness, None) {
            return bad("politeness.shared_networks", why);
        }
        if !self.politeness.delay_factor.is_finite() || self.politeness.delay_factor < 0.0 {
            return bad("politeness.delay_factor", "must be 0 or more".to_owned());
        }
        if !(1..=u32::from(u8::MAX)).contains(&self.fetch.attempts_max) {
            return bad("fetch.attempts_max", "must be between 1 and 255".to_owned());
        }
        if !(1..=12).contains(&self.archive.level) {
            return bad("archive.level", "must be between 1 and 12".to_owned());
        }
        if !(1..=SHARDS_MAX).contains(&self.store.shards) {
            return bad("store.shards", format!("must be between 1 and {SHARDS_MAX}"));
        }
        if let Some(address) = self.api.listen.0
            && !address.ip().is_loopback()
            && self.api.token.is_none()
        {
            let why = format!(
                "{address} can be reached by others: set api.token as well, or listen on 127.0.0.1"
            );
            return bad("api.listen", why);
        }
        Ok(())
    }

    /// Keys whose feature is still to come take their off value only.
    fn check_built(&self) -> Result<(), BadSetting> {
        let later = [
            (self.table.enabled, "table.enabled", "false"),
            (self.search.enabled, "search.enabled", "false"),
            (self.pages.enabled, "pages.enabled", "false"),
            (self.recrawl.policy != RecrawlPolicy::Off, "recrawl.policy", "off"),
            (self.recrawl.budget.is_some(), "recrawl.budget", "none"),
            (self.render.mode != RenderMode::Never, "render.mode", "never"),
            (!self.fetch.proxies.is_empty(), "fetch.proxies", "[]"),
            (self.archive.compression != Compression::Gzip, "archive.compression", "gzip"),
        ];
        for (wanted, key, off) in later {
            if wanted {
                let why = format!("not available in this version; leave it at {off}");
                return Err(BadSetting { key, why });
            }
        }
        if self.store.engine == StoreEngine::Rocksdb && !cfg!(feature = "rocksdb") {
            let why = "not available in this version: rocksdb is not built in; leave it at fjall, \
                       or build with `--features rocksdb`";
            return Err(BadSetting { key: "store.engine", why: why.to_owned() });
        }
        Ok(())
    }
}

/// Whether somebody can be reached there, as far as its form tells.
pub fn is_contact(text: &str) -> bool {
    if !is_header_value(text) || text.contains(char::is_whitespace) {
        return false;
    }
    if text.contains("://") {
        return types::CrawlUrl::parse(text).is_ok();
    }
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    address
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty() && !host.contains('@'))
}

/// Visible ASCII and blanks: what every server reads.
fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_usable() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

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

    #[test]
    fn a_contact_is_a_url_or_an_address() {
        for good in ["me@example.org", "https://example.org/bot", "mailto:me@example.org"] {
            assert!(is_contact(good), "{good}");
        }
        for bad in ["", "me", "@", "me@", "a b@c.d", "ftp://x/", "x\r\nEvil: 1@y"] {
            assert!(!is_contact(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_not_built_takes_its_off_value_only() {
        let mut settings = Settings::default();
        settings.table.enabled = true;
        let bad = settings.check().unwrap_err();
        assert_eq!(bad.key, "table.enabled");
        assert!(bad.why.contains("not available in this version"), "{}", bad.why);
    }

    #[test]
    fn only_loopback_is_served_without_a_token() {
        let mut settings = Settings::default();
        settings.api.listen = "127.0.0.1:7070".parse().unwrap();
        assert_eq!(settings.check(), Ok(()));
        settings.api.listen = "0.0.0.0:7070".parse().unwrap();
        assert_eq!(settings.check().unwrap_err().key, "api.listen");
        settings.api.token = Some("secret".to_owned());
        assert_eq!(settings.check(), Ok(()));
    }
}
