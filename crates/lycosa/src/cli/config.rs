//! `lycosa config`: what is set, what could be, and is this file right?

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Fail, Outcome};
use crate::settings::layers::Layers;
use crate::settings::render;
use crate::wiring;

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a complete file with all defaults, explained
    Default,
    /// Print every value in force and where it came from
    Show(ShowArgs),
    /// Tell whether a file is right
    Check { file: PathBuf },
    /// Print docs/configuration.md
    #[command(hide = true)]
    Docs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A crawl's directory, whose lycosa.toml counts
    dir: Option<PathBuf>,
    /// A settings file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key, such as politeness.delay=2s
    #[arg(short = 's', value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// JSON lines
    #[arg(long)]
    json: bool,
}

pub fn run(command: ConfigCommand) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    match command {
        ConfigCommand::Default => stdout.write_all(render::default_file().as_bytes())?,
        ConfigCommand::Docs => stdout.write_all(render::manual().as_bytes())?,
        ConfigCommand::Show(args) => stdout.write_all(show(&args)?.as_bytes())?,
        ConfigCommand::Check { file } => {
            let mut layers = Layers::default();
            layers.add_file(&file)?;
            wiring::check(&layers.finish()?.settings)?;
            writeln!(stdout, "{}: ok", file.display())?;
        }
    }
    stdout.flush()?;
    Ok(Exit::Done)
}

fn show(args: &ShowArgs) -> Result<String, Fail> {
    let mut layers = Layers::default();
    if let Some(dir) = &args.dir {
        let file = dir.join("lycosa.toml");
        if !file.exists() {
            return Err(Fail::failure(format!(
                "{} is no crawl directory: it has no lycosa.toml; leave it out to see the defaults",
                dir.display()
            )));
        }
        layers.add_file(&file)?;
    }
    if let Some(file) = &args.config {
        layers.add_file(file)?;
    }
    layers.add_environment(std::env::vars())?;
    for pair in &args.set {
        layers.add_pair(pair)?;
    }
    let resolved = layers.finish()?;
    wiring::check(&resolved.settings)?;
    Ok(if args.json { render::shown_json(&resolved) } else { render::shown(&resolved) })
}
