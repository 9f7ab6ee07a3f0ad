//! The chores of the workspace; see `HELP`.
//!
//! Each chore is a module with one door, `run`. They shell out to cargo, git and python3 and keep
//! whatever they make below the target folder.

mod args;
mod bench;
mod ci;
mod content;
mod docs;
mod fuzz;
mod interop;
mod long;
mod manifest;
mod mutants;
mod python;
mod repo;
mod sim;
mod summary;
mod tidy;

use std::process::ExitCode;

use args::Args;
use repo::Repo;

const HELP: &str = "\
The chores of lycosa: cargo xtask CHORE

  ci [--rocksdb]           format, tidy, lints, generated docs, outside tools, all tests: what the
                           server runs. --rocksdb adds that engine (minutes of C++ the first time)
  tidy                     dependency direction, paths in documents, module heads, forbidden words
  docs [--check]           writes docs/configuration.md; --check only says whether it is fresh
  interop                  warcio and cdxj-indexer judge an archive of ours
  sim [--seeds N] [--from S]
                           the simulation of the whole engine, seeds S to S+N-1 (10000 from 0)
  fuzz [--target NAME] [--seconds N] [--seed S]
                           hunts each target of the fuzzer for N seconds (600), a new seed every
                           ten; what breaks it is kept in crates/fuzz/findings. 0 seconds only go
                           through the files that are kept
  mutants [NAME…] [--seeds N] [--list]
                           plants the bugs of xtask/mutants, one at a time; the simulation must find
                           each within N seeds (1000)
  kills [--kills N] [--pages N]
                           one crawl by the real binary, killed N times at random (500) and at
                           every named point; nothing may be lost, doubled or rude
  oracle [--urls N] [--kills N]
                           a store is offered URLs (10 million) and visits them, its process is
                           killed N times (300): none dropped, none visited twice
  starve [--hosts N]       what tarpits and a huge host take from the others, in virtual time (10000)
  faults [--points N]      a small crawl on a disk that fails at the n-th call, for N of them (1000)
  world [--hosts N] [--pages N]
                           a web with every fault, crawled with 1, 2 and 16 shards (500 hosts,
                           20000 pages)
  again [--hosts N] [--pages N]
                           a web that has not changed, visited a second time: how many bytes move
                           (100 hosts, 10000 pages)
  hostile [--hosts N] [--honest N] [--seconds N]
                           hosts that do harm (2000) beside honest ones (500), for N seconds (120)
                           with and without them: what they take from the honest, memory, files
  names [--names N]        a stream of links to so many names (100000), and a name server that dies
  stream [--urls N]        a client of the frontier service puts N URLs (1000000) in one stream, and
                           another takes them, slowly at first: the service's memory is bounded
  train [--pages FOLDER]   learns main content and page types from reviewed pages and writes the
                           model (minutes)
  eval extract [--split N] [--alone] [--pages FOLDER]
                           how well main content is found in pages of domains that were not learnt
                           from (minutes), and by other extractors unless --alone; --split takes
                           other folds
  eval links [--pages FOLDER]
                           whether our links are those of the tree that the HTML standard builds
  bench crawl [--hosts N] [--pages N]
                           a crawl of a simulated web, as fast as it goes: pages per CPU-second
  bench polite [--hosts N] [--seconds N]
                           a crawl with the usual pauses: how much of the possible rate
  bench fetch [--pages N]  what fetching a page costs, plain, over TLS and HTTP/2, beside bare hyper
  bench frontier [--urls N] [--hosts N] [--memory-mb N] [--rocksdb]
                           a store filled with 100 million URLs in 2 GB of memory (hours; 5 million
                           are minutes), killed and opened again; and the cost of a lease
  bench hosts [--hosts N] [--seeds N]
                           what a request costs among 100,000 hosts, and the memory of a crawl with
                           a million of them
  bench neardup [--pages FOLDER] [--prints N]
                           near duplicates: recall and precision on generated truth, of the texts of
                           the development pages; look-ups among ten million prints
  bench service [--streams N] [--urls N] [--queues N]
                           URLs that the frontier as a service takes and gives out a second
  bench extract [--pages FOLDER]
                           what it costs to read a page whole
  bench soak [--minutes N] an hour at full speed: memory, files and threads must stay as they are
  help                     this
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<args::Usage>() => {
            eprintln!("xtask: {error}; `cargo xtask help` lists what there is");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut args = Args::new(std::env::args().skip(1));
    let Some(chore) = args.word() else {
        print!("{HELP}");
        return Ok(());
    };
    let repo = Repo::find()?;
    match chore.as_str() {
        "ci" => ci::run(&repo, args),
        "tidy" => tidy::run(&repo, args),
        "docs" => docs::run(&repo, args),
        "interop" => interop::run(&repo, args),
        "sim" => sim::run(&repo, args),
        "mutants" => mutants::run(&repo, args),
        "fuzz" => fuzz::run(&repo, args),
        "kills" => long::kills(&repo, args),
        "oracle" => long::oracle(&repo, args),
        "starve" => long::starve(&repo, args),
        "faults" => long::faults(&repo, args),
        "world" => long::world(&repo, args),
        "again" => long::again(&repo, args),
        "hostile" => long::hostile(&repo, args),
        "names" => long::names(&repo, args),
        "stream" => long::stream(&repo, args),
        "train" => content::train(&repo, args),
        "eval" => content::eval(&repo, args),
        "bench" => bench::run(&repo, args),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(args::usage(format!("there is no chore `{other}`"))),
    }
}
