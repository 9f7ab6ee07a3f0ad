//! `lycosa demo`: a crawl to look at, with nothing outside of this machine.
//!
//! A simulated web is served by a process of its own (this program again, with a hidden command),
//! and crawled with the default settings, except that its names, addresses and certificates must
//! be known. What the servers saw is told at the end: they are the ones who can say whether we
//! were polite.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use simweb::serve::{Ready, ServeOptions, Source};
use simweb::{Entry, Journal, World, WorldSpec, checks};
use types::Canon;

use super::flags::OutputFlags;
use crate::crawl::{self, Plan};
use crate::dir::Dir;
use crate::exit::{Exit, Fail, Outcome};
use crate::seeds;
use crate::settings::layers::{Layers, Resolved};
use crate::telemetry::Stderr;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where the crawl is kept; a new temporary folder by default
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Serve /metrics and /status, also after the end, until Ctrl-C or SIGTERM
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:7070"
    )]
    serve: Option<crate::settings::Listen>,
    /// Which simulated web
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, hide = true, default_value_t = 220)]
    hosts: u64,
    #[arg(long, hide = true, default_value_t = 320)]
    pages: u64,
    #[command(flatten)]
    speak: OutputFlags,
}

#[derive(Debug, Args)]
pub struct SimwebArgs {
    /// The world's numbers as JSON
    #[arg(long)]
    spec: String,
    #[arg(long)]
    folder: PathBuf,
}

/// A web that a polite crawl finishes in less than a minute: the largest host decides, since each
/// gives one page a second.
fn world(args: &DemoArgs) -> Result<WorldSpec, Fail> {
    let faults = "redirect,redirect-chain,not-found,gone,denied,wrong-charset,gzip-server,\
                  chunked-server,robots-moved"
        .parse()
        .map_err(Fail::failure)?;
    let DemoArgs { seed, hosts, pages, .. } = *args;
    let spec = WorldSpec { seed, hosts, pages, links: 20, ..WorldSpec::default() };
    Ok(spec.with_faults(faults))
}

/// The hidden command: serves until its standard input ends.
pub fn serve(args: &SimwebArgs) -> Outcome {
    let spec: WorldSpec = serde_json::from_str(&args.spec).context("read the world's numbers")?;
    let options = ServeOptions {
        source: Source::World(spec),
        ca_dir: Some(args.folder.clone()),
        journal: Some(args.folder.join("journal.jsonl")),
        ..ServeOptions::default()
    };
    super::block_on(async {
        simweb::serve::run(options).await.context("serve a web on loopback")?;
        Ok(Exit::Done)
    })
}

/// The simulated web's process. It ends when its standard input does, so it cannot outlive us.
struct Web {
    child: Child,
    ready: Ready,
    folder: PathBuf,
}

impl Web {
    fn start(spec: &WorldSpec, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).context("make a folder for the simulated web")?;
        let program = std::env::current_exe().context("find our own program")?;
        let mut child = Command::new(program)
            .arg("simweb")
            .arg("--spec")
            .arg(serde_json::to_string(spec)?)
            .arg("--folder")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C is for the crawl, which finishes its pages: the web must stay for that.
            .process_group(0)
            .spawn()
            .context("start the simulated web")?;
        let output = child.stdout.take().context("the simulated web has an output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("hear from the simulated web")?;
        let ready = serde_json::from_str(&line).context("the simulated web did not start")?;
        Ok(Self { child, ready, folder: folder.to_owned() })
    }

    /// Ends it and removes what it wrote: there was no crawl to tell of. A folder with nothing
    /// else in it goes as well.
    fn clear_away(self) {
        let folder = self.folder.clone();
        drop(self);
        // What kept the crawl from beginning is told; that a file stays is not worth a word.
        let _ = std::fs::remove_dir_all(&folder)
            .and_then(|()| folder.parent().map_or(Ok(()), std::fs::remove_dir));
    }

    /// Ends it and reads what it saw.
    fn stop(mut self) -> anyhow::Result<Vec<Entry>> {
        drop(self.child.stdin.take());
        self.child.wait().context("wait for the simulated web")?;
        let mut entries = Journal::read(&self.folder.join("journal.jsonl"))?;
        entries.sort_by_key(|entry| entry.arrived);
        Ok(entries)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It may have ended already; a child that is not waited for stays as a zombie.
        let _ = self.child.wait();
    }
}

