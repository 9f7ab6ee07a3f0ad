//! A small proxy on loopback, to go through in tests: HTTP `CONNECT` and SOCKS5, with a password if
//! it is told one, and a list of whom it has connected.
//!
//! Always: it connects loopback addresses only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A proxy at work; ends when it is dropped.
#[derive(Debug)]
pub struct ProxyServer {
    pub address: SocketAddr,
    connected: Arc<Mutex<Vec<SocketAddr>>>,
    task: tokio::task::JoinHandle<()>,
}

impl ProxyServer {
    /// On a free port of this address. It finds out by the first byte which of the two it is to be.
    /// `password`: user and password that it wants to hear.
    pub async fn start(ip: IpAddr, password: Option<(&str, &str)>) -> io::Result<Self> {
        let listener = TcpListener::bind((ip, 0)).await?;
        let address = listener.local_addr()?;
        let connected = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&connected);
        let password = password.map(|(user, word)| (user.to_owned(), word.to_owned()));
        let task = tokio::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (book, password) = (Arc::clone(&book), password.clone());
                clients.spawn(async move {
                    // Whoever misbehaves is hung up on.
                    let _ = serve(client, password.as_ref(), &book).await;
                });
            }
        });
        Ok(Self { address, connected, task })
    }

    /// Whom it has connected, in order.
    pub fn connected(&self) -> Vec<SocketAddr> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Password = (String, String);

async fn serve(
    mut client: TcpStream,
    password: Option<&Password>,
    book: &Mutex<Vec<SocketAddr>>,
) -> io::Result<()> {
    let mut first = [0];
    client.peek(&mut first).await?;
    let (target, socks) = match first {
        [5] => (socks5(&mut client, password).await?, true),
        _ => (connect(&mut client, password).await?, false),
    };
    let target = target.filter(|target| target.ip().is_loopback());
    let server = match target {
        Some(target) => TcpStream::connect(target).await.ok(),
        None => None,
    };
    let Some((mut server, target)) = server.zip(target) else {
        let refusal: &[u8] =
            if socks { &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0] } else { b"HTTP/1.1 502 No\r\n\r\n" };
        return client.write_all(refusal).await;
    };
    book.lock().unwrap_or_else(PoisonError::into_inner).push(target);
    let welcome: &[u8] =
        if socks { &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0] } else { b"HTTP/1.1 200 Connected\r\n\r\n" };
    client.write_all(welcome).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

/// Whom the client wants to be connected with; none if it may not.
async fn connect(
    client: &mut TcpStream,
    password: Option<&Password>,
) -> io::Result<Option<SocketAddr>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    if let Some((user, word)) = password {
        use base64::Engine as _;
        let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{word}"));
        if !head.contains(&format!("Proxy-Authorization: Basic {wanted}\r\n")) {
            client.write_all(b"HTTP/1.1 407 Who?\r\n\r\n").await?;
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    Ok(target.and_then(|target| target.parse().ok()))
}

async fn socks5(
    client: &mut TcpStream,
    password: Option<&Password>,
) -> io::Result<Option<SocketAddr>> {
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let [_, count] = client.read_u16().await?.to_be_bytes();
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    let method = if password.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        client.write_all(&[5, 255]).await?;
        return Err(denied());
    }
    client.write_all(&[5, method]).await?;
    if let Some((user, word)) = password {
        client.read_u8().await?;
        let mut said = [const { Vec::new() }; 2];
        for text in &mut said {
            *text = vec![0; usize::from(client.read_u8().await?)];
            client.read_exact(text).await?;
        }
        let right = said == [user.as_bytes(), word.as_bytes()];
        client.write_all(&[1, u8::from(!right)]).await?;
        if !right {
            return Err(denied());
        }
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let ip: IpAddr = match request[3] {
        1 => Ipv4Addr::from(client.read_u32().await?).into(),
        4 => Ipv6Addr::from(client.read_u128().await?).into(),
        // A name: whoever comes here has looked it up.
        _ => return Ok(None),
    };
    Ok(Some(SocketAddr::new(ip, client.read_u16().await?)))
}
