//! How does another process ask a running crawl?
//!
//! Over `state/control.sock`, a Unix socket that only its owner may open: one JSON line in, one
//! out. `status`, `report`, `explain`, `dlq` and `backup` use it when the directory is in use.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::Live;
use super::survey::Survey;
use crate::backup::Saved;
use crate::dir::Dir;
use crate::dlq::{Deed, Filter, Page};
use crate::explain::Explanation;
use crate::status::Status;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    Status,
    /// How it stands, and a walk over its records.
    Survey,
    Explain {
        url: String,
    },
    /// The next dead letters of a shard.
    DeadLetters {
        filter: Filter,
        shard: u16,
        after: Option<Vec<u8>>,
    },
    /// Something is to be done with dead letters.
    Revise {
        deed: Deed,
        filter: Filter,
    },
    /// All of it is to be saved in a new folder.
    Backup {
        dest: PathBuf,
    },
}

impl Ask {
    /// How long its answer may take. A walk over all records takes as long as it takes, and so does
    /// a copy of them; only a few that change records are let wait, and one each of the others.
    fn patience(&self) -> Option<Duration> {
        let takes_long = matches!(self, Self::Survey | Self::Revise { .. } | Self::Backup { .. });
        (!takes_long).then_some(PATIENCE)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Status(Box<Status>),
    Survey(Box<(Status, Survey, u64)>),
    Explanation(Box<Explanation>),
    /// None when there is no such shard.
    DeadLetters(Option<Page>),
    Revised(u64),
    Saved(Saved),
    Error(String),
}

/// Longest line in either direction.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Longest wait for a question, and for an answer that only has to be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers until it is dropped; the socket's name goes with it.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Control {
    /// Begins to answer. Must be called by the holder of the directory.
    pub fn start(dir: &Dir, live: Arc<Live>) -> anyhow::Result<Self> {
        let path = dir.control();
        // What a dead process left; nobody else is here, since the directory is ours.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("remove the old control socket");
            }
            _ => {}
        }
        let folder = std::fs::File::open(dir.state()).context("open the state folder")?;
        let listener =
            UnixListener::bind(short(&path, &folder)).context("open the control socket")?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .context("close the control socket to others")?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let live = Arc::clone(&live);
                tokio::spawn(async move {
                    // A client that goes away in the middle needs no answer.
                    let _ = converse(stream, &live).await;
                });
            }
        });
        Ok(Self { path, task })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
        // The next run removes it, if we cannot.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The name of a socket has room for some 100 bytes; a longer one is reached through its folder.
fn short(path: &Path, folder: &std::fs::File) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    if path.as_os_str().len() < 100 {
        return path.to_owned();
    }
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
        .join(path.file_name().unwrap_or_default())
}

async fn converse(mut stream: tokio::net::UnixStream, live: &Live) -> std::io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    let mut question = tokio::io::BufReader::new(read).take(LINE_BYTES_MAX);
    tokio::time::timeout(PATIENCE, question.read_line(&mut line)).await??;
    let answer = match serde_json::from_str::<Ask>(&line) {
        Ok(ask) => match ask.patience() {
            Some(patience) => tokio::time::timeout(patience, answer(ask, live)).await?,
            None => answer(ask, live).await,
        },
        Err(error) => Answer::Error(format!("not a question: {error}")),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    tokio::time::timeout(PATIENCE, write.write_all(text.as_bytes())).await?
}

async fn answer(ask: Ask, live: &Live) -> Answer {
    let told = match ask {
        Ask::Status => Ok(Answer::Status(Box::new(live.status().await))),
        Ask::Survey => live.survey().await.map(|found| Answer::Survey(Box::new(found))),
        Ask::Explain { url } => {
            live.explain(&url).await.map(|told| Answer::Explanation(Box::new(told)))
        }
        Ask::DeadLetters { filter, shard, after } => {
            live.dead_letters(&filter, shard, after).await.map(Answer::DeadLetters)
        }
        Ask::Revise { deed, filter } => live.revise(deed, &filter).await.map(Answer::Revised),
        Ask::Backup { dest } => live.backup(dest).await.map(Answer::Saved),
    };
    told.unwrap_or_else(Answer::Error)
}

/// Asks the process that holds this directory.
pub fn ask(dir: &Dir, ask: &Ask) -> anyhow::Result<Answer> {
    let path = dir.control();
    let folder = std::fs::File::open(dir.state()).context("open the state folder")?;
    let mut stream = UnixStream::connect(short(&path, &folder))
        .with_context(|| format!("ask the crawl over {}, as its owner may", path.display()))?;
    stream.set_read_timeout(ask.patience())?;
    let mut text = serde_json::to_string(ask)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line)?;
    serde_json::from_str(&line).context("the crawl's answer is not one")
}
