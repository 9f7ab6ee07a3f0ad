//! Which values fit no crawl, though each has the right type?
//!
//! What a key's own type cannot see: bounds, texts that must fit a header or robots.txt, keys that
//! need each other, and those whose feature is still to come.

use super::{Compression, RecrawlPolicy, RenderMode, Settings, StoreEngine};

/// Most shards in one process: each has a thread and an open WARC file.
const SHARDS_MAX: u16 = 256;
/// The largest file whose records all have a place in the table of captures, which counts in 32 bits.
const TABLE_FILE_BYTES_MAX: u64 = 2_000_000_000;

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
            let keys = ["crawl.include", "crawl.exclude"];
            let key = keys.into_iter().find(|key| why.starts_with(&format!("{key}: ")));
            return bad(key.unwrap_or("crawl.scope"), why);
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
        if let Some(from) = &self.identity.from
            && (!is_contact(from) || from.contains("://"))
        {
            let why = format!("`{from}` is not an e-mail address: write me@example.org");
            return bad("identity.from", why);
        }
        self.check_sheets()?;
        for is_v4 in [true, false] {
            let of_kind = |address: &&std::net::IpAddr| address.is_ipv4() == is_v4;
            if self.network.source_address.iter().filter(of_kind).count() > 1 {
                let why = "one of IPv4 and one of IPv6 at most".to_owned();
                return bad("network.source_address", why);
            }
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
        if self.table.part_rows_max == 0 {
            return bad("table.part_rows_max", "must be at least 1".to_owned());
        }
        if self.table.enabled && self.archive.file_bytes_max.get() > TABLE_FILE_BYTES_MAX {
            let why = "the table has the columns of Common Crawl, whose places end at 2 GB: choose 2GB or \
                       less, or set table.enabled=false";
            return bad("archive.file_bytes_max", why.to_owned());
        }
        if self.store.checkpoint_urls == 0 {
            return bad("store.checkpoint_urls", "must be at least 1".to_owned());
        }
        let memory = search::MEMORY_BYTES_MIN..search::MEMORY_BYTES_MAX;
        if !memory.contains(&self.search.memory_max.0) {
            let why = "must be at least 16MiB, and less than 4GiB".to_owned();
            return bad("search.memory_max", why);
        }
        let token = self.api.token.as_deref();
        if let Some(why) =
            self.api.listen.0.and_then(|address| service::door::closed(address, token))
        {
            return bad("api.listen", why);
        }
        Ok(())
    }

    /// Keys whose feature is still to come take their off value only.
    fn check_built(&self) -> Result<(), BadSetting> {
        let later = [
            (self.recrawl.policy != RecrawlPolicy::Off, "recrawl.policy", "off"),
            (self.recrawl.budget.is_some(), "recrawl.budget", "none"),
            (self.render.mode != RenderMode::Never, "render.mode", "never"),
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
        settings.render.mode = RenderMode::Auto;
        let bad = settings.check().unwrap_err();
        assert_eq!(bad.key, "render.mode");
        assert!(bad.why.contains("not available in this version"), "{}", bad.why);
    }

    #[test]
    fn a_file_larger_than_the_table_can_count_needs_no_table() {
        let mut settings = Settings::default();
        settings.archive.file_bytes_max = types::ByteSize(3_000_000_000);
        let bad = settings.check().unwrap_err();
        assert_eq!(bad.key, "archive.file_bytes_max");
        assert!(bad.why.contains("table.enabled=false"), "{}", bad.why);
        settings.table.enabled = false;
        assert_eq!(settings.check(), Ok(()));
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
