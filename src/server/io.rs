//! The socket of a client connection: it replays what was read to find out the HTTP version, gives
//! up on a client that takes nothing, tells when everything has left, and closes so that the last
//! answer arrives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::server::life::Life;

/// Time for which a client whose connection closes may send nothing, and the whole time that it may
/// go on sending.
const LINGER_IDLE: Duration = Duration::from_secs(2);
const LINGER: Duration = Duration::from_secs(10);
/// Bytes that are read at once in order to be thrown away.
const SCRAP_BYTES: usize = 4 << 10;

/// The socket of a client connection.
#[derive(Debug)]
pub(super) struct ClientIo {
    stream: TcpStream,
    /// Bytes that were read before, and how many of them were replayed.
    opening: Vec<u8>,
    replayed: usize,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    write_timeout: Duration,
    /// Whether the client has said that it sends nothing more.
    has_ended: bool,
    lingering: Option<Lingering>,
    life: Arc<Life>,
}

/// A connection on which nothing more is sent, while its client may still be sending.
#[derive(Debug)]
struct Lingering {
    end: Instant,
    idle: Pin<Box<Sleep>>,
}

impl ClientIo {
    /// A socket of which `opening` was read before. A client that takes nothing for `write_timeout`
    /// is given up.
    pub(super) fn new(
        stream: TcpStream,
        opening: Vec<u8>,
        write_timeout: Duration,
        life: Arc<Life>,
    ) -> Self {
        ClientIo {
            stream,
            opening,
            replayed: 0,
            stalled: None,
            write_timeout,
            has_ended: false,
            lingering: None,
            life,
        }
    }

    /// Throws away what the client sends until it ends, or for as long as it may go on. A socket
    /// that is closed with unread bytes is reset, and the reset overtakes the answer.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let lingering = self.lingering.get_or_insert_with(|| Lingering {
            end: now + LINGER,
            idle: Box::pin(tokio::time::sleep(LINGER_IDLE)),
        });
        let mut scrap = [0; SCRAP_BYTES];
        let mut scrap = ReadBuf::new(&mut scrap);
        loop {
            scrap.clear();
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut scrap);
            let has_read = matches!(read, Poll::Ready(Ok(()))) && !scrap.filled().is_empty();
            match read {
                Poll::Ready(_) if !has_read || Instant::now() >= lingering.end => break,
                Poll::Ready(_) => {
                    let next = Instant::now() + LINGER_IDLE;
                    lingering.idle.as_mut().reset(next.min(lingering.end));
                }
                Poll::Pending => return lingering.idle.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }

    /// The result of a write, or an error when there was none for too long.
    fn within_deadline<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.write_timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let rest = this.opening.get(this.replayed..).unwrap_or_default();
        if rest.is_empty() {
            let before = buf.filled().len();
            let read = Pin::new(&mut this.stream).poll_read(cx, buf);
            this.has_ended |= read.is_ready() && buf.filled().len() == before;
            return read;
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        this.replayed += count;
        if this.replayed == this.opening.len() {
            this.opening = Vec::new();
            this.replayed = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within_deadline(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.within_deadline(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        let flushed = ready!(self.within_deadline(flushed, cx));
        self.life.flushed();
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
            let closed = ready!(self.within_deadline(closed, cx));
            if closed.is_err() || self.has_ended || !self.life.may_be_sending() {
                return Poll::Ready(closed);
            }
        }
        self.linger(cx).map(Ok)
    }
}
