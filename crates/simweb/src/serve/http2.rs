//! How does one connection go in HTTP/2?
//!
//! As in HTTP/1.1, with what this protocol has for it: a server that closes says so beforehand
//! (GOAWAY), one that breaks off resets the stream, one that ends too early has promised a longer
//! body. Requests of one connection are answered side by side, though a polite client never has
//! more than one.
//!
//! Not here: what is answered (`web`).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use ports::Clock;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use types::Timestamp;

use super::Server;
use super::head::{KNOWN, without_port};
use super::http::{IDLE_MAX, MUTE_MAX, lower};
use super::stamped::Stamped;
use crate::journal::{Arrival, End, Pending};
use crate::web::{Ask, Fate, Framing, Plan};
use crate::wire;

/// Requests of one connection under way; more wait.
const STREAMS_MAX: u32 = 100;
/// Fields that speak of a connection have no place in HTTP/2.
const OF_CONNECTIONS: [&str; 3] = ["connection", "keep-alive", "transfer-encoding"];

/// Where a request came in.
struct Port {
    server: Arc<Server>,
    address: IpAddr,
    port: u16,
    id: u64,
}

pub(super) async fn serve(
    stream: TlsStream<Stamped>,
    server: Arc<Server>,
    address: IpAddr,
    port: u16,
    id: u64,
) -> io::Result<()> {
    let came = stream.get_ref().0.came_later();
    let port = Arc::new(Port { server, address, port, id });
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(STREAMS_MAX);
    let mut connection = builder.handshake(stream).await.map_err(io::Error::other)?;
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(closes) = answers.join_next() => {
                if closes.unwrap_or(true) {
                    connection.graceful_shutdown();
                }
            }
            next = timeout(IDLE_MAX, connection.accept()) => {
                let Ok(Some(next)) = next else { return Ok(()) };
                let (request, respond) = next.map_err(io::Error::other)?;
                let arrived = port.server.clock.at(came.get());
                let (head, _) = request.into_parts();
                answers.spawn(answer(Arc::clone(&port), head, respond, arrived));
            }
        }
    }
}

/// Answers one request; whether the connection is to be closed then.
async fn answer(
    port: Arc<Port>,
    head: http::request::Parts,
    mut respond: SendResponse<Bytes>,
    arrived: Timestamp,
) -> bool {
    let headers: Vec<(&str, &str)> = KNOWN
        .iter()
        .filter_map(|name| Some((*name, head.headers.get(*name)?.to_str().ok()?)))
        .collect();
    let authority = head.uri.authority().map_or("", |authority| authority.as_str());
    let host = lower(without_port(authority));
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let user_agent = headers.iter().find(|(name, _)| *name == "user-agent");
    let pending = port.server.journal.begin(&Arrival {
        at: arrived,
        host: &host,
        address: port.address,
        port: port.port,
        tls: true,
        path: target,
        user_agent: user_agent.map_or("", |(_, value)| value),
        connection: port.id,
    });
    let plan = match head.method.as_str() {
        "GET" | "HEAD" => port.server.web.answer(&Ask {
            host: &host,
            port: port.port,
            tls: true,
            target,
            headers: &headers,
            nth: pending.nth(),
            at: arrived,
        }),
        _ => Plan::brief(405),
    };
    sleep(plan.delay).await;
    if plan.fate == Fate::Mute {
        sleep(MUTE_MAX).await;
        return true;
    }
    let nothing = matches!(plan.fate, Fate::Cut(None) | Fate::Reset(None));
    if nothing || plan.framing == Framing::Raw {
        respond.send_reset(Reason::INTERNAL_ERROR);
        return plan.ends_connection();
    }
    let bodiless = head.method == "HEAD" || plan.is_bodiless();
    play(&port, &plan, bodiless, respond, pending).await;
    plan.close
}

/// Makes the plan come true.
async fn play(
    port: &Port,
    plan: &Plan,
    bodiless: bool,
    mut respond: SendResponse<Bytes>,
    pending: Pending,
) {
    let most = match plan.fate {
        Fate::Cut(Some(bytes)) | Fate::Reset(Some(bytes)) => bytes,
        _ => u64::MAX,
    };
    let ends = bodiless || plan.body.is_empty();
    let mut wrote = port.server.clock.now();
    let sent = match respond.send_response(response(plan, bodiless), ends) {
        Err(_) => Err(0),
        Ok(_) if ends => Ok(0),
        Ok(mut stream) => send(port, &mut stream, plan, most, &mut wrote).await,
    };
    pending.finish(&End {
        at: if sent.is_ok() { wrote } else { port.server.clock.now() },
        status: plan.status,
        head_bytes: wire::head(plan).len() as u64,
        body_bytes: sent.unwrap_or_else(|sent| sent),
        aborted: sent.is_err() || plan.fate != Fate::Whole,
    });
}

/// The body, as fast as the client reads, or drop by drop. How much of it went out, or had when
/// the client left.
async fn send(
    port: &Port,
    stream: &mut SendStream<Bytes>,
    plan: &Plan,
    most: u64,
    wrote: &mut Timestamp,
) -> Result<u64, u64> {
    let drop_bytes = plan.drip.map_or(usize::MAX, |drip| drip.bytes.max(1) as usize);
    let every = plan.drip.map_or(Duration::ZERO, |drip| drip.every);
    // Frames take the place of chunks.
    let plain = Plan { framing: Framing::Length, ..plan.clone() };
    let mut left_over = BytesMut::new();
    let mut pieces = wire::pieces(&plain).peekable();
    let mut sent = 0_u64;
    loop {
        if left_over.is_empty() {
            left_over.extend(pieces.next());
        }
        while left_over.len() < drop_bytes && plan.drip.is_some() && pieces.peek().is_some() {
            left_over.extend(pieces.next());
        }
        let room = usize::try_from(most - sent).unwrap_or(usize::MAX);
        let next = left_over.split_to(left_over.len().min(drop_bytes).min(room)).freeze();
        let over = (left_over.is_empty() && pieces.peek().is_none()) || next.len() == room;
        if sent > 0 {
            sleep(every).await;
        }
        // An end that comes too early shows by the length that was promised, if one was.
        let broken = match plan.fate {
            Fate::Reset(_) => true,
            Fate::Cut(_) => plan.framing != Framing::Length,
            Fate::Whole | Fate::Mute => false,
        };
        if over && broken {
            stream.send_reset(Reason::INTERNAL_ERROR);
            return Ok(sent);
        }
        let bytes = next.len() as u64;
        push(port, stream, next, over, wrote).await.map_err(|()| sent)?;
        sent += bytes;
        if over {
            return Ok(sent);
        }
    }
}

/// Sends bytes as the client's window opens.
async fn push(
    port: &Port,
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    last: bool,
    wrote: &mut Timestamp,
) -> Result<(), ()> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let room = capacity.ok_or(())?.map_err(|_| ())?;
        let part = bytes.split_to(room.min(bytes.len()));
        *wrote = port.server.clock.now();
        stream.send_data(part, last && bytes.is_empty()).map_err(|_| ())?;
    }
    Ok(())
}

fn response(plan: &Plan, bodiless: bool) -> Response<()> {
    let mut fields = HeaderMap::new();
    for (name, value) in &plan.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value))
            && !OF_CONNECTIONS.contains(&name.as_str())
        {
            fields.append(name, value);
        }
    }
    if plan.framing == Framing::Length && !bodiless {
        fields.insert("content-length", HeaderValue::from(plan.body.len()));
    }
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(plan.status).unwrap_or_default();
    *response.headers_mut() = fields;
    response
}
