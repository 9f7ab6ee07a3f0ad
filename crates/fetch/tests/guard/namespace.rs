//! The same with real sockets, in a network that has nothing but a loopback device on which every
//! address of the world lives. No packet can leave it.
//!
//! Needs the right to make a network namespace (root) and iproute2; elsewhere it says that it has
//! not looked, and the recorder alone stands for the claim.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lycosa_fetch::HttpFetcher;
use nix::sched::{CloneFlags, unshare};
use ports::Purpose;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::cases::{all, denied};
use crate::support::{fetch, options};

/// Runs `work` in a network of its own, which is gone afterwards; none where that is not allowed.
fn in_a_network_of_its_own<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let enter = || {
        unshare(CloneFlags::CLONE_NEWNET).ok()?;
        for words in [
            "link set lo up",
            "route add local default dev lo",
            "-6 route add local default dev lo",
        ] {
            let status = Command::new("ip").args(words.split(' ')).status().ok()?;
            status.success().then_some(())?;
        }
        Some(work())
    };
    // The namespace is the thread's: nobody else in this process is moved into it.
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// Takes every connection to the usual ports, and notes where it was meant to go.
async fn trap() -> Arc<Mutex<HashSet<IpAddr>>> {
    let caught = Arc::new(Mutex::new(HashSet::new()));
    for port in [80, 443] {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await.unwrap();
        let caught = Arc::clone(&caught);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let to = stream.local_addr().unwrap().ip().to_canonical();
                caught.lock().unwrap().insert(to);
                // Whoever it was may be gone.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            }
        });
    }
    caught
}

async fn visit_all(fetcher: &HttpFetcher) {
    for case in denied() {
        for (url, purpose) in
            [("http://trap.test/", Purpose::Page), ("http://trap.test/robots.txt", Purpose::Robots)]
        {
            let fetch = fetch(fetcher, url, case.address, purpose);
            // Some addresses cannot be connected by anybody; they are not waited for.
            let _ = tokio::time::timeout(Duration::from_secs(2), fetch).await;
        }
    }
}

#[test]
fn nothing_listens_in_vain_in_a_network_where_every_address_answers() {
    let looked = in_a_network_of_its_own(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let caught = trap().await;
            // Without a guard the trap catches us: it works, and those addresses can be reached.
            let open: Vec<String> = all().iter().map(ToString::to_string).collect();
            let open: Vec<&str> = open.iter().map(String::as_str).collect();
            visit_all(&HttpFetcher::new(&options(&open)).unwrap()).await;
            let reachable = std::mem::take(&mut *caught.lock().unwrap()).len();
            assert!(reachable >= 300, "only {reachable} addresses can be reached at all");

            let guarded = HttpFetcher::new(&options(&[])).unwrap();
            visit_all(&guarded).await;
            // One that is allowed, at the end, so that whatever came before it was caught too.
            fetch(&guarded, "http://a.test/", "8.8.8.8".parse().unwrap(), Purpose::Page).await;
            assert_eq!(*caught.lock().unwrap(), HashSet::from(["8.8.8.8".parse().unwrap()]));
            reachable
        })
    });
    match looked {
        Some(reachable) => eprintln!("{reachable} addresses could be reached, none was"),
        None => eprintln!("not looked: this needs root and iproute2"),
    }
}
