//! `lycosa status` and `lycosa explain`: from the state, or from the process that crawls.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use ports::ShardStore;
use types::{Canon, Timestamp};

use crate::crawl::control::{self, Answer, Ask};
use crate::crawl::explain_in;
use crate::dir::{Dir, HeldDir};
use crate::exit::{Exit, Fail, Outcome};
use crate::explain::Explanation;
use crate::settings::layers::{Layers, Resolved};
use crate::status::{ShardStanding, Status};
use crate::wiring::{self, Outputs};

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The directory of a crawl
    dir: PathBuf,
    /// JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The directory of a crawl
    dir: PathBuf,
    url: String,
    /// JSON
    #[arg(long)]
    json: bool,
}

pub fn status(args: &StatusArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    let status = if dir.holder().is_some() {
        match control::ask(&dir, &Ask::Status)? {
            Answer::Status(status) => *status,
            other => return Err(unexpected(&other)),
        }
    } else {
        let held = dir.hold_to_look()?;
        let mut standings = Vec::new();
        for mut store in stores(&held)? {
            standings.push(ShardStanding::read(&mut *store, true)?);
        }
        let outputs = Outputs::at_rest(&held.dir, &held.mark)?;
        Status { archive_bytes: archive_bytes(&dir), ..Status::of(standings).with(&outputs) }
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &status)?;
        writeln!(out)?;
    } else {
        out.write_all(status.text().as_bytes())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

pub fn explain(args: &ExplainArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    let told = if dir.holder().is_some() {
        match control::ask(&dir, &Ask::Explain { url: args.url.clone() })? {
            Answer::Explanation(told) => *told,
            Answer::Error(why) => return Err(Fail::failure(why)),
            other => return Err(unexpected(&other)),
        }
    } else {
        explain_at_rest(&dir, &args.url)?
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &told)?;
        writeln!(out)?;
    } else {
        out.write_all(told.text(&args.dir.display().to_string()).as_bytes())?;
    }
    out.flush()?;
    Ok(if told.known { Exit::Done } else { Exit::Failure })
}

fn explain_at_rest(dir: &Dir, text: &str) -> Result<Explanation, Fail> {
    let held = dir.hold_to_look()?;
    let resolved = kept_settings(dir)?;
    let settings = &resolved.settings;
    let canon = Canon::new(&settings.url);
    let url = canon.parse(text).map_err(Fail::failure)?;
    let mut stores = stores(&held)?;
    let now = Timestamp::from(std::time::SystemTime::now());
    let outputs = Outputs::at_rest(&held.dir, &held.mark)?;
    Ok(explain_in(&mut stores, &url, (&held.mark, settings, &outputs), now)?)
}

/// The stores, to look at. Opening one writes: what the last process left is mended first.
pub(super) fn stores(held: &HeldDir) -> Result<Vec<Box<dyn ShardStore>>, Fail> {
    wiring::stores(&held.dir, &held.mark).map_err(|error| {
        // The cause has come through the store's engine, so that only its words are left.
        let kinds = ["Permission denied", "Read-only file system"];
        if kinds.iter().any(|kind| error.cause.contains(kind)) {
            return held.dir.unwritable_to_look(error);
        }
        Fail::from(error)
    })
}

/// The settings of the crawl's last run.
pub(super) fn kept_settings(dir: &Dir) -> Result<Resolved, Fail> {
    let mut layers = Layers::default();
    if dir.settings().exists() {
        layers.add_file(&dir.settings())?;
    }
    Ok(layers.finish()?)
}

fn archive_bytes(dir: &Dir) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir.archive()) else { return 0 };
    let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok());
    sizes.map(|data| data.len()).sum()
}

pub(super) fn unexpected(answer: &Answer) -> Fail {
    match answer {
        Answer::Error(why) => Fail::failure(why),
        _ => Fail::failure("the crawl's answer is not to our question"),
    }
}
