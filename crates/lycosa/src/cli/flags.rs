//! Which flags set which keys?
//!
//! A flag with a name of its own is a short way to a key; `-s` reaches all of them. A value that
//! is not well-formed is a mistake in typing (exit code 2); one that is not possible is a bad
//! setting (exit code 4), wherever it came from.

use std::path::{Path, PathBuf};

use clap::Args;
use frontier::{CrawlSettings, Scope, ScopeKind};
use types::{ByteSize, HumanDuration};

use crate::exit::Fail;
use crate::settings::layers::{Layers, Resolved};
use crate::settings::{Listen, RenderMode};

/// Flags that set keys, of every command that visits the web.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Settings")]
pub struct SettingFlags {
    /// A settings file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set any key, such as politeness.delay=2s; repeatable, the last one wins
    #[arg(short = 's', value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// URL or e-mail address of whoever runs this crawl; needed for public sites
    #[arg(long, value_name = "URL|EMAIL", value_parser = contact)]
    pub contact: Option<String>,
    /// The User-Agent header; {product}, {version} and {contact} are filled in
    #[arg(short = 'U', long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Add a header field to every request; repeatable
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header)]
    pub header: Vec<(String, String)>,
    /// Go through a proxy, http://host:port or socks5://host:port; repeatable
    #[arg(long, value_name = "URL")]
    pub proxy: Vec<fetch::ProxyUrl>,
    /// Ask this name server instead of the system's; repeatable
    #[arg(long, value_name = "IP:PORT")]
    pub dns: Vec<fetch::Upstream>,
    /// Open an address range beyond the public ones; repeatable
    #[arg(long, value_name = "CIDR")]
    pub allow_net: Vec<fetch::Network>,
    /// Do not obey robots.txt: for your own sites only
    #[arg(long)]
    pub ignore_robots: bool,
    /// Least pause between two requests to a host
    #[arg(long, value_name = "TIME")]
    pub delay: Option<HumanDuration>,
    /// Least pause between two requests to an address
    #[arg(long, value_name = "TIME")]
    pub ip_delay: Option<HumanDuration>,
}

/// Flags that set keys, of a crawl.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "What to crawl")]
pub struct CrawlFlags {
    /// How far links are followed
    #[arg(long, value_parser = scope, value_name = "page|prefix|host|domain|any|custom")]
    pub scope: Option<ScopeKind>,
    /// Take only URLs that match; repeatable
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    pub include: Vec<String>,
    /// Leave out URLs that match; repeatable
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    pub exclude: Vec<String>,
    /// Links from the nearest seed
    #[arg(short = 'd', long, value_name = "N")]
    pub depth: Option<u16>,
    /// Stop after this many pages, over the crawl's life, or since the last `recrawl` began
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Stop this run after a time
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<HumanDuration>,
    /// Stop after this many bytes of WARC, over the crawl's life, or since the last `recrawl` began
    #[arg(long, value_name = "SIZE")]
    pub size_limit: Option<ByteSize>,
    /// Requests in flight, all hosts together
    #[arg(short = 'c', long, value_name = "N")]
    pub concurrency: Option<u32>,
    /// Keep coming back to pages (not available in this version)
    #[arg(long)]
    pub continuous: bool,
    /// Visits to spend on coming back (not available in this version)
    #[arg(long, value_name = "RATE")]
    pub budget: Option<String>,
    /// Run pages' scripts (not available in this version)
    #[arg(long, value_enum)]
    pub render: Option<RenderMode>,
    /// Serve /metrics and /status while crawling
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:7070"
    )]
    pub serve: Option<Listen>,
    /// Say what would be done, and fetch nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How to speak while crawling.
#[derive(Debug, Args, Clone, Copy, Default)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Nothing but errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Say more; twice for every URL
    #[arg(short = 'v', long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Progress and result as JSON lines on stdout
    #[arg(long)]
    pub json: bool,
}

impl OutputFlags {
    pub const fn loudness(self) -> crate::telemetry::Loudness {
        crate::telemetry::Loudness { quiet: self.quiet, verbose: self.verbose }
    }
}

