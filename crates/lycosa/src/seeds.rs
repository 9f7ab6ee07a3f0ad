//! Where does the crawl begin?
//!
//! Seeds come as arguments, from files (`-l`, one a line, `#` begins a comment) and from stdin,
//! which is read only when `-` asks for it. All of them must be URLs: a crawl that quietly left
//! one out would be a surprise at its end.

use std::collections::{BTreeSet, HashSet};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ports::{Resolution, Resolver};
use types::{Canon, CrawlUrl, HostKey, UrlId};

use crate::exit::Fail;
use crate::settings::Settings;

/// Reads all seeds, in order, without repeats. Empty only when none was named at all.
pub fn gather(
    arguments: &[String],
    lists: &[PathBuf],
    canon: &Canon,
) -> Result<Vec<CrawlUrl>, Fail> {
    let mut seeds = Seeds { canon, known: HashSet::new(), urls: Vec::new() };
    for text in arguments {
        if text == "-" {
            seeds.read("standard input", std::io::stdin().lock())?;
        } else {
            seeds.add(text, None)?;
        }
    }
    for path in lists {
        let shown = path.display().to_string();
        if path == Path::new("-") {
            seeds.read("standard input", std::io::stdin().lock())?;
            continue;
        }
        let file = std::fs::File::open(path)
            .map_err(|error| Fail::usage(format!("cannot read the list {shown}: {error}")))?;
        seeds.read(&shown, BufReader::new(file))?;
    }
    Ok(seeds.urls)
}

struct Seeds<'a> {
    canon: &'a Canon,
    known: HashSet<UrlId>,
    urls: Vec<CrawlUrl>,
}

impl Seeds<'_> {
    fn add(&mut self, text: &str, place: Option<String>) -> Result<(), Fail> {
        let url = self.canon.parse(text).map_err(|error| {
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            Fail::usage(format!("{place}{error}{}", hint(text)))
        })?;
        if self.known.insert(url.id()) {
            self.urls.push(url);
        }
        Ok(())
    }

    fn read(&mut self, name: &str, input: impl BufRead) -> Result<(), Fail> {
        let before = self.urls.len();
        let mut any = false;
        for (n, line) in input.lines().enumerate() {
            let line =
                line.map_err(|error| Fail::usage(format!("{name}, line {}: {error}", n + 1)))?;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            any = true;
            // A comment may follow the URL.
            let text = line.split_whitespace().next().unwrap_or(line);
            self.add(text, Some(format!("{name}, line {}", n + 1)))?;
        }
        if !any && self.urls.len() == before {
            return Err(Fail::usage(format!(
                "{name} names no URL; write one a line, such as https://example.org/"
            )));
        }
        Ok(())
    }
}

/// What else to write, where the message does not say it already.
fn hint(text: &str) -> &'static str {
    if text.contains("://") { "; write it as https://example.org/" } else { "" }
}

/// Hosts of seeds that are looked up before the crawl begins; the rest are met on the way.
const HOSTS_MAX: usize = 256;

/// What the seeds' hosts came to, looked up before anything else is done.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Some seed can be visited.
    pub some_reachable: bool,
    /// The others, each with its sentence.
    pub troubles: Vec<(HostKey, String)>,
    /// Some seed would be, if there were a contact.
    pub needs_contact: bool,
    /// Some lie where we do not go.
    forbidden: Option<IpAddr>,
}

