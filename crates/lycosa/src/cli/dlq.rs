//! `lycosa dlq`: from the state, or by the process that crawls.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ports::shard_store::ScanCursor;
use types::Timestamp;

use super::look::{kept_settings, stores, unexpected};
use crate::crawl::control::{self, Answer, Ask};
use crate::dir::Dir;
use crate::dlq::{self, DeadLetter, Deed, Filter};
use crate::exit::{Exit, Fail, Outcome};
use crate::wiring;

#[derive(Debug, Args)]
pub struct DlqArgs {
    /// The directory of a crawl
    dir: PathBuf,
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// Print them, one a line, with the reason
    List {
        #[command(flatten)]
        which: WhichArgs,
        /// JSON lines
        #[arg(long)]
        json: bool,
        /// Print no more than this many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Put them back into their queues, as if they had never failed
    Retry {
        #[command(flatten)]
        which: WhichArgs,
    },
    /// Give them up for good
    Drop {
        #[command(flatten)]
        which: WhichArgs,
        /// All of them, when nothing else says which
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
struct WhichArgs {
    /// Only of this host (repeatable)
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Only for this reason: dns, connect, tls, timeout, reset, bad-http, status, lost, ours, proxy
    /// (repeatable)
    #[arg(long = "reason", value_name = "REASON")]
    reasons: Vec<String>,
    /// Only URLs in which this regular expression is found
    #[arg(long = "match", value_name = "RE")]
    matching: Option<String>,
}

impl WhichArgs {
    fn filter(&self) -> Result<Filter, Fail> {
        let filter = Filter {
            hosts: self.hosts.clone(),
            reasons: self.reasons.clone(),
            matching: self.matching.clone(),
        };
        filter.ready().map_err(Fail::usage)?;
        Ok(filter)
    }
}

pub fn run(args: &DlqArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    match &args.command {
        DlqCommand::List { which, json, limit } => {
            list(&dir, &which.filter()?, *json, limit.unwrap_or(u64::MAX))
        }
        DlqCommand::Retry { which } => revise(&dir, Deed::Retry, which.filter()?),
        DlqCommand::Drop { which, all } => {
            let filter = which.filter()?;
            if filter.is_empty() && !all {
                return Err(Fail::usage(
                    "which dead letters? Name them with --host, --reason or --match, or drop \
                     --all of them",
                ));
            }
            revise(&dir, Deed::Drop, filter)
        }
    }
}

fn list(dir: &Dir, filter: &Filter, json: bool, limit: u64) -> Outcome {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut left = limit;
    let mut show = |letters: Vec<DeadLetter>| -> std::io::Result<bool> {
        for letter in letters {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            if json {
                serde_json::to_writer(&mut out, &letter)?;
                writeln!(out)?;
            } else {
                let DeadLetter { url, reason, detail, attempts, .. } = letter;
                writeln!(out, "{url}\t{reason}\t{attempts} attempts: {detail}")?;
            }
        }
        Ok(left > 0)
    };
    if dir.holder().is_some() {
        let (mut shard, mut after) = (0, None);
        loop {
            let ask = Ask::DeadLetters { filter: filter.clone(), shard, after };
            let page = match control::ask(dir, &ask)? {
                Answer::DeadLetters(Some(page)) => page,
                Answer::DeadLetters(None) => break,
                other => return Err(unexpected(&other)),
            };
            if !show(page.letters)? {
                break;
            }
            after = page.next;
            shard += u16::from(after.is_none());
        }
    } else {
        let held = dir.hold_to_look()?;
        let ready = filter.ready().map_err(Fail::usage)?;
        'all: for mut store in stores(&held)? {
            let mut after = None;
            loop {
                let page = dlq::page(&mut *store, &ready, after)?;
                if !show(page.letters)? {
                    break 'all;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn revise(dir: &Dir, deed: Deed, filter: Filter) -> Outcome {
    let live = dir.holder().is_some();
    let changed = if live {
        match control::ask(dir, &Ask::Revise { deed, filter })? {
            Answer::Revised(changed) => changed,
            other => return Err(unexpected(&other)),
        }
    } else {
        revise_at_rest(dir, deed, &filter)?
    };
    let letters = crate::crawl::counted(changed, "dead letter");
    let root = dir.root().display();
    let is_one = changed == 1;
    let said = match (deed, changed, live) {
        (_, 0, _) => "no dead letters are meant by this; nothing has changed".to_owned(),
        (Deed::Retry, _, true) => {
            format!("{letters} {} back in the queues", if is_one { "is" } else { "are" })
        }
        (Deed::Retry, _, false) => format!(
            "{letters} {} back in the queues; `lycosa resume {root}` visits {}",
            if is_one { "is" } else { "are" },
            if is_one { "it" } else { "them" },
        ),
        (Deed::Drop, ..) => format!("{letters} dropped"),
    };
    println!("{said}");
    Ok(Exit::Done)
}

fn revise_at_rest(dir: &Dir, deed: Deed, filter: &Filter) -> Result<u64, Fail> {
    let held = dir.hold()?;
    let settings = kept_settings(dir)?.settings;
    let filter = filter.ready().map_err(Fail::usage)?;
    let now = Timestamp::from(std::time::SystemTime::now());
    let mut changed = 0;
    for mut store in stores(&held)? {
        store.recover(now, wiring::retry(&settings))?;
        let mut cursor = ScanCursor::default();
        while !cursor.done {
            let judge = &mut |record: &types::Record| deed.judge(&filter, record);
            changed += store.revise(&mut cursor, 4_096, judge)?.changed;
        }
        store.close()?;
    }
    Ok(changed)
}
