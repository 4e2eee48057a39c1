//! Two sockets as one: what comes in here goes out there.

use std::cell::Cell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::{Instant, sleep_until};

/// Of each direction. Small, for there are many of them and most are idle.
const BUFFER_BYTES: usize = 4 << 10;

/// Until both sides have ended, one has failed, or neither has sent anything for `patience`.
/// `early`: what the client has sent already.
pub(super) async fn run<C, W>(
    client: C,
    early: &[u8],
    worker: W,
    patience: Duration,
) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    W: AsyncRead + AsyncWrite + Unpin,
{
    let heard = Rc::new(Cell::new(Instant::now()));
    let mut client = Noting { socket: client, heard: Rc::clone(&heard) };
    let mut worker = Noting { socket: worker, heard: Rc::clone(&heard) };
    let copying = async {
        worker.write_all(early).await?;
        copy_bidirectional_with_sizes(&mut client, &mut worker, BUFFER_BYTES, BUFFER_BYTES).await
    };
    tokio::select! {
        copied = copying => copied.map(drop),
        () = silence(&heard, patience) => Ok(()),
    }
}

/// Resolves when nothing was heard for `patience`.
async fn silence(heard: &Cell<Instant>, patience: Duration) {
    let mut sleeping = pin!(sleep_until(heard.get() + patience));
    loop {
        sleeping.as_mut().await;
        let until = heard.get() + patience;
        if until <= Instant::now() {
            return;
        }
        sleeping.as_mut().reset(until);
    }
}

/// Notes when something was read.
struct Noting<S> {
    socket: S,
    heard: Rc<Cell<Instant>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, into);
        if read.is_ready() {
            self.heard.set(Instant::now());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noting<S> {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn what_came_early_goes_first_and_each_end_ends_for_itself() {
        let (client, mut browser) = duplex(64);
        let (worker, mut app) = duplex(64);
        let joined = run(client, b"early ", worker, PATIENCE);
        let talking = async {
            browser.write_all(b"late").await?;
            browser.shutdown().await?;
            let mut heard = String::new();
            app.read_to_string(&mut heard).await?;
            assert_eq!(heard, "early late");
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
    async fn silence_ends_it_and_a_word_puts_that_off() {
        let (client, mut browser) = duplex(64);
        let (worker, _app) = duplex(64);
        let began = Instant::now();
        let talking = async {
            tokio::time::sleep(PATIENCE / 2).await;
            browser.write_all(b"still here").await
        };
        let (joined, talked) = tokio::join!(run(client, b"", worker, PATIENCE), talking);
        joined.and(talked).expect("no error");
        assert_eq!(began.elapsed(), PATIENCE * 3 / 2);
    }
}
