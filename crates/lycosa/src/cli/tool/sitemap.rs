//! `lycosa tool sitemap`: what does a sitemap or feed list?

use std::io;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use page::{Sitemap, SitemapEntry, read_sitemap};
use serde::{Deserialize, Serialize};

use super::{answered, parallel};

pub fn run() -> io::Result<()> {
    let prepare = |line: &[u8]| answered(line, read);
    parallel::filter(io::stdin(), io::stdout().lock(), prepare, |text, out| out.write_all(&text))
}

#[derive(Deserialize)]
struct Ask {
    url: Option<String>,
    body_base64: String,
    content_type: Option<String>,
}

#[derive(Serialize)]
struct Reply {
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    urls: Vec<Entry>,
    errors: Vec<String>,
}

#[derive(Serialize)]
struct Entry {
    loc: String,
    lastmod: Option<String>,
    changefreq: Option<&'static str>,
    priority: Option<f64>,
}

/// With its padding or without, as others write it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn read(ask: &Ask) -> Result<Reply, String> {
    let body = BASE64.decode(&ask.body_base64).map_err(|error| format!("body_base64: {error}"))?;
    let url = ask.url.as_deref().unwrap_or_default();
    let Sitemap { kind, error, entries, errors } =
        read_sitemap(url, &body, ask.content_type.as_deref());
    let urls = entries.into_iter().map(|entry| {
        let SitemapEntry { loc, lastmod, changefreq, priority } = entry;
        Entry {
            loc: loc.into(),
            lastmod: lastmod.map(|date| date.text),
            changefreq: changefreq.map(|freq| freq.name()),
            priority,
        }
    });
    Ok(Reply { kind: kind.map(|kind| kind.name()), error, urls: urls.collect(), errors })
}
