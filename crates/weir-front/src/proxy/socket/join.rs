//! Joins two sockets: copies bytes in both directions.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::{Instant, sleep_until, timeout};

use super::frames::Frames;

/// For each direction. Small, because most of the many connections are idle.
const BUFFER_BYTES: usize = 4 << 10;
/// How long a client may take to confirm a close frame, and a worker to finish the frame before it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// A close frame with the status 1001 (RFC 6455, section 7.4.1): "going away".
const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];

/// The protocol between the two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    WebSocket,
    /// A protocol that the proxy cannot end in order.
    Other,
}

/// Copies between the sockets until both sides have ended, one has failed, or neither has sent
/// anything for `idle_timeout`. `early`: the bytes that the client has sent already. When `end`
/// resolves, a WebSocket is closed: the client gets a close frame behind the last whole frame, and
/// its confirmation goes to the worker.
pub(super) async fn run<C, W>(
    client: C,
    early: &[u8],
    worker: W,
    idle_timeout: Duration,
    (protocol, end): (Protocol, impl Future<Output = ()>),
) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    W: AsyncRead + AsyncWrite + Unpin,
{
    let last_read = Rc::new(Cell::new(Instant::now()));
    let client = Rc::new(RefCell::new(ClientSocket::new(client, Rc::clone(&last_read))));
    let mut shared = SharedClient(Rc::clone(&client));
    let mut worker = ReadTracker { socket: worker, last_read: Rc::clone(&last_read) };
    let mut copying = pin!(async {
        worker.write_all(early).await?;
        copy_bidirectional_with_sizes(&mut shared, &mut worker, BUFFER_BYTES, BUFFER_BYTES).await
    });
    tokio::select! {
        // `end` first: nothing more is copied once it has resolved.
        biased;
        () = end => {}
        copied = &mut copying => return copied.map(drop),
        () = silence(&last_read, idle_timeout) => return Ok(()),
    }
    if protocol == Protocol::Other {
        return Ok(());
    }
    client.borrow_mut().closing = Closing::AtFrameEnd;
    // Both in one task, so that each sees the other's changes at once.
    let closed = poll_fn(|context| {
        let copied = copying.as_mut().poll(context);
        match client.borrow_mut().poll_close(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => copied.map_ok(drop),
        }
    });
    // A client that does not confirm in time is disconnected.
    timeout(CLOSE_TIMEOUT, closed).await.unwrap_or(Ok(()))
}

/// Resolves when no bytes were read for `idle_timeout`.
async fn silence(last_read: &Cell<Instant>, idle_timeout: Duration) {
    let mut sleeping = pin!(sleep_until(last_read.get() + idle_timeout));
    loop {
        sleeping.as_mut().await;
        let until = last_read.get() + idle_timeout;
        if until <= Instant::now() {
            return;
        }
        sleeping.as_mut().reset(until);
    }
}

/// A socket that records when something was read.
struct ReadTracker<S> {
    socket: S,
    last_read: Rc<Cell<Instant>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadTracker<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, into);
        if read.is_ready() {
            self.last_read.set(Instant::now());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadTracker<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// The client's socket, which inserts the close frame between the worker's frames.
struct ClientSocket<S> {
    socket: ReadTracker<S>,
    /// The frames that the worker sends.
    frames: Frames,
    closing: Closing,
}

/// The state of closing a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Open,
    /// The current frame is to be finished first.
    AtFrameEnd,
    /// This many bytes of the close frame are written.
    Writing(usize),
    /// Nothing more is sent to the client.
    Written,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientSocket<S> {
    fn new(socket: S, last_read: Rc<Cell<Instant>>) -> Self {
        let socket = ReadTracker { socket, last_read };
        Self { socket, frames: Frames::default(), closing: Closing::Open }
    }

    /// Writes bytes of the worker.
    fn poll_frames(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let may_write = match self.closing {
            Closing::Open => bytes.len(),
            Closing::AtFrameEnd if !self.frames.is_between() => {
                self.frames.within_frame(bytes.len())
            }
            _ => 0,
        };
        if may_write == 0 {
            // Bytes behind the close frame are discarded.
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.socket).poll_write(context, &bytes[..may_write]);
        if let Poll::Ready(Ok(count)) = written {
            self.frames.process(&bytes[..count]);
        }
        written
    }

    /// Resolves once the close frame is written.
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing == Closing::AtFrameEnd && self.frames.is_between() {
            // The worker's own close frame was sent instead.
            let has_close = self.frames.has_close();
            self.closing = if has_close { Closing::Written } else { Closing::Writing(0) };
        }
        while let Closing::Writing(written) = self.closing {
            let rest = &GOING_AWAY[written..];
            if rest.is_empty() {
                self.closing = Closing::Written;
                break;
            }
            let count = std::task::ready!(Pin::new(&mut self.socket).poll_write(context, rest))?;
            self.closing = Closing::Writing(written + count);
        }
        match self.closing {
            Closing::Written => Pin::new(&mut self.socket).poll_flush(context),
            _ => Poll::Pending,
        }
    }
}

