//! Answers that are too large for memory: they lie on the disk until they are archived.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Site, lycosa};

/// The largest that is stored by default has 64 MiB.
const LARGE_BYTES: usize = 60 << 20;
/// What a crawl may take for it: what is held of one answer (`fetch.held_bytes_max`), a window to the
/// disk, buffers of sockets and compression, and what the allocator makes of all that.
const MEMORY_BYTES_MAX: u64 = 32 << 20;

fn web(scheme: &str, words: &str) -> String {
    format!(
        "--- {scheme}a.test/
         <a href=/large.pdf>large</a> <a href=/small>small</a>
         --- {scheme}a.test/large.pdf type=application/pdf {words} filler={LARGE_BYTES}
         --- {scheme}a.test/small
         small"
    )
}

/// Most memory that a crawl of these words has taken, while it came to its end.
fn crawl(site: &Site, words: &[&str]) -> u64 {
    let mut command = site.crawl_command(words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let status_file = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = std::fs::read_to_string(&status_file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        most = most.max(kib.unwrap_or(0_u64) * 1024);
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            assert!(status.success(), "{status}");
            return most;
        }
        // Another process is at work; its memory is looked at now and then.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the server says to whoever asks it, head and all.
fn said(site: &Site, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", site.ready.http)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    answer
}

fn output(site: &Site, words: &[&str]) -> Vec<u8> {
    let ran = lycosa(site.path()).args(words).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

const ARCHIVE: &str = "crawl/archive/lycosa-00-00000.warc.gz";

#[test]
fn an_answer_of_sixty_megabytes_is_archived_to_the_byte_in_little_memory() {
    for words in ["", "chunked"] {
        let site = Site::fixture(&web("", words));
        let usual = crawl(&site, &[&site.url("a.test", "/"), "--depth", "0"]);
        std::fs::remove_dir_all(site.dir()).expect("it can be removed");
        let large = site.url("a.test", "/large.pdf");
        let most = crawl(&site, &[&large, "--depth", "0"]);
        println!(
            "{words}: {} KiB more than {} KiB",
            most.saturating_sub(usual) / 1024,
            usual / 1024
        );
        assert!(most < usual + MEMORY_BYTES_MAX, "{most} bytes, {usual} for a small page");

        let record = output(&site, &["warc", "get", ARCHIVE, &large]);
        let header = record.windows(4).position(|four| four == b"\r\n\r\n").expect("a header") + 4;
        let block = &record[header..];
        let served = said(&site, "/large.pdf");
        // The server names the connection's end to one and not to the other; bodies are equal.
        let body = |bytes: &[u8]| {
            let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            bytes[at..].to_vec()
        };
        assert!(body(block) == body(&served), "{} and {} bytes", block.len(), served.len());
        let payload = output(&site, &["warc", "get", "--payload", ARCHIVE, &large]);
        assert_eq!(payload.len(), LARGE_BYTES);
        // Digests of block and payload included.
        site.run(&["warc", "check", ARCHIVE]).exits(0).prints(": ok");
        let spool = site.dir().join("state/spool");
        assert_eq!(std::fs::read_dir(spool).expect("it is there").count(), 0);
    }
}

#[test]
fn the_same_over_http2() {
    let site = Site::secret(&web("https://", ""), true);
    let url = |path: &str| format!("https://a.test:{}{path}", site.ready.https);
    let usual = crawl(&site, &[&url("/"), "--depth", "0"]);
    std::fs::remove_dir_all(site.dir()).expect("it can be removed");
    let most = crawl(&site, &[&url("/"), "--depth", "1"]);
    println!("{} KiB more than {} KiB", most.saturating_sub(usual) / 1024, usual / 1024);
    assert!(most < usual + MEMORY_BYTES_MAX, "{most} bytes, {usual} for a small page");
    let payload = output(&site, &["warc", "get", "--payload", ARCHIVE, &url("/large.pdf")]);
    assert_eq!(payload.len(), LARGE_BYTES);
    site.run(&["warc", "check", ARCHIVE]).exits(0).prints(": ok");
}

#[test]
fn a_large_answer_that_has_not_changed_is_pointed_at() {
    let site = Site::fixture(&web("", ""));
    let large = site.url("a.test", "/large.pdf");
    site.crawl(&[&large, "--depth", "0"]).exits(0);
    let ran = lycosa(site.path()).args(["recrawl", "crawl"]).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let listed = String::from_utf8(output(&site, &["warc", "ls", ARCHIVE])).expect("it is text");
    let of = |kind: &str| {
        listed.lines().filter(|line| line.contains(kind) && line.contains("large.pdf")).count()
    };
    assert_eq!((of(" response "), of(" revisit ")), (1, 1), "{listed}");
    site.run(&["warc", "check", ARCHIVE]).exits(0).prints(": ok");
}
