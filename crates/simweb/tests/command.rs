//! The binary, as scripts use it: one line when it is ready, gone when standard input ends.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise should fail")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lycosa_simweb::Journal;
use lycosa_simweb::serve::Ready;

fn simweb(words: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simweb"));
    command.args(words.split_whitespace()).current_dir(folder);
    command
}

fn start(words: &str, folder: &Path) -> (Child, Ready) {
    let mut command = simweb(words, folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

fn get(ready: &Ready, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", ready.http)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_world_is_served_until_standard_input_ends() {
    let folder = tempfile::tempdir().unwrap();
    let words = "serve --seed 7 --hosts 5 --pages 50 --https 0 --tiny --journal j.jsonl --seeds 2";
    let (mut child, ready) = start(words, folder.path());
    assert_eq!(ready.seed_urls.len(), 2);
    let host = ready.seed_urls[0].split('/').nth(2).unwrap();
    assert!(get(&ready, host, "/").starts_with("HTTP/1.1 200 OK\r\n"));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let entries = Journal::read(&folder.path().join("j.jsonl")).unwrap();
    assert_eq!((entries.len(), &*entries[0].path, entries[0].status), (1, "/", 200));
    assert!(std::fs::read_to_string(&ready.ca).is_err(), "the path is relative to its folder");
    let pem = std::fs::read_to_string(folder.path().join(&ready.ca)).unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"));
}

#[test]
fn a_fixture_is_served_until_the_process_is_told_to_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("web.txt"),
        "--- a.test/\nhello\n--- b.test/ drip=1/1h\nvery slowly\n",
    )
    .unwrap();
    let (mut child, ready) = start("fixture web.txt --journal j.jsonl", folder.path());
    assert!(get(&ready, "a.test", "/").ends_with("hello\n"));
    // One answer is under way: its request must be in the journal all the same.
    let mut open = TcpStream::connect(("127.0.0.1", ready.http)).unwrap();
    open.write_all(b"GET / HTTP/1.1\r\nhost: b.test\r\n\r\n").unwrap();
    open.read_exact(&mut [0; 15]).unwrap();
    assert!(get(&ready, "a.test", "/again").starts_with("HTTP/1.1 404"));
    let told =
        Command::new("sh").arg("-c").arg(format!("kill -TERM {}", child.id())).status().unwrap();
    assert!(told.success());
    assert!(child.wait().unwrap().success());
    let entries = Journal::read(&folder.path().join("j.jsonl")).unwrap();
    let seen: Vec<_> = entries.iter().map(|e| (&*e.host, &*e.path, e.status, e.aborted)).collect();
    let want =
        [("a.test", "/", 200, false), ("b.test", "/", 0, true), ("a.test", "/again", 404, false)];
    assert_eq!(seen, want);
}

#[test]
fn the_oracle_is_printed_as_json_lines() {
    let folder = tempfile::tempdir().unwrap();
    let words = "oracle --hosts 3 --pages 20 --faults not-found=0.5 --robots-rules 0";
    let output = simweb(words, folder.path()).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["expect"] == "archived" && line["status"] == 404));
    assert!(lines.iter().all(|line| line["url"].as_str().unwrap().starts_with("http")));
}

#[test]
fn mistakes_end_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let error = |words: &str| {
        let output = simweb(words, folder.path()).output().unwrap();
        assert!(!output.status.success(), "{words}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error("serve --faults slwo").contains("`slwo` is no fault"));
    assert!(error("fixture nowhere.txt").contains("read nowhere.txt"));
    assert!(error("oracle --endless").contains("leave out --endless"));
}
