//! A fetcher and a resolver whose every step outside is written down.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hickory_proto::op::Message;
use hickory_proto::rr::{RData, Record};
use lycosa_fetch::{
    Dial, DnsResolver, DnsSettings, FetchSettings, FetcherOptions, Guard, HttpFetcher,
    NetworkSettings, Upstream,
};
use ports::{Clock, Ended, Fetcher, Purpose, Request};
use tokio::net::{TcpStream, UdpSocket};
use types::{ByteSize, CrawlUrl, Timestamp, Validators};

struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000_000)
    }
}

/// The last step below the guard, which goes nowhere and is written down.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<SocketAddr>>>);

impl Recorder {
    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.dialled().iter().map(SocketAddr::ip).collect()
    }
}

#[async_trait]
impl Dial for Recorder {
    async fn dial(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        self.0.lock().unwrap().push(to);
        Err(std::io::ErrorKind::ConnectionRefused.into())
    }
}

pub(crate) fn options(allow: &[&str]) -> FetcherOptions {
    let allow = allow.iter().map(|range| range.parse().unwrap()).collect();
    let network = NetworkSettings { allow, ..NetworkSettings::default() };
    FetcherOptions {
        guard: Arc::new(Guard::new(&network, true)),
        network,
        fetch: FetchSettings::default(),
        who: lycosa_fetch::Introduction { user_agent: "lycosa-test".to_owned(), from: None },
        sheets: types::ByHost::default(),
        proxies: None,
        spool: Arc::new(ports::MemorySpool),
        robots_bytes_max: ByteSize::kib(500),
        clock: Arc::new(StillClock),
    }
}

pub(crate) fn fetcher(recorder: &Recorder, allow: &[&str]) -> HttpFetcher {
    HttpFetcher::with_dial(&options(allow), Arc::new(recorder.clone())).unwrap()
}

pub(crate) async fn fetch(
    fetcher: &HttpFetcher,
    url: &str,
    address: IpAddr,
    purpose: Purpose,
) -> Ended {
    let url = CrawlUrl::parse(url).unwrap();
    let request = Request { url, address, purpose, validators: Validators::default() };
    fetcher.fetch(request, &mut |_| ()).await.end
}

/// A resolver for which `n7.test` has the address number 7.
pub(crate) async fn resolver(answers: Vec<IpAddr>) -> DnsResolver {
    resolver_of_sets(answers.into_iter().map(|address| vec![address]).collect()).await
}

pub(crate) async fn resolver_of_sets(answers: Vec<Vec<IpAddr>>) -> DnsResolver {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::from_vec(&buffer[..len]).unwrap();
            let question = query.queries[0].clone();
            let label = question.name().iter().next().unwrap().to_owned();
            let number: usize = std::str::from_utf8(&label[1..]).unwrap().parse().unwrap();
            let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
            for &address in &answers[number] {
                let data = RData::from(address);
                if data.record_type() == question.query_type() {
                    reply.add_answer(Record::from_rdata(question.name().clone(), 60, data));
                }
            }
            reply.add_query(question);
            socket.send_to(&reply.to_vec().unwrap(), from).await.unwrap();
        }
    });
    let settings = DnsSettings { upstreams: vec![Upstream(address)], ..DnsSettings::default() };
    let guard = Arc::new(Guard::new(&NetworkSettings::default(), true));
    DnsResolver::new(&settings, guard, Arc::new(StillClock)).unwrap()
}