pub fn run(args: &DemoArgs) -> Outcome {
    let root = args.output.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("lycosa-demo-{}", std::process::id()))
    });
    let dir = Dir::new(root);
    if dir.is_crawl() {
        return Err(Fail::usage(format!(
            "there is a crawl in {} already; choose another folder with -o",
            dir.root().display()
        )));
    }
    let spec = world(args)?;
    let web = Web::start(&spec, &dir.root().join("simweb"))?;
    let resolved = settings(&web.ready, args)?;
    let canon = Canon::new(&resolved.settings.url);
    let seeds = seeds::gather(&web.ready.seed_urls, &[], &canon)?;
    let stderr = Stderr::default();
    let speaks = !args.speak.quiet && !args.speak.json;
    if speaks {
        stderr.say(&format!(
            "a simulated web of {} hosts, in a process of its own; nothing leaves this machine",
            spec.hosts
        ));
    }
    let plan = Plan {
        dir,
        resolved,
        output: args.speak,
        changes: Vec::new(),
        again: false,
        stay: args.serve.is_some(),
    };
    super::block_on(async {
        let ended = match Box::pin(crawl::crawl(&plan, seeds, &stderr)).await {
            Ok(ended) => ended,
            Err(fail) => {
                if !plan.dir.is_crawl() {
                    web.clear_away();
                }
                return Err(fail);
            }
        };
        let world = World::new(spec.with_ports(web.ready.http, web.ready.https, web.ready.closed));
        let entries = web.stop()?;
        if speaks {
            let mut out = std::io::stdout().lock();
            out.write_all(ended.report.text().as_bytes())?;
            writeln!(out, "{}", as_the_servers_saw_it(&entries, &world, &plan))?;
            writeln!(out, "{}", next_commands(&plan, &entries))?;
        }
        Ok(ended.exit)
    })
}

/// The defaults, and what the simulated web needs.
fn settings(ready: &Ready, args: &DemoArgs) -> Result<Resolved, Fail> {
    let mut layers = Layers::default();
    layers.add_environment(std::env::vars())?;
    layers.add_flag("demo", "crawl.scope", "any")?;
    layers.add_flag("demo", "dns.upstreams", vec![ready.dns.to_string()])?;
    layers.add_flag("demo", "network.allow", vec!["127.0.0.0/8".to_owned()])?;
    let ca = std::path::absolute(&ready.ca)?;
    layers.add_flag("demo", "network.tls_ca", vec![ca.display().to_string()])?;
    if let Some(listen) = args.serve {
        layers.add_flag("--serve", "api.listen", listen.to_string())?;
    }
    Ok(layers.finish()?)
}

fn as_the_servers_saw_it(entries: &[Entry], world: &World, plan: &Plan) -> String {
    let settings = &plan.resolved.settings;
    let delay = settings.politeness.delay.get();
    let ip_delay = settings.politeness.ip_delay.get();
    let connections = settings.politeness.ip_connections as usize;
    let hosts = checks::gaps(entries, |_| delay).len();
    let addresses = checks::address_gaps(entries, ip_delay, connections).len();
    let forbidden = checks::robots_obeyed(entries, world, &settings.identity.product).len();
    let smallest = smallest_pause(entries)
        .map_or("none".to_owned(), |gap| format!("{:.3} s", gap.as_secs_f64()));
    format!(
        "as the servers saw it:\n\
         {:2}{:<10} {} ({} of them robots.txt)\n\
         {:2}{:<10} {smallest} is the smallest at any host; {hosts} too short or two at once\n\
         {:2}{:<10} {addresses} requests too early at their address\n\
         {:2}{:<10} {forbidden} requests that a robots.txt forbids",
        "",
        "requests",
        entries.len(),
        entries.iter().filter(|entry| entry.is_robots()).count(),
        "",
        "pauses",
        "",
        "addresses",
        "",
        "robots"
    )
}

/// From the end of an answer to the next request, at any one host.
fn smallest_pause(entries: &[Entry]) -> Option<Duration> {
    let mut ends: BTreeMap<&str, types::Timestamp> = BTreeMap::new();
    let mut smallest = None;
    for entry in entries {
        if let Some(end) = ends.get(&*entry.host) {
            let gap = entry.arrived.since(*end);
            smallest = Some(smallest.map_or(gap, |known: Duration| known.min(gap)));
        }
        ends.insert(&entry.host, entry.ended.unwrap_or(entry.arrived));
    }
    smallest
}

fn next_commands(plan: &Plan, entries: &[Entry]) -> String {
    let dir = plan.dir.root().display();
    let page = entries.iter().rfind(|entry| entry.status == 200 && !entry.is_robots());
    let url = page.map_or("URL".to_owned(), Entry::url);
    // As we were called: whoever tries the demo has not installed anything.
    let lycosa = std::env::args().next().unwrap_or_else(|| "lycosa".to_owned());
    format!(
        "the crawl is in {dir}; try next:\n  \
         {lycosa} explain {dir} '{url}'\n  \
         {lycosa} status {dir}\n  \
         {lycosa} warc ls {dir}/archive/*.warc.gz | head\n  \
         {lycosa} crawl https://example.org/ --contact you@example.org --limit 10"
    )
}
