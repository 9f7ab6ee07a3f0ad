//! The frontier as a service, asked by clients in another language; see `tests/frontier.py`.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::common::{lycosa, run, signal, wait_until};
use crate::judge::python;
use crate::world::number;

/// Memory of a service that takes and gives out any number of URLs; what its store keeps at hand is
/// the most of it.
const STREAM_BYTES_MAX: u64 = 400 << 20;

/// A service that runs.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Where it speaks REST, if it was told to.
    pub(crate) rest: Option<String>,
}

impl Service {
    pub(crate) fn start(folder: &Path, words: &[&str]) -> Self {
        let mut command = lycosa(folder);
        command.args(["frontier", "queues", "--listen", "127.0.0.1:0", "--json"]).args(words);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let line = out.lines().next().expect("it says where it listens").expect("it is text");
        let said: Value = serde_json::from_str(&line).expect("it is JSON");
        let address = said["address"].as_str().expect("it has an address").to_owned();
        let rest = said["rest"].as_str().map(str::to_owned);
        Self { child, address, rest }
    }

    /// Runs a test of the script.
    fn ask(&self, test: &str) {
        self.ask_with::<&str>(test, &[]);
    }

    /// The same, with what else it needs.
    fn ask_with<W: AsRef<OsStr>>(&self, test: &str, words: &[W]) {
        let ran = self.script(test, words).output().expect("Python starts");
        assert!(ran.status.success(), "{test}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn script<W: AsRef<OsStr>>(&self, test: &str, words: &[W]) -> Command {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frontier.py");
        let mut command = Command::new(python());
        command.args([script, test, &self.address]).arg(repo("crates/wire/proto")).args(words);
        command
    }

    /// The most memory that it has had.
    fn memory_max_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).expect("it runs, on Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("a size");
        kib.trim().parse::<u64>().expect("a number") * 1024
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it has ended");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill(); // one that has ended needs no killing
        let _ = self.child.wait(); // likewise
    }
}

fn repo(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A certificate for this machine and its key, in a folder.
pub(crate) fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("there is room");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("there is room");
    (certificate, key)
}

/// A test of the script, with an empty service.
fn alone(test: &str) {
    let folder = tempfile::tempdir().expect("there is room");
    Service::start(folder.path(), &[]).ask(test);
}

macro_rules! asked_in_python {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            alone(stringify!($name));
        }
    )*};
}

asked_in_python! {
    point_01_a_blank_crawl_is_the_default_one
    point_02_a_key_is_taken_from_the_url
    point_02_without_a_key_or_with_a_long_one_it_is_skipped
    point_02_a_url_in_two_queues_is_two_urls
    point_03_discovered_twice_is_skipped
    point_04_known_replaces_the_schedule
    point_04_known_that_is_new_is_created
    ack_id_or_url
    point_03_a_batch_is_answered_in_order
    item_without_content_is_skipped
    point_05_order_is_date_then_url
    point_05_queues_take_turns
    point_05_a_rotation_ends
    point_06_a_queue_is_not_served_within_its_delay
    point_06_held_urls_cap_a_queue
    point_06_a_call_that_sends_nothing_does_not_use_up_the_window
    point_06_an_aborted_call_uses_up_the_window
    point_07_a_lease_runs_out
    point_07_a_lease_is_30_seconds_by_default
    point_01_a_key_without_its_crawl_gets_nothing
    point_01_any_crawl_spans_all
    answer_names_queue_crawl_and_metadata
    point_06_a_blocked_queue_waits
    point_06_a_queue_at_its_limit_waits
    limit_of_unknown_queue_fails
    inactive_serves_nothing_and_takes_all
    point_08_items_of_one_who_reads_no_answer_are_not_read
    point_08_batches_of_one_who_reads_no_answer_are_not_read
    point_09_one_node_names_itself
    stats_of_queue_and_crawl
    queues_are_paged
    status_of_urls
    creation_date_is_kept
    urls_are_listed_and_counted
    queue_is_deleted
    crawl_is_deleted
    old_urls_are_purged
    log_level_is_set
    oversized_message_is_refused
    long_url_is_skipped
    bad_utf8_is_refused
    slow_reader_does_not_stop_others
    reflection_describes_the_service
    health_is_told
    point_11_stormcrawler_asks_for_ten_urls_of_ten_queues
}

#[test]
fn point_10_delays_blocks_limits_leases_and_the_active_flag_outlive_a_kill() {
    let folder = tempfile::tempdir().expect("there is room");
    let service = Service::start(folder.path(), &[]);
    service.ask("before_a_kill");
    service.kill();
    Service::start(folder.path(), &[]).ask("after_a_kill");
}

