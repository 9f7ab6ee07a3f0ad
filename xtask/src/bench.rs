//! Chores whose names are settled and whose work is not built yet: `bench` and `kills`.

use anyhow::{Result, bail};

use crate::args::{Args, usage};

pub fn run(mut args: Args) -> Result<()> {
    let which = args.word();
    args.end()?;
    match which.as_deref() {
        Some(name @ ("crawl" | "polite")) => bail!("`bench {name}` is not built yet"),
        Some(other) => Err(usage(format!("there is no bench `{other}`; try crawl or polite"))),
        None => Err(usage("which bench? crawl or polite")),
    }
}

pub fn kills(args: Args) -> Result<()> {
    args.end()?;
    bail!("`kills` is not built yet")
}