/// All layers of settings, in their order. `kept` is the file of the crawl's directory.
pub fn resolve(
    kept: Option<&Path>,
    flags: &SettingFlags,
    crawl: Option<&CrawlFlags>,
) -> Result<Resolved, Fail> {
    let mut layers = Layers::default();
    for file in kept.into_iter().chain(flags.config.as_deref()) {
        layers.add_file(file)?;
    }
    layers.add_environment(std::env::vars())?;
    for pair in &flags.set {
        layers.add_pair(pair)?;
    }
    flags.add_to(&mut layers)?;
    if let Some(crawl) = crawl {
        crawl.add_to(&mut layers)?;
    }
    Ok(layers.finish()?)
}

type Added = Result<(), crate::settings::layers::SettingsError>;

impl SettingFlags {
    fn add_to(&self, layers: &mut Layers) -> Added {
        if let Some(contact) = &self.contact {
            layers.add_flag("--contact", "identity.contact", contact.as_str())?;
        }
        if let Some(text) = &self.user_agent {
            layers.add_flag("--user-agent", "identity.user_agent", text.as_str())?;
        }
        for (name, value) in &self.header {
            layers.add_flag("--header", &format!("fetch.headers.{name}"), value.as_str())?;
        }
        let proxies: Vec<String> = self.proxy.iter().cloned().map(String::from).collect();
        add_list(layers, "--proxy", "fetch.proxies", &proxies)?;
        add_list(layers, "--dns", "dns.upstreams", &self.dns)?;
        add_list(layers, "--allow-net", "network.allow", &self.allow_net)?;
        if self.ignore_robots {
            layers.add_flag("--ignore-robots", "robots.obey", false)?;
        }
        add_text(layers, "--delay", "politeness.delay", self.delay)?;
        add_text(layers, "--ip-delay", "politeness.ip_delay", self.ip_delay)
    }
}

impl CrawlFlags {
    fn add_to(&self, layers: &mut Layers) -> Added {
        let scope = self.scope.map(ScopeKind::as_str);
        add_text(layers, "--scope", "crawl.scope", scope)?;
        add_list(layers, "--include", "crawl.include", &self.include)?;
        add_list(layers, "--exclude", "crawl.exclude", &self.exclude)?;
        add_number(layers, "--depth", "crawl.max_depth", self.depth.map(i64::from))?;
        let limit = self.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        add_number(layers, "--limit", "crawl.max_pages", limit)?;
        add_text(layers, "--time-limit", "crawl.max_time", self.time_limit)?;
        add_text(layers, "--size-limit", "crawl.max_bytes", self.size_limit)?;
        let concurrency = self.concurrency.map(i64::from);
        add_number(layers, "--concurrency", "crawl.concurrency", concurrency)?;
        if self.continuous {
            layers.add_flag("--continuous", "recrawl.policy", "value")?;
        }
        add_text(layers, "--budget", "recrawl.budget", self.budget.as_deref())?;
        let render = self.render.map(|mode| match mode {
            RenderMode::Auto => "auto",
            RenderMode::Always => "always",
            RenderMode::Never => "never",
        });
        add_text(layers, "--render", "render.mode", render)?;
        add_text(layers, "--serve", "api.listen", self.serve)
    }
}

fn add_text(layers: &mut Layers, flag: &str, key: &str, value: Option<impl ToString>) -> Added {
    match value {
        Some(value) => layers.add_flag(flag, key, value.to_string()),
        None => Ok(()),
    }
}

fn add_number(layers: &mut Layers, flag: &str, key: &str, value: Option<i64>) -> Added {
    match value {
        Some(value) => layers.add_flag(flag, key, value),
        None => Ok(()),
    }
}

fn add_list(layers: &mut Layers, flag: &str, key: &str, values: &[impl ToString]) -> Added {
    if values.is_empty() {
        return Ok(());
    }
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    layers.add_flag(flag, key, values)
}

fn contact(text: &str) -> Result<String, String> {
    if crate::settings::is_contact(text) {
        return Ok(text.to_owned());
    }
    Err("write a URL or an e-mail address, such as https://example.org/bot or me@example.org"
        .to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as 'Name: value'".to_owned()),
    }
}

fn scope(text: &str) -> Result<ScopeKind, String> {
    use ScopeKind as S;
    let all = [S::Page, S::Prefix, S::Host, S::Domain, S::Any, S::Custom];
    let found = all.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| "write page, prefix, host, domain, any or custom".to_owned())
}

fn regex(text: &str) -> Result<String, String> {
    let alone = CrawlSettings { include: vec![text.to_owned()], ..CrawlSettings::default() };
    match Scope::new(&alone) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(why.trim_start_matches("crawl.include: ").to_owned()),
    }
}
