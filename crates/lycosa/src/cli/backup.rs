//! `lycosa backup`: of a crawl at rest, or by the process that crawls.

use std::path::PathBuf;

use clap::Args;

use super::look::{stores, unexpected};
use crate::backup::{Backup, Saved, check};
use crate::crawl::control::{self, Answer, Ask};
use crate::dir::Dir;
use crate::exit::{Exit, Fail, Outcome};
use crate::wiring::Outputs;

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The directory of a crawl, running or not
    dir: PathBuf,
    /// A new folder; files that are complete become links if it is on the same disk
    dest: PathBuf,
    /// Say what was saved as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &BackupArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    let saved = if dir.holder().is_some() {
        let dest = check(&dir, &args.dest)?;
        match control::ask(&dir, &Ask::Backup { dest })? {
            Answer::Saved(saved) => saved,
            other => return Err(unexpected(&other)),
        }
    } else {
        at_rest(&dir, &args.dest)?
    };
    if args.json {
        println!("{}", serde_json::to_string(&saved).map_err(anyhow::Error::from)?);
    } else {
        println!("{}", saved.text(dir.root()));
    }
    Ok(Exit::Done)
}

fn at_rest(dir: &Dir, dest: &std::path::Path) -> Result<Saved, Fail> {
    let held = dir.hold()?;
    let backup = Backup::begin(dir, dest)?;
    let mut stores = stores(&held)?;
    let outputs = backup.outputs(&Outputs::at_rest(dir, &held.mark)?);
    let begin =
        |(shard, store): (usize, &mut Box<dyn ports::ShardStore>)| store.copy(&backup.shard(shard));
    let copies = stores.iter_mut().enumerate().map(begin).collect();
    Ok(backup.finish(outputs, copies)?)
}
