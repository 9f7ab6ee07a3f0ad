//! A web of our own, on the command line: serve it, or ask what a crawl of it must come to.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lycosa_simweb::serve::{ServeOptions, Source, run};
use lycosa_simweb::{Faults, Fixture, Rules, Scope, World, WorldSpec};

/// A web of our own, on loopback.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a world until standard input ends; a JSON line says when it is ready
    Serve {
        #[command(flatten)]
        world: WorldArgs,
        #[command(flatten)]
        sockets: SocketArgs,
    },
    /// Serve a tiny web that is written in a file
    Fixture {
        file: PathBuf,
        #[command(flatten)]
        sockets: SocketArgs,
    },
    /// Print what a crawl of a world must come to, as JSON lines
    Oracle {
        #[command(flatten)]
        world: WorldArgs,
        /// Where the crawl begins; the first home page by default
        #[arg(long = "url")]
        urls: Vec<String>,
        #[arg(long, value_enum, default_value_t = ScopeArg::Any)]
        scope: ScopeArg,
        /// Links from a seed
        #[arg(long)]
        max_depth: Option<u32>,
        /// Product token for robots.txt
        #[arg(long, default_value = "lycosa")]
        agent: String,
        /// Ports of the server whose world is meant, as its ready line names them
        #[arg(long, default_value_t = 80)]
        http_port: u16,
        #[arg(long, default_value_t = 443)]
        https_port: u16,
        #[arg(long, default_value_t = WorldSpec::default().closed_port)]
        closed_port: u16,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    Any,
    Host,
    Domain,
}

#[derive(Debug, Args)]
struct SocketArgs {
    /// 0 takes a free port
    #[arg(long, default_value_t = 0)]
    http_port: u16,
    #[arg(long, default_value_t = 0)]
    https_port: u16,
    #[arg(long, default_value_t = 0)]
    dns_port: u16,
    /// Folder for simweb-ca.pem, the certificate to trust
    #[arg(long)]
    ca_dir: Option<PathBuf>,
    /// Write every request to this file, one JSON line each
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Seeds in the ready line
    #[arg(long, default_value_t = 1)]
    seeds: usize,
    /// Speak HTTP/2 over TLS with whoever can
    #[arg(long)]
    http2: bool,
}

impl SocketArgs {
    fn options(self, source: Source) -> ServeOptions {
        ServeOptions {
            source,
            http_port: self.http_port,
            https_port: self.https_port,
            dns_port: self.dns_port,
            ca_dir: self.ca_dir,
            journal: self.journal,
            journal_in_memory: false,
            seeds: self.seeds,
            http2: self.http2,
        }
    }
}

/// The numbers of a world; see the fields of `WorldSpec`.
#[derive(Debug, Args)]
struct WorldArgs {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 100)]
    hosts: u64,
    /// All pages together
    #[arg(long, default_value_t = 10_000)]
    pages: u64,
    /// Every host has as many pages as anyone asks for
    #[arg(long)]
    endless: bool,
    /// Bodies of about 1 KB
    #[arg(long)]
    tiny: bool,
    /// `all`, `none`, or a list such as `slow,reset=0.1`
    #[arg(long, default_value = "none")]
    faults: Faults,
    /// Links on a page, on average
    #[arg(long)]
    links: Option<u32>,
    /// Share of hosts that speak TLS
    #[arg(long)]
    https: Option<f64>,
    #[arg(long)]
    hosts_per_domain: Option<u64>,
    #[arg(long)]
    hosts_per_address: Option<u64>,
    /// Share of hosts whose robots.txt forbids something
    #[arg(long)]
    robots_rules: Option<f64>,
    /// Share of hosts with a Crawl-delay
    #[arg(long)]
    crawl_delay: Option<f64>,
    #[arg(long)]
    crawl_delay_secs: Option<u32>,
    /// Share of pages that change
    #[arg(long)]
    changing: Option<f64>,
    #[arg(long)]
    change_secs: Option<u64>,
}

impl WorldArgs {
    fn spec(self) -> WorldSpec {
        let base = if self.tiny {
            WorldSpec::tiny(self.seed, self.hosts, self.pages)
        } else {
            let (seed, hosts, pages) = (self.seed, self.hosts, self.pages);
            WorldSpec { seed, hosts, pages, ..WorldSpec::default() }
        };
        WorldSpec {
            endless: self.endless,
            faults: self.faults,
            links: self.links.unwrap_or(base.links),
            https: self.https.unwrap_or(base.https),
            hosts_per_domain: self.hosts_per_domain.unwrap_or(base.hosts_per_domain),
            hosts_per_address: self.hosts_per_address.unwrap_or(base.hosts_per_address),
            robots_rules: self.robots_rules.unwrap_or(base.robots_rules),
            crawl_delay: self.crawl_delay.unwrap_or(base.crawl_delay),
            crawl_delay_secs: self.crawl_delay_secs.unwrap_or(base.crawl_delay_secs),
            changing: self.changing.unwrap_or(base.changing),
            change_secs: self.change_secs.unwrap_or(base.change_secs),
            ..base
        }
    }
}

fn main() -> anyhow::Result<()> {
    let options = match Cli::parse().command {
        Command::Serve { world, sockets } => sockets.options(Source::World(world.spec())),
        Command::Fixture { file, sockets } => {
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("read {}", file.display()))?;
            sockets.options(Source::Fixture(Fixture::parse(&text)?))
        }
        Command::Oracle {
            world,
            urls,
            scope,
            max_depth,
            agent,
            http_port,
            https_port,
            closed_port,
        } => {
            let spec = world.spec().with_ports(http_port, https_port, closed_port);
            let scope = match scope {
                ScopeArg::Any => Scope::Any,
                ScopeArg::Host => Scope::Host,
                ScopeArg::Domain => Scope::Domain,
            };
            let max_depth = max_depth.unwrap_or(u32::MAX);
            return foretell(spec, urls, &Rules { max_depth, scope, agent, ..Rules::default() });
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(run(options)).context("serve a web on loopback");
    // A blocked read of standard input must not hold the process.
    runtime.shutdown_background();
    served
}

fn foretell(spec: WorldSpec, urls: Vec<String>, rules: &Rules) -> anyhow::Result<()> {
    anyhow::ensure!(!spec.endless, "an endless world has no oracle; leave out --endless");
    let world = World::new(spec);
    let seeds = if urls.is_empty() { world.seeds(1) } else { urls };
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (url, expectation) in world.oracle(&seeds, rules).expected {
        let mut line = serde_json::to_value(expectation)?;
        line["url"] = url.into();
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}