/// A handle to the client's socket, for copying and for closing.
struct SharedClient<S>(Rc<RefCell<ClientSocket<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SharedClient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().socket).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SharedClient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_frames(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn never() -> (Protocol, std::future::Pending<()>) {
        (Protocol::WebSocket, std::future::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn early_bytes_go_first_and_each_side_closes_separately() {
        let (client, mut browser) = duplex(64);
        let (worker, mut app) = duplex(64);
        let joined = run(client, b"early ", worker, PATIENCE, never());
        let talking = async {
            browser.write_all(b"late").await?;
            browser.shutdown().await?;
            let mut last_read = String::new();
            app.read_to_string(&mut last_read).await?;
            assert_eq!(last_read, "early late");
            app.write_all(b"answer").await?;
            app.shutdown().await?;
            let mut answer = String::new();
            browser.read_to_string(&mut answer).await?;
            assert_eq!(answer, "answer");
            io::Result::Ok(())
        };
        let (joined, talked) = tokio::join!(joined, talking);
        joined.and(talked).expect("both ends in order");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_closes_the_sockets_and_data_postpones_that() {
        let (client, mut browser) = duplex(64);
        let (worker, _app) = duplex(64);
        let began = Instant::now();
        let talking = async {
            tokio::time::sleep(PATIENCE / 2).await;
            browser.write_all(b"still here").await
        };
        let (joined, talked) = tokio::join!(run(client, b"", worker, PATIENCE, never()), talking);
        joined.and(talked).expect("no error");
        assert_eq!(began.elapsed(), PATIENCE * 3 / 2);
    }

    /// Two text frames, `ab` and `c`.
    const FRAMES: [u8; 7] = [0x81, 2, b'a', b'b', 0x81, 1, b'c'];
    /// The client's close frame.
    const CONFIRMED: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9];

    #[tokio::test(start_paused = true)]
    async fn a_websocket_is_closed_at_a_frame_boundary() {
        // Within a header, within a payload, and between two frames.
        for sent in [1, 3, 4] {
            let (client, mut browser) = duplex(64);
            let (worker, mut app) = duplex(64);
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let end_of_it = async { ended.await.expect("told") };
            let joined = run(client, b"", worker, PATIENCE, (Protocol::WebSocket, end_of_it));
            let talking = async {
                app.write_all(&FRAMES[..sent]).await?;
                let mut before = vec![0; sent];
                browser.read_exact(&mut before).await?;
                end.send(()).expect("it listens");
                tokio::task::yield_now().await;
                app.write_all(&FRAMES[sent..]).await?;
                let mut rest = vec![0; 4 - sent + GOING_AWAY.len()];
                browser.read_exact(&mut rest).await?;
                assert_eq!(rest, [&FRAMES[sent..4], &GOING_AWAY].concat(), "{sent}");
                browser.write_all(&CONFIRMED).await?;
                browser.shutdown().await?;
                let mut told = Vec::new();
                app.read_to_end(&mut told).await?;
                assert_eq!(told, CONFIRMED);
                app.shutdown().await?;
                let mut more = Vec::new();
                browser.read_to_end(&mut more).await?;
                assert_eq!(more, b"");
                io::Result::Ok(())
            };
            let (joined, talked) = tokio::join!(joined, talking);
            joined.and(talked).expect("both ends in order");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_confirm_the_close_is_disconnected() {
        for protocol in [Protocol::WebSocket, Protocol::Other] {
            let (client, mut browser) = duplex(64);
            let (worker, _app) = duplex(64);
            let began = Instant::now();
            run(client, b"", worker, PATIENCE, (protocol, async {})).await.expect("in order");
            let mut seen = Vec::new();
            browser.read_to_end(&mut seen).await.expect("the end");
            match protocol {
                Protocol::WebSocket => assert_eq!(seen, GOING_AWAY),
                Protocol::Other => assert_eq!(seen, b""),
            }
            assert!(began.elapsed() <= CLOSE_TIMEOUT);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_workers_own_close_frame_is_kept() {
        let (client, mut browser) = duplex(64);
        let (worker, mut app) = duplex(64);
        let normal = [0x88, 2, 0x03, 0xe8];
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let end_of_it = async { ended.await.expect("told") };
        let joined = run(client, b"", worker, PATIENCE, (Protocol::WebSocket, end_of_it));
        let talking = async {
            app.write_all(&normal).await?;
            let mut seen = vec![0; normal.len()];
            browser.read_exact(&mut seen).await?;
            end.send(()).expect("it listens");
            app.shutdown().await?;
            browser.read_to_end(&mut seen).await?;
            assert_eq!(seen, normal);
            browser.shutdown().await
        };
        let (joined, talked) = tokio::join!(joined, talking);
        joined.and(talked).expect("both ends in order");
    }
}
