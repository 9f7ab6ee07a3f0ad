//! `lycosa tool simhash`: which prints does a text have?

use std::io;

use page::fingerprint::Prints;
use serde::{Deserialize, Serialize};

use super::{answered, parallel};

pub fn run() -> io::Result<()> {
    let prepare = |line: &[u8]| answered(line, prints);
    parallel::filter(io::stdin(), io::stdout().lock(), prepare, |text, out| out.write_all(&text))
}

#[derive(Deserialize)]
struct Ask {
    text: String,
}

#[derive(Serialize)]
struct Reply {
    simhash: String,
    /// Of the normalised text: NFKC, lower case, one space between words.
    text_sha256: String,
}

#[expect(clippy::unnecessary_wraps, reason = "tools may refuse an input; this one takes any text")]
fn prints(ask: &Ask) -> Result<Reply, String> {
    let Prints { digest, simhash, .. } = Prints::of(&ask.text);
    let text_sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Reply { simhash: simhash.to_string(), text_sha256 })
}
