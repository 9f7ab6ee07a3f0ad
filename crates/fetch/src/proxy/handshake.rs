//! How is a proxy asked to connect a server?
//!
//! By address, never by name. Where the answer blames the server, it is not the proxy's fault.

use std::io;
use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::sheet::BasicAuth;

/// Largest answer of a proxy to `CONNECT`.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Why a proxy did not connect us.
pub(crate) enum Unconnected {
    /// It is gone, or does not want us.
    Proxy(String),
    /// It cannot reach the server.
    Server(String),
}

impl From<io::Error> for Unconnected {
    fn from(error: io::Error) -> Self {
        Self::Proxy(error.to_string())
    }
}

fn refused(why: &str) -> Unconnected {
    Unconnected::Proxy(why.to_owned())
}

/// By HTTP.
pub(super) async fn connect(
    stream: &mut TcpStream,
    to: SocketAddr,
    auth: Option<&BasicAuth>,
) -> Result<(), Unconnected> {
    let auth = auth.map_or(String::new(), |auth| {
        let coded = STANDARD.encode(String::from(auth.clone()));
        format!("Proxy-Authorization: Basic {coded}\r\n")
    });
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{auth}\r\n");
    stream.write_all(request.as_bytes()).await?;
    // Byte by byte: what follows the head is the server's.
    let mut head = Vec::with_capacity(128);
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Err(refused("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split_whitespace().nth(1));
    match status {
        Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
        Some(status @ ("502" | "503" | "504")) => {
            Err(Unconnected::Server(format!("the proxy answered {status}")))
        }
        Some(status) => Err(Unconnected::Proxy(format!("it answered {status}"))),
        None => Err(refused("it does not speak HTTP")),
    }
}

/// By RFC 1928, and RFC 1929 where it asks for a password.
pub(super) async fn socks5(
    stream: &mut TcpStream,
    to: SocketAddr,
    auth: Option<&BasicAuth>,
) -> Result<(), Unconnected> {
    const VERSION: u8 = 5;
    const PLAIN: u8 = 0;
    const PASSWORD: u8 = 2;
    let methods: &[u8] =
        if auth.is_some() { &[VERSION, 2, PLAIN, PASSWORD] } else { &[VERSION, 1, PLAIN] };
    stream.write_all(methods).await?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice).await?;
    match (choice, auth) {
        ([VERSION, PLAIN], _) => {}
        ([VERSION, PASSWORD], Some(auth)) => {
            let (user, password) = (auth.user().as_bytes(), auth.password().as_bytes());
            let length = |text: &[u8]| {
                u8::try_from(text.len()).map_err(|_| refused("its password is too long"))
            };
            let mut message = vec![1, length(user)?];
            message.extend_from_slice(user);
            message.push(length(password)?);
            message.extend_from_slice(password);
            stream.write_all(&message).await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(refused("it does not take our password"));
            }
        }
        ([VERSION, _], None) => return Err(refused("it wants a password")),
        _ => return Err(refused("it does not speak SOCKS5")),
    }
    let mut message = vec![VERSION, 1, 0];
    match to.ip() {
        IpAddr::V4(ip) => {
            message.push(1);
            message.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            message.push(4);
            message.extend_from_slice(&ip.octets());
        }
    }
    message.extend_from_slice(&to.port().to_be_bytes());
    stream.write_all(&message).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    match answer[1] {
        0 => {}
        // Network or host unreachable, refused, too far.
        code @ 3..=6 => {
            return Err(Unconnected::Server(format!("the proxy cannot reach it (code {code})")));
        }
        code => return Err(Unconnected::Proxy(format!("it refused (code {code})"))),
    }
    let bound = match answer[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(refused("it does not speak SOCKS5")),
    };
    let mut rest = vec![0; bound + 2];
    stream.read_exact(&mut rest).await?;
    Ok(())
}
