//! What can be asked of lycosa?
//!
//! One variant a command, one file each below. Commands that later versions bring are known by
//! name, so that they fail with a sentence and not with a guess.

mod backup;
mod config;
mod crawl;
mod demo;
mod dlq;
mod export;
mod fetch;
pub mod flags;
mod forget;
mod frontier;
mod look;
mod report;
mod search;
mod tool;
mod warc;
mod worker;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::exit::{Fail, Outcome};

/// A polite web crawler: it archives what it visits, and loses nothing.
///
/// Start with `lycosa demo`, or with
/// `lycosa crawl https://example.org --contact me@example.org`.
#[derive(Debug, Parser)]
#[command(name = "lycosa", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Crawl from seeds, or go on with a crawl
    Crawl(Box<crawl::CrawlArgs>),
    /// Go on with a crawl
    Resume(Box<crawl::ResumeArgs>),
    /// Visit every page of a crawl again; what has not changed is not fetched
    Recrawl(Box<crawl::ResumeArgs>),
    /// Show how a crawl stands, running or not
    Status(look::StatusArgs),
    /// Tell what has become of a URL, and why
    Explain(look::ExplainArgs),
    /// What a crawl came to, running or not: for people, as a page, or as JSON
    Report(report::ReportArgs),
    /// Find pages of a crawl by their words, running or not
    Search(search::SearchArgs),
    /// List, retry or drop the URLs that failed too often
    Dlq(dlq::DlqArgs),
    /// Erase a URL, a host or a pattern from a crawl, everywhere and for good
    Forget(forget::ForgetArgs),
    /// Save a crawl in a new folder, also while it runs
    Backup(backup::BackupArgs),
    /// Turn what was crawled into text, tables or one file, also while it runs
    Export(Box<export::ExportArgs>),
    /// Serve a frontier to workers, and the queues of other crawlers by URLFrontier
    Frontier(Box<frontier::FrontierArgs>),
    /// Make visits for a frontier in another process
    Worker(Box<worker::WorkerArgs>),
    /// Visit one URL politely and show what came back
    Fetch(Box<fetch::FetchArgs>),
    /// Crawl a simulated web for a minute, to see how it goes
    Demo(demo::DemoArgs),
    /// The simulated web of the demo, in a process of its own
    #[command(hide = true)]
    Simweb(demo::SimwebArgs),
    /// See, check or start a configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Look into WARC files
    #[command(subcommand)]
    Warc(warc::WarcCommand),
    /// Use a part of the crawler as a filter: JSON lines in, JSON lines out
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    #[command(
        hide = true,
        name = "traps",
        aliases = ["rank", "reprocess", "import", "serve", "top", "node"]
    )]
    Later(LaterArgs),
}

#[derive(Debug, Args)]
struct LaterArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<OsString>,
}

pub fn run(cli: Cli) -> Outcome {
    match cli.command {
        Command::Crawl(args) => crawl::run(&args),
        Command::Resume(args) => crawl::resume(&args),
        Command::Recrawl(args) => crawl::recrawl(&args),
        Command::Status(args) => look::status(&args),
        Command::Explain(args) => look::explain(&args),
        Command::Report(args) => report::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Dlq(args) => dlq::run(&args),
        Command::Forget(args) => forget::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Frontier(args) => frontier::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Fetch(args) => fetch::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Simweb(args) => demo::serve(&args),
        Command::Config(command) => config::run(command),
        Command::Warc(command) => warc::run(command),
        Command::Tool(command) => tool::run(&command),
        Command::Later(_) => {
            let name = std::env::args().nth(1).unwrap_or_default();
            Err(Fail::settings(format!(
                "`lycosa {name}` is not available in this version; `lycosa --help` lists what is"
            )))
        }
    }
}

/// Runs a command that waits for the world.
fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    // What takes time runs elsewhere (`engine::Pool`, the store's threads); these only wait for
    // sockets, and with more of them they would wake each other up all the time.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.div_ceil(4))
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(work);
    // A look-up or a read that nobody waits for must not hold the process.
    runtime.shutdown_background();
    outcome
}
