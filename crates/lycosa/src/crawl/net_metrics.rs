//! How goes it with names, connections and copies, as Prometheus reads it?
//!
//! The resolver, the fetcher and the store of prints keep counts of their own, without a registry; here
//! they are written down when somebody asks.

use std::fmt::Write as _;

use fetch::{DnsStats, FetchStats, LATENCY_BOUNDS_MS};
use local::DuplicateCounts;

const END: &str = "# EOF\n";

/// Adds them to an exposition, before its end.
pub fn add(text: &mut String, dns: &DnsStats, fetch: &FetchStats, texts: &DuplicateCounts) {
    let ends = text.ends_with(END);
    if ends {
        text.truncate(text.len() - END.len());
    }
    histogram(text, dns);
    for (name, kind, value, help) in [
        ("dns_hits", "counter", dns.hits, "Look-ups answered from memory"),
        ("dns_failures", "counter", dns.failed, "Queries that brought no address"),
        ("dns_entries", "gauge", dns.entries as u64, "Names in memory"),
        ("dns_sick_servers", "gauge", dns.sick as u64, "Name servers that do not answer"),
        ("connections_opened", "counter", fetch.opened, "Connections opened"),
        ("connections_reused", "counter", fetch.reused, "Visits over a connection that was open"),
        ("connections_stale", "counter", fetch.stale, "Open connections found closed when needed"),
        ("connections_waiting", "gauge", fetch.waiting as u64, "Open connections that wait"),
        ("fetch_held_bytes", "gauge", fetch.held_bytes as u64, "Bytes of answers in flight"),
        ("text_pages", "gauge", texts.pages, "Pages with a text"),
        ("text_copies", "gauge", texts.copies(), "Pages that are copies of another"),
        ("texts_judged", "counter", texts.judged, "Texts compared with all others"),
        ("texts_exact", "counter", texts.exact, "Texts that were there before"),
        ("texts_near", "counter", texts.near, "Texts that nearly were"),
    ] {
        let ending = if kind == "counter" { "_total" } else { "" };
        let _ = write!(
            text,
            "# HELP lycosa_{name} {help}.\n# TYPE lycosa_{name} {kind}\nlycosa_{name}{ending} {value}\n"
        );
    }
    if ends {
        text.push_str(END);
    }
}

fn histogram(text: &mut String, dns: &DnsStats) {
    text.push_str("# HELP lycosa_dns_seconds Time of a query to name servers.\n");
    text.push_str("# TYPE lycosa_dns_seconds histogram\n");
    let _ = writeln!(text, "lycosa_dns_seconds_sum {}", dns.latency_sum.as_secs_f64());
    let _ = writeln!(text, "lycosa_dns_seconds_count {}", dns.latency.iter().sum::<u64>());
    let mut so_far = 0;
    let bounds = LATENCY_BOUNDS_MS.iter().map(|ms| (*ms as f64 / 1_000.0).to_string());
    for (count, bound) in dns.latency.iter().zip(bounds.chain(["+Inf".to_owned()])) {
        so_far += count;
        let _ = writeln!(text, "lycosa_dns_seconds_bucket{{le=\"{bound}\"}} {so_far}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn buckets_add_up_and_the_end_stays_the_end() {
        let mut dns = DnsStats {
            hits: 7,
            queries: 3,
            failed: 1,
            entries: 2,
            sick: 0,
            latency: [0; LATENCY_BOUNDS_MS.len() + 1],
            latency_sum: Duration::from_millis(1_500),
        };
        (dns.latency[0], dns.latency[1], dns.latency[12]) = (1, 1, 1);
        let mut text = "lycosa_x 1\n# EOF\n".to_owned();
        let texts = DuplicateCounts { pages: 9, originals: 7, exact: 2, ..Default::default() };
        add(&mut text, &dns, &FetchStats { opened: 5, ..FetchStats::default() }, &texts);
        for line in [
            "lycosa_dns_seconds_bucket{le=\"0.001\"} 1\n",
            "lycosa_dns_seconds_bucket{le=\"0.002\"} 2\n",
            "lycosa_dns_seconds_bucket{le=\"+Inf\"} 3\n",
            "lycosa_dns_seconds_sum 1.5\n",
            "lycosa_dns_hits_total 7\n",
            "lycosa_connections_opened_total 5\n",
            "lycosa_text_copies 2\n",
            "lycosa_texts_exact_total 2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(text.ends_with(END) && text.matches(END).count() == 1);
    }
}
