//! Who tells where the hosts of our web live?
//!
//! A name server for the web's names and no others, over UDP and TCP on one port. There are no
//! IPv6 addresses. An answer that is too large for a datagram comes back truncated over UDP and
//! whole over TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::web::{Dns, Web};

/// How long "there is no such name" may be remembered, in seconds.
const NEGATIVE_TTL: u32 = 60;
/// Times to look for a port that is free for UDP and TCP alike.
const PORT_TRIES: u32 = 100;
/// What a client may take for a question over TCP.
const TCP_IDLE: Duration = Duration::from_secs(10);
/// Questions under way over TCP; more wait.
const TCP_CONNECTIONS_MAX: usize = 1_000;

#[derive(Debug)]
pub(super) struct NameServer {
    udp: UdpSocket,
    tcp: TcpListener,
}

pub(super) async fn bind(port: u16) -> io::Result<NameServer> {
    let mut tries = 0;
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await?;
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => return Ok(NameServer { udp, tcp }),
            // Somebody has this number for TCP; a free port has others.
            Err(_) if port == 0 && tries < PORT_TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

impl NameServer {
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    pub(super) async fn run(self, web: Arc<dyn Web>, mut stopped: watch::Receiver<bool>) {
        let mut datagram = [0; 4_096];
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                _ = stopped.changed() => break,
                received = self.udp.recv_from(&mut datagram) => {
                    if let Ok((length, from)) = received
                        && let Some(reply) = reply(&*web, &datagram[..length], Over::Udp)
                    {
                        // A lost datagram is asked for again.
                        let _ = self.udp.send_to(&reply, from).await;
                    }
                }
                accepted = self.tcp.accept(), if connections.len() < TCP_CONNECTIONS_MAX => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(over_tcp(stream, Arc::clone(&web)));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        connections.shutdown().await;
    }
}

async fn over_tcp(mut stream: TcpStream, web: Arc<dyn Web>) {
    let talk = async {
        loop {
            let length = stream.read_u16().await?;
            let mut question = vec![0; usize::from(length)];
            stream.read_exact(&mut question).await?;
            let Some(answer) = reply(&*web, &question, Over::Tcp) else {
                return io::Result::Ok(());
            };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes(), answer.as_slice()].concat()).await?;
        }
    };
    // A client that is slow or gone ends the connection, and nothing else.
    let _ = tokio::time::timeout(TCP_IDLE, talk).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Udp,
    Tcp,
}

/// The answer to a question; none where the web is silent or the question is none.
fn reply(web: &dyn Web, question: &[u8], over: Over) -> Option<Vec<u8>> {
    let question = Message::from_vec(question).ok()?;
    if question.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata = Metadata::response_from_request(&question.metadata);
    answer.metadata.authoritative = true;
    answer.metadata.recursion_available = true;
    answer.edns.clone_from(&question.edns);
    let Some(query) =
        question.queries.first().filter(|_| question.metadata.op_code == OpCode::Query)
    else {
        answer.metadata.response_code = ResponseCode::NotImp;
        return answer.to_vec().ok();
    };
    answer.add_query(query.clone());
    fill(&mut answer, web, query, over)?;
    answer.to_vec().ok()
}

fn fill(answer: &mut Message, web: &dyn Web, query: &Query, over: Over) -> Option<()> {
    let host = query.name().to_lowercase().to_ascii();
    match web.resolve(host.trim_end_matches('.')) {
        Dns::Addresses { large: true, .. } if over == Over::Udp => {
            answer.metadata.truncation = true;
        }
        Dns::Addresses { addresses, ttl, alias, .. } => {
            let ttl = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
            let mut name = query.name().clone();
            if let Some(alias) = alias {
                let alias = Name::from_ascii(format!("{alias}.")).ok()?;
                let rdata = RData::CNAME(CNAME(alias.clone()));
                answer.add_answer(Record::from_rdata(name, ttl, rdata));
                name = alias;
            }
            let before = answer.answers.len();
            for address in addresses {
                if let (RecordType::A, IpAddr::V4(v4)) = (query.query_type(), address) {
                    let record = Record::from_rdata(name.clone(), ttl, RData::A(A(v4)));
                    answer.add_answer(record);
                }
            }
            if answer.answers.len() == before {
                answer.add_authority(authority()?);
            }
        }
        Dns::NoSuchName => {
            answer.metadata.response_code = ResponseCode::NXDomain;
            answer.add_authority(authority()?);
        }
        Dns::ServerFailure => answer.metadata.response_code = ResponseCode::ServFail,
        Dns::Silence => return None,
    }
    Some(())
}

/// Who says so, and for how long.
fn authority() -> Option<Record> {
    let zone = Name::from_ascii("test.").ok()?;
    let server = Name::from_ascii("ns.test.").ok()?;
    let soa = SOA::new(server.clone(), server, 1, 3_600, 600, 86_400, NEGATIVE_TTL);
    Some(Record::from_rdata(zone, NEGATIVE_TTL, RData::SOA(soa)))
}
