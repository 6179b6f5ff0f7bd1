//! Runs the streams of HTTP/2 connections, and ends those whose client takes nothing: HTTP/2 holds
//! such a stream back without ever asking for its body again, so that the body cannot tell.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::Instant;

tokio::task_local! {
    /// When this stream was last given something to send; `None` while it waits for more.
    static GIVEN: Cell<Option<Instant>>;
}

/// The stream was given something: it is the client's turn.
pub(super) fn given() {
    // Outside of HTTP/2 the socket itself tells.
    let _ = GIVEN.try_with(|given| given.set(Some(Instant::now())));
}

/// The stream waits for more: it is not the client's turn.
pub(super) fn waits() {
    let _ = GIVEN.try_with(|given| given.set(None));
}

/// Runs streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    /// Time in which a client must take something.
    pub write_timeout: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let running = until_stalled(stream, self.write_timeout);
        tokio::spawn(GIVEN.scope(Cell::new(None), running));
    }
}

/// Runs a stream until it ends or stalls. What is dropped before its end is reset.
async fn until_stalled<F: Future<Output = ()>>(stream: F, timeout: Duration) {
    let mut stream = pin!(stream);
    let mut look = pin!(tokio::time::sleep(timeout));
    loop {
        tokio::select! {
            biased;
            () = stream.as_mut() => return,
            () = look.as_mut() => {
                let given = GIVEN.with(Cell::get);
                let now = Instant::now();
                match given.map(|given| given + timeout) {
                    Some(end) if end <= now => return,
                    Some(end) => look.as_mut().reset(end),
                    None => look.as_mut().reset(now + timeout),
                }
            }
        }
    }
}