#[test]
fn point_10_what_was_acknowledged_outlives_a_kill_in_mid_stream() {
    let folder = tempfile::tempdir().expect("there is room");
    let acked = folder.path().join("acked");
    let service = Service::start(folder.path(), &[]);
    let mut client = service.script("put_until_killed", &[&acked]);
    let mut client = client.stderr(Stdio::piped()).spawn().expect("Python starts");
    let lines = || std::fs::read_to_string(&acked).map_or(0, |text| text.lines().count());
    wait_until("enough to be lost", || lines() > 5_000);
    service.kill();
    assert!(client.wait().expect("it ends").success());
    let service = Service::start(folder.path(), &[]);
    service.ask_with("what_was_acknowledged_is_there", &[&acked]);
}

#[test]
fn point_12_what_is_dumped_as_lines_of_json_can_be_put_back() {
    let folder = tempfile::tempdir().expect("there is room");
    let lines = folder.path().join("dump.jsonl");
    let other = tempfile::tempdir().expect("there is room");
    Service::start(folder.path(), &[]).ask_with("dump_as_lines", &[&lines]);
    Service::start(other.path(), &[]).ask_with("lines_are_put_back", &[&lines]);
}

#[test]
fn a_long_stream_and_a_slow_reader_of_it_cost_bounded_memory() {
    let urls = number("LYCOSA_STREAM_URLS", 200_000).to_string();
    let folder = tempfile::tempdir().expect("there is room");
    let service = Service::start(folder.path(), &[]);
    for test in ["long_stream_flows", "slow_reader_gets_all"] {
        let begun = Instant::now();
        service.ask_with(test, &[&urls]);
        let memory = service.memory_max_bytes();
        println!("{test}: {urls} URLs, {:?}, {memory} bytes at most", begun.elapsed());
        assert!(memory < STREAM_BYTES_MAX, "{test}: {memory} bytes");
    }
}

#[test]
fn the_dashboards_counters_count_what_was_asked() {
    let folder = tempfile::tempdir().expect("there is room");
    let service = Service::start(folder.path(), &["--rest", "127.0.0.1:0"]);
    let rest = service.rest.as_deref().expect("it speaks REST");
    service.ask_with("metrics_count_what_was_asked", &[rest]);
}

#[test]
fn the_document_has_an_example_that_works() {
    let folder = tempfile::tempdir().expect("there is room");
    let service = Service::start(folder.path(), &[]);
    service.ask_with("the_documents_example_works", &[&repo("docs/frontier-service.md")]);
}

#[test]
fn with_tls_and_a_token_nobody_else_is_heard() {
    let folder = tempfile::tempdir().expect("there is room");
    let (certificate, key) = certificate(folder.path());
    let words = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "-s", "api.token=secret"];
    let service = Service::start(folder.path(), &words);
    service.ask_with("token_and_tls", &[&certificate]);
    drop(service);
    std::fs::write(&key, "no key").expect("there is room");
    let words = [&["frontier", "queues", "--listen", "127.0.0.1:0"], &words[..4]].concat();
    run(folder.path(), &words).exits(2).says("--tls-key");
}

#[test]
fn a_service_that_is_told_to_end_ends_in_good_order() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut service = Service::start(folder.path(), &[]);
    service.ask("point_03_discovered_twice_is_skipped");
    let other = run(folder.path(), &["frontier", "queues", "--listen", "127.0.0.1:0"]);
    other.exits(1).says("in use by");
    let taken = ["frontier", "more", "--listen", &service.address];
    run(folder.path(), &taken).exits(1).says("choose another address");
    signal(&service.child, "TERM");
    assert_eq!(service.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_caller_who_hangs_on_does_not_keep_the_service_from_ending() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut service = Service::start(folder.path(), &[]);
    let acked = folder.path().join("acked");
    let mut client = service.script("keep_a_stream_open", &[&acked]).spawn().expect("starts");
    wait_until("an item is acknowledged", || acked.exists());
    signal(&service.child, "TERM");
    assert_eq!(service.child.wait().expect("it ends").code(), Some(0));
    client.kill().expect("it is ended");
    client.wait().expect("it has ended");
    Service::start(folder.path(), &[]).ask("one_is_there");
}

#[test]
fn others_are_let_in_with_a_token_only() {
    let folder = tempfile::tempdir().expect("there is room");
    let words = ["frontier", "queues", "--listen", "0.0.0.0:0"];
    run(folder.path(), &words).exits(4).says("api.token");
}
