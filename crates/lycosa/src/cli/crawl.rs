//! `lycosa crawl`, `lycosa resume` and `lycosa recrawl`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use types::{Canon, CrawlUrl};

use super::flags::{CrawlFlags, OutputFlags, SettingFlags, resolve};
use crate::crawl::{self, Plan};
use crate::dir::{Dir, Mark};
use crate::exit::{Exit, Fail, Outcome};
use crate::seeds;
use crate::settings::layers::{Layers, Origin, Resolved};
use crate::settings::{keys, render};
use crate::wiring;

#[derive(Debug, Args)]
pub struct CrawlArgs {
    /// Where to begin; `-` reads URLs from standard input
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// Read seeds from a file, one a line; `#` begins a comment
    #[arg(short = 'l', long, value_name = "FILE")]
    list: Vec<PathBuf>,
    /// Where the crawl is kept; a crawl that is there is resumed [default: ./crawl]
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    crawl: CrawlFlags,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    speak: OutputFlags,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The directory of a crawl
    dir: PathBuf,
    #[command(flatten)]
    crawl: CrawlFlags,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    speak: OutputFlags,
}

const DEFAULT_DIR: &str = "crawl";

pub fn run(args: &CrawlArgs) -> Outcome {
    let root = args.output.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
    let dir = Dir::new(root);
    if args.output.is_none() && dir.is_crawl() {
        let root = dir.root().display();
        return Err(Fail::usage(format!(
            "there is a crawl in ./{root} already; go on with it: lycosa resume {root}; or begin \
             another: add -o OTHER"
        )));
    }
    let resolved = settings(&dir, &args.settings, &args.crawl)?;
    let canon = Canon::new(&resolved.settings.url);
    let seeds = seeds::gather(&args.urls, &args.list, &canon)?;
    if seeds.is_empty() && !dir.is_crawl() {
        return Err(Fail::usage(
            "where shall the crawl begin? Name a URL: lycosa crawl https://example.org/ --contact \
             me@example.org",
        ));
    }
    go(dir, resolved, seeds, false, &args.crawl, args.speak)
}

pub fn resume(args: &ResumeArgs) -> Outcome {
    go_on(args, false)
}

pub fn recrawl(args: &ResumeArgs) -> Outcome {
    go_on(args, true)
}

fn go_on(args: &ResumeArgs, again: bool) -> Outcome {
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    let resolved = settings(&dir, &args.settings, &args.crawl)?;
    go(dir, resolved, Vec::new(), again, &args.crawl, args.speak)
}

/// The settings in force; those of an existing crawl lie below everything but the defaults.
fn settings(dir: &Dir, flags: &SettingFlags, crawl: &CrawlFlags) -> Result<Resolved, Fail> {
    let mark = if dir.is_crawl() { Some(dir.mark()?) } else { None };
    let kept = mark.as_ref().map(|_| dir.settings()).filter(|file| file.exists());
    let resolved = resolve(kept.as_deref(), flags, Some(crawl))?;
    if let Some(mark) = &mark {
        keeps_its_store(&resolved, mark, dir)?;
    }
    Ok(resolved)
}

/// A directory keeps its engine and its shards.
fn keeps_its_store(resolved: &Resolved, mark: &Mark, dir: &Dir) -> Result<(), Fail> {
    let store = &resolved.settings.store;
    let wanted = [
        ("store.engine", store.engine.as_str().to_owned(), mark.engine.clone()),
        ("store.shards", store.shards.to_string(), mark.shards.to_string()),
    ];
    for (key, wanted, has) in wanted {
        let origin = resolved.origin(key);
        if wanted != has && *origin != Origin::Default {
            return Err(Fail::settings(format!(
                "{key} ({origin}): {} was made with {has} and keeps it; leave the key out, or \
                 begin anew with -o OTHER",
                dir.root().display()
            )));
        }
    }
    Ok(())
}

fn go(
    dir: Dir,
    resolved: Resolved,
    seeds: Vec<CrawlUrl>,
    again: bool,
    flags: &CrawlFlags,
    output: OutputFlags,
) -> Outcome {
    if flags.dry_run {
        wiring::check(&resolved.settings)?;
        return dry_run(&dir, &resolved, &seeds, output.json);
    }
    let changes = changes(&dir, &resolved)?;
    let plan = Plan { dir, resolved, output, changes, again, stay: false };
    super::block_on(crawl::run(plan, seeds))
}

/// What differs from the settings of the last run.
fn changes(dir: &Dir, resolved: &Resolved) -> Result<Vec<String>, Fail> {
    let file = dir.settings();
    if !dir.is_crawl() || !file.exists() {
        return Ok(Vec::new());
    }
    let mut before = Layers::default();
    before.add_file(&file)?;
    let before = before.finish()?;
    let show = |name: &str, value: Option<&toml::Value>| {
        let shown = value.map(|value| render::shown_value(name, value));
        shown.map_or("none".to_owned(), |value| value.to_string())
    };
    let mut changes = Vec::new();
    for key in keys::tables().iter().filter(|t| t.name != "api").flat_map(|table| &table.keys) {
        let (old, new) = (before.value(&key.path), resolved.value(&key.path));
        if old != new {
            let origin = resolved.origin(&key.path);
            changes.push(format!(
                "{} = {} (was {}; {origin})",
                key.path,
                show(&key.name, new),
                show(&key.name, old)
            ));
        }
    }
    if before.settings.sheet != resolved.settings.sheet {
        changes.push(format!("the sheets ({})", resolved.origin(keys::SHEET)));
    }
    Ok(changes)
}

/// Says what would be done.
fn dry_run(dir: &Dir, resolved: &Resolved, seeds: &[CrawlUrl], json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    let settings = &resolved.settings;
    if json {
        let plan = serde_json::json!({
            "event": "dry-run",
            "directory": dir.root().display().to_string(),
            "resume": dir.is_crawl(),
            "seeds": seeds.iter().map(CrawlUrl::as_str).collect::<Vec<_>>(),
            "user_agent": settings.identity.header(),
            "settings": render::shown_values(resolved),
        });
        writeln!(out, "{plan}")?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    let scope = settings.crawl.scope.as_str();
    let does = if dir.is_crawl() { "resume" } else { "begin" };
    writeln!(out, "would {does} the crawl in {}", dir.root().display())?;
    for seed in seeds {
        writeln!(out, "seed {seed}")?;
    }
    writeln!(
        out,
        "scope {scope}, depth {}, as {}",
        settings.crawl.max_depth,
        settings.identity.header()
    )?;
    if settings.identity.contact.is_none() {
        writeln!(out, "no contact: only addresses opened by --allow-net would be visited")?;
    }
    writeln!(out, "\nsettings in force:")?;
    out.write_all(render::shown(resolved).as_bytes())?;
    out.flush()?;
    Ok(Exit::Done)
}
