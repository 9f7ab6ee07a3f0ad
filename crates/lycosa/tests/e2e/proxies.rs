//! A crawl through proxies, one of which dies on the way.

use simweb::serve::proxy::ProxyServer;

use crate::common::Site;

#[test]
fn a_proxy_that_dies_costs_no_page() {
    let pages: String = (0..40)
        .map(|n| format!("--- h{n}.test/\n<a href=/x>x</a>\n--- h{n}.test/x\nx\n"))
        .collect();
    let site = Site::fixture(&pages);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let start = |last: u8| {
        let ip = [127, 0, 1, last].into();
        runtime.block_on(ProxyServer::start(ip, Some(("ann", "geheim")))).expect("it starts")
    };
    let (alive, dead) = (start(1), start(2));
    let url = |proxy: &ProxyServer| format!("http://ann:geheim@{}", proxy.address);
    let (by_alive, by_dead) = (url(&alive), url(&dead).replace("http", "socks5"));
    drop(dead);
    let seeds: Vec<String> = (0..40).map(|n| site.url(&format!("h{n}.test"), "/")).collect();
    let mut words: Vec<&str> = seeds.iter().map(String::as_str).collect();
    words.extend(["--proxy", &by_alive, "--proxy", &by_dead]);
    let ran = site.crawl(&words).exits(0);
    assert!(!ran.err.contains("geheim") && !ran.out.contains("geheim"), "{}", ran.err);

    let entries = site.journal();
    let pages = entries.iter().filter(|entry| !entry.is_robots() && entry.status == 200).count();
    assert_eq!(pages, 80, "every page of every host");
    assert!(alive.connected().len() >= 40, "a connection a host at least");
    let report = site.report();
    assert_eq!(report["totals"]["queued"], 0, "{report}");
    assert!(!report.to_string().contains("geheim"), "{report}");
    assert_eq!(report["failures"], serde_json::json!({}), "the dead one is nobody's fault");
}