pub async fn preflight(
    seeds: &[CrawlUrl],
    resolver: Arc<dyn Resolver>,
    settings: &Settings,
) -> Preflight {
    if nobody_may_be_visited(settings) {
        return Preflight { needs_contact: true, ..Preflight::default() };
    }
    let mut hosts = BTreeSet::new();
    let all = seeds.iter().all(|seed| {
        let room = hosts.len() < HOSTS_MAX;
        room.then(|| hosts.insert(seed.host_key()));
        room || hosts.contains(seed.host())
    });
    let mut lookups = tokio::task::JoinSet::new();
    for host in hosts {
        let resolver = Arc::clone(&resolver);
        lookups.spawn(async move {
            let resolution = resolver.resolve(&host).await;
            (host, resolution)
        });
    }
    // Those that were not looked up may be fine.
    let mut found = Preflight { some_reachable: !all, ..Preflight::default() };
    while let Some(looked) = lookups.join_next().await {
        let Ok((host, resolution)) = looked else { continue };
        match resolution {
            Resolution::Addresses { .. } => found.some_reachable = true,
            Resolution::Failed { why, .. } => {
                found.troubles.push((host.clone(), format!("cannot resolve {host}: {why}")));
            }
            Resolution::Forbidden { address, range, .. } => {
                if settings.identity.contact.is_none() && is_public(address) {
                    found.needs_contact = true;
                } else {
                    found.forbidden = Some(address);
                }
                let why = format!("{host} is at {address}, in {range}");
                found.troubles.push((host, why));
            }
        }
    }
    found.troubles.sort();
    found
}

/// Without a contact only opened addresses are visited, and none is opened: no seed can qualify,
/// whatever its name leads to. So no name server is asked either.
pub fn nobody_may_be_visited(settings: &Settings) -> bool {
    settings.identity.contact.is_none() && settings.network.allow.is_empty()
}

/// Whether only the missing contact keeps us from going there.
fn is_public(address: IpAddr) -> bool {
    let network = fetch::NetworkSettings::default();
    fetch::Guard::new(&network, true).check_address(address).is_ok()
}

/// What to add, for a crawl that nobody answers for.
pub fn contact_missing() -> Fail {
    Fail::usage(
        "who runs this crawl? Site owners must be able to reach you: add --contact me@example.org \
         (or https://example.org/bot), or set identity.contact; without it only addresses opened \
         by --allow-net are visited",
    )
}

impl Preflight {
    /// The sentence and exit code when no seed can be visited.
    pub fn verdict(&self) -> Result<(), Fail> {
        if self.some_reachable {
            return Ok(());
        }
        if self.needs_contact {
            return Err(contact_missing());
        }
        let what: Vec<&str> = self.troubles.iter().take(3).map(|(_, why)| why.as_str()).collect();
        let what = what.join("; ");
        if let Some(address) = self.forbidden {
            let net = if address.is_loopback() && address.is_ipv4() {
                "127.0.0.0/8".to_owned()
            } else {
                address.to_string()
            };
            return Err(Fail::failure(format!(
                "{what}: private addresses are not visited; open them with --allow-net {net} if \
                 they are yours"
            )));
        }
        Err(Fail::failure(format!(
            "{what}; check the spelling and your network, or name a DNS server with --dns IP:PORT"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let canon = Canon::default();
        let mut seeds = Seeds { canon: &canon, known: HashSet::new(), urls: Vec::new() };
        match seeds.read("list.txt", text.as_bytes()) {
            Ok(()) => Ok(seeds.urls.iter().map(ToString::to_string).collect()),
            Err(fail) => Err(fail.error.to_string()),
        }
    }

    #[test]
    fn a_list_has_comments_and_blank_lines_and_repeats_count_once() {
        let text = "# ours\n\nhttp://a.test/x # the first\n  http://b.test\nhttp://A.test/x\n";
        assert_eq!(read(text), Ok(vec!["http://a.test/x".into(), "http://b.test/".into()]));
    }

    #[test]
    fn an_empty_list_and_a_bad_line_are_told() {
        assert!(read("# nothing\n").unwrap_err().contains("names no URL"));
        let error = read("http://a.test/\nftp://b.test/\n").unwrap_err();
        assert!(error.starts_with("list.txt, line 2: ") && error.contains("http and https"));
        assert!(read("example.org").unwrap_err().contains("http://example.org"));
    }
}
