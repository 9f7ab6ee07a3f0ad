//! The real binary, and a tiny web on real sockets for it.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use simweb::serve::{Ready, Running, ServeOptions, Source};
use simweb::{Entry, Fixture, Journal, World, WorldSpec};

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
        Self {
            code: output.status.code().expect("it ended by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\nstdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(self, what: &str) -> Self {
        assert!(self.err.contains(what), "{what:?} is not in stderr: {}", self.err);
        self
    }

    #[track_caller]
    pub fn prints(self, what: &str) -> Self {
        assert!(self.out.contains(what), "{what:?} is not in stdout: {}", self.out);
        self
    }
}

/// The binary, in a folder of its own and without settings from outside.
pub fn lycosa(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lycosa"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LYCOSA_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs it with these words.
pub fn run(folder: &Path, words: &[&str]) -> Ran {
    lycosa(folder).args(words).output().expect("it starts").into()
}

/// Runs it with an input.
pub fn feed(folder: &Path, words: &[&str], input: &str) -> Ran {
    let mut child = lycosa(folder)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("it has an input");
    std::thread::scope(|scope| {
        // Beside the reading: a filter that nobody listens to takes no more input.
        scope.spawn(move || stdin.write_all(input.as_bytes()).expect("it reads"));
        child.wait_with_output().expect("it ends").into()
    })
}

/// A web on real sockets, and a folder to work in.
pub struct Site {
    pub folder: tempfile::TempDir,
    pub ready: Ready,
    runtime: tokio::runtime::Runtime,
    running: Option<Running>,
}

impl Site {
    /// `PORT` in the text is where plain HTTP is served.
    pub fn fixture(text: &str) -> Self {
        // Free at this moment; nobody else on a test machine asks for this one in particular.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let fixture = Fixture::parse(&text.replace("PORT", &port.to_string()));
        Self::start(Source::Fixture(fixture.expect("the fixture is right")), port, false)
    }

    /// A web over TLS, in HTTP/2 or not.
    pub fn secret(text: &str, http2: bool) -> Self {
        let fixture = Fixture::parse(text).expect("the fixture is right");
        Self::start(Source::Fixture(fixture), 0, http2)
    }

    /// A world, on free ports.
    pub fn world(spec: &WorldSpec) -> Self {
        Self::start(Source::World(spec.clone()), 0, false)
    }

    /// Honest hosts among hostile ones.
    pub fn crowd(crowd: simweb::Crowd) -> Self {
        Self::start(Source::Crowd(crowd), 0, false)
    }

    /// The same world as it is served here, to ask for the truth.
    pub fn truth(&self, spec: &WorldSpec) -> World {
        let Ready { http, https, closed, .. } = self.ready;
        World::new(spec.clone().with_ports(http, https, closed))
    }

    fn start(source: Source, http_port: u16, http2: bool) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime starts");
        let options = ServeOptions {
            source,
            http_port,
            ca_dir: Some(folder.path().to_owned()),
            journal_in_memory: true,
            http2,
            ..ServeOptions::default()
        };
        let running = runtime.block_on(simweb::serve::start(options)).expect("it serves");
        Self { folder, ready: running.ready().clone(), runtime, running: Some(running) }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn dir(&self) -> PathBuf {
        self.path().join("crawl")
    }

    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.ready.http)
    }

    /// What every crawl of this web needs.
    pub fn flags(&self) -> Vec<String> {
        let ca = self.ready.ca.display();
        let flags = [
            "--allow-net".to_owned(),
            "127.0.0.0/8".to_owned(),
            "--dns".to_owned(),
            self.ready.dns.to_string(),
            "-s".to_owned(),
            format!("network.tls_ca={ca}"),
        ];
        flags.to_vec()
    }

    /// A crawl without pauses into `crawl`.
    pub fn crawl_command(&self, words: &[&str]) -> Command {
        let mut command = lycosa(self.path());
        command.args(["crawl", "-o", "crawl", "--delay", "0s", "--ip-delay", "0s"]);
        command.args(["-s", "crawl.patience=1s", "-s", "fetch.retry_delay=10ms"]);
        command.args(self.flags()).args(words);
        command
    }

    pub fn crawl(&self, words: &[&str]) -> Ran {
        self.crawl_command(words).output().expect("it starts").into()
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        run(self.path(), words)
    }

    /// What the server saw, in the order of arrival.
    pub fn journal(&self) -> Vec<Entry> {
        self.live_journal().entries()
    }

    /// Full TLS handshakes, and resumed ones.
    pub fn handshakes(&self) -> (u64, u64) {
        let handshakes = self.running.as_ref().expect("it runs").handshakes();
        (handshakes.full(), handshakes.resumed())
    }

    pub fn live_journal(&self) -> &Journal {
        self.running.as_ref().expect("it runs").journal()
    }

    pub fn report(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.dir().join("report.json")).expect("a report");
        serde_json::from_str(&text).expect("the report is JSON")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Whoever looks for the reason needs what is there.
            self.folder.disable_cleanup(true);
            println!("kept: {}", self.folder.path().display());
        }
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.stop()).expect("it stops");
        }
    }
}

/// Reads a child's stderr until a line has these words.
pub fn wait_for_line(child: &mut Child, words: &str) {
    let stderr = child.stderr.as_mut().expect("stderr is piped");
    let mut lines = BufReader::new(stderr).lines();
    let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(words));
    assert!(found, "it never said {words:?}");
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not happen in a minute");
        // Another process does it; there is nothing of ours to wait for.
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = Command::new("kill").args([format!("-{name}").as_str(), &pid]).status();
    assert!(status.expect("kill runs").success());
}

/// Times, ports and numbers that differ from run to run, by name.
pub fn filtered(text: &str, site: &Site) -> String {
    let text = text.replace(&site.ready.http.to_string(), "PORT");
    let words = text.split_inclusive([' ', '\n', ',', ')', '(']).map(|word| {
        let bare = word.trim_end_matches([' ', '\n', ',', ')', '(', ':']);
        let rest = &word[bare.len()..];
        match bare.starts_with("20") && bare.ends_with('Z') {
            true => format!("TIME{rest}"),
            false => word.to_owned(),
        }
    });
    words.collect()
}
