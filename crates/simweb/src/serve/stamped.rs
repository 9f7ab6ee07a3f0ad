//! When did it really come?
//!
//! A server looks at the clock when it gets round to it. On a busy machine that is late, and then
//! the next request of a polite client looks early. So the moment is the kernel's: it stamps what
//! comes in, whoever is asleep. Elsewhere than on Linux the server's own look has to do.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A TCP stream that knows when the last bytes that were read came in.
pub(super) struct Stamped {
    tcp: TcpStream,
    came: Came,
}

/// When the last bytes of a connection came in; for whoever has given its stream away.
#[derive(Debug, Clone, Default)]
pub(super) struct Came(Arc<Mutex<Option<SystemTime>>>);

impl Came {
    /// Nothing where the kernel does not tell.
    pub(super) fn get(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: SystemTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }
}

/// Has the kernel stamp what comes over the connections of a listener.
pub(super) fn stamp(listener: &socket2::Socket) -> io::Result<()> {
    kernel::stamp(listener)
}

impl Stamped {
    /// Of a listener that was made to stamp.
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, came: Came::default() }
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// When the last of what was read so far came in; nothing where the kernel does not tell.
    pub(super) fn came(&self) -> Option<SystemTime> {
        self.came.get()
    }

    pub(super) fn came_later(&self) -> Came {
        self.came.clone()
    }
}

impl AsyncRead for Stamped {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.tcp.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            match self.tcp.try_io(Interest::READABLE, || kernel::receive(&self.tcp, room)) {
                Ok((read, came)) => {
                    buffer.advance(read);
                    if let Some(at) = came {
                        self.came.set(at);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io::{self, IoSliceMut};
    use std::os::fd::AsRawFd as _;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
    use nix::sys::time::TimeSpec;
    use tokio::net::TcpStream;

    pub(super) fn stamp(listener: &socket2::Socket) -> io::Result<()> {
        Ok(setsockopt(listener, sockopt::ReceiveTimestampns, &true)?)
    }

    pub(super) fn receive(
        tcp: &TcpStream,
        room: &mut [u8],
    ) -> io::Result<(usize, Option<SystemTime>)> {
        let mut room = [IoSliceMut::new(room)];
        let mut notes = nix::cmsg_space!(TimeSpec);
        let flags = MsgFlags::empty();
        let message = recvmsg::<()>(tcp.as_raw_fd(), &mut room, Some(&mut notes), flags)?;
        let came = message.cmsgs()?.find_map(|note| match note {
            ControlMessageOwned::ScmTimestampns(at) => Some(UNIX_EPOCH + Duration::from(at)),
            _ => None,
        });
        Ok((message.bytes, came))
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;
    use std::time::SystemTime;

    use tokio::net::TcpStream;

    pub(super) fn stamp(_: &socket2::Socket) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn receive(
        tcp: &TcpStream,
        room: &mut [u8],
    ) -> io::Result<(usize, Option<SystemTime>)> {
        use std::io::Read as _;
        Ok(((&*socket2::SockRef::from(tcp)).read(room)?, None))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn the_time_is_when_it_came_and_not_when_it_was_read() {
        let listener = crate::serve::socket::listen(0).unwrap();
        let address = (Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut server = Stamped::new(listener.accept().await.unwrap().0);
        // The kernel begins to stamp a moment after the first socket has asked for it.
        for _ in 0..100 {
            let before = SystemTime::now();
            client.write_all(b"GET").await.unwrap();
            let after = SystemTime::now();
            let asleep = Duration::from_millis(30);
            tokio::time::sleep(asleep).await;
            server.read_exact(&mut [0; 3]).await.unwrap();
            if let Some(came) = server.came() {
                assert!(SystemTime::now().duration_since(came).unwrap() >= asleep);
                assert!((before..=after).contains(&came), "{before:?} {came:?} {after:?}");
                return;
            }
        }
        panic!("no stamp in three seconds");
    }
}
