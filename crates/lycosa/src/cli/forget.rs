//! `lycosa forget`: of a crawl at rest.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use types::{Canon, Timestamp};

use super::look::kept_settings;
use crate::dir::Dir;
use crate::exit::{Exit, Fail, Outcome};
use crate::forget::{self, target::Target};

#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// The directory of a crawl that does not run
    dir: PathBuf,
    /// A URL, a host (example.org), hosts (*.example.org) or URLs (http://example.org/private/*);
    /// without it, an erasure that was interrupted is finished
    #[arg(value_name = "URL|HOST|GLOB")]
    what: Option<String>,
    /// Only say how much would go
    #[arg(long)]
    dry_run: bool,
    /// Why; `lycosa explain` tells it to whoever asks for the URL again
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    reason: String,
    /// JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ForgetArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    let resolved = kept_settings(&dir)?;
    let told = if args.dry_run {
        let Some(what) = &args.what else {
            return Err(Fail::usage("what would be forgotten? Name a URL, a host or a pattern"));
        };
        let canon = Canon::new(&resolved.settings.url);
        let target = Target::parse(what, &canon).map_err(Fail::usage)?;
        forget::look(&dir, &resolved, &target)?
    } else {
        let now = Timestamp::from(std::time::SystemTime::now());
        forget::forget(&dir, &resolved, args.what.as_deref(), &args.reason, now)?
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &told)?;
        writeln!(out)?;
    } else {
        out.write_all(told.text().as_bytes())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}
