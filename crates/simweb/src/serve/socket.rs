//! Which sockets does a web of ours take?

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::stamped;

/// Connections that wait to be accepted. What the kernel allows by default.
const BACKLOG: i32 = 4_096;

/// A listener for all of 127.0.0.0/8.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = bound(port)?;
    stamped::stamp(&socket)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// A port that is taken and on which nobody listens: connections are refused.
pub(super) fn reserve() -> io::Result<Socket> {
    bound(0)
}

pub(super) fn port_of(socket: &Socket) -> io::Result<u16> {
    let address = socket.local_addr()?.as_socket();
    address.map(|address| address.port()).ok_or_else(|| io::Error::other("not an internet socket"))
}

fn bound(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // Allowed without privileges since Linux 5.7. Where it is not, the check of each connection
    // (`is_local`) still keeps strangers out, so a failure here is no reason to stop.
    let _ = socket.bind_device(Some(b"lo"));
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    Ok(socket)
}

/// Both ends are on loopback.
pub(super) fn is_local(stream: &TcpStream) -> bool {
    let local = |address: io::Result<SocketAddr>| address.is_ok_and(|a| a.ip().is_loopback());
    local(stream.peer_addr()) && local(stream.local_addr())
}

/// Closing will tear the connection down (RST) instead of ending it.
pub(super) fn tear(stream: &TcpStream) {
    // If it cannot be set, the other side has torn it down already.
    let _ = SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
}
