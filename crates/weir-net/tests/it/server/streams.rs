//! What a service does with the socket that it took over.

use std::future::poll_fn;
use std::io::{ErrorKind, Read};
use std::task::Poll;
use std::thread;

use rustls::{ClientConnection, StreamOwned};
use tokio::net::{TcpListener, TcpStream};
use weir_net::TlsFiles;
use weir_net::server::ConnectionStream;

use crate::tls;

type End = Box<dyn Read + Send>;

/// A socket in a server's hands and the client's end of it, with or without TLS.
async fn pair(with_tls: bool) -> (ConnectionStream, End) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let client = std::net::TcpStream::connect(address).expect("connects");
    let (server, _) = listener.accept().await.expect("accepted");
    if with_tls {
        secure(server, client).await
    } else {
        (ConnectionStream::Tcp(server.into()), Box::new(client))
    }
}

async fn secure(server: TcpStream, client: std::net::TcpStream) -> (ConnectionStream, End) {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = tls::identity();
    let files: TlsFiles = tls::write(folder.path(), &identity.cert_pem, &identity.key_pem);
    let acceptor =
        tls::load(files, weir_net::tls::AlpnProtocols::Nothing).expect("loaded").acceptor();
    let config = tls::client_config(identity.cert_der);
    let shaking = thread::spawn(move || {
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(config, name).expect("a session");
        let mut client = StreamOwned::new(session, client);
        client.conn.complete_io(&mut client.sock).expect("a handshake");
        client
    });
    let server = acceptor.accept(server).await.expect("a handshake");
    let client = shaking.join().expect("a client");
    (ConnectionStream::Tls(Box::new(server.into())), Box::new(client))
}

/// Writes until nothing more is taken; what counts as written.
fn fill(stream: &mut ConnectionStream) -> Vec<u8> {
    let mut written = Vec::new();
    loop {
        let piece: Vec<u8> = (0..=250).cycle().skip(written.len() % 251).take(10_000).collect();
        match stream.try_write(&piece) {
            Ok(count) => written.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads so many bytes on another thread.
fn read(mut client: End, count: usize) -> thread::JoinHandle<(Vec<u8>, End)> {
    thread::spawn(move || {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).expect("read");
        (bytes, client)
    })
}

#[tokio::test]
async fn written_bytes_arrive_once_and_in_order() {
    for with_tls in [false, true] {
        let (mut stream, client) = pair(with_tls).await;
        let written = fill(&mut stream);
        assert!(written.len() > 100_000, "{} bytes", written.len());
        assert_eq!(stream.needs_flush(), with_tls, "the last bytes wait in rustls");
        assert_eq!(stream.shutdown().is_err(), with_tls, "not before they are out");
        let reading = read(client, written.len());
        poll_fn(|context| stream.poll_flush(context)).await.expect("flushed");
        assert!(!stream.needs_flush());
        stream.shutdown().expect("shut down");
        let (arrived, mut client) = reading.join().expect("read");
        assert!(arrived == written, "the same bytes");
        assert_eq!(client.read(&mut [0]).expect("an orderly end"), 0);
    }
}

#[tokio::test]
async fn a_blocked_writer_is_woken_when_it_can_write() {
    for with_tls in [false, true] {
        let (mut stream, client) = pair(with_tls).await;
        let mut written = fill(&mut stream);
        let is_ready =
            poll_fn(|context| Poll::Ready(stream.poll_write_ready(context).is_ready())).await;
        assert!(!is_ready, "there is no room");
        let reading = read(client, written.len());
        let mut extra_listeners = 0;
        while extra_listeners == 0 {
            poll_fn(|context| stream.poll_write_ready(context)).await.expect("ready");
            assert!(!stream.needs_flush(), "what waits goes first");
            extra_listeners = stream.try_write(b"more").unwrap_or_default();
        }
        written.extend_from_slice(&b"more"[..extra_listeners]);
        poll_fn(|context| stream.poll_flush(context)).await.expect("flushed");
        let (arrived, client) = reading.join().expect("read");
        let (last, _client) = read(client, extra_listeners).join().expect("read");
        assert!([arrived, last].concat() == written);
    }
}

#[tokio::test]
async fn tls_buffers_at_most_one_write() {
    let (mut stream, _client) = pair(true).await;
    let huge = vec![0; 64 << 20];
    let mut accepted = 0;
    while let Ok(count) = stream.try_write(&huge) {
        assert!(count <= 64 << 10, "{count} bytes at once");
        accepted += count;
    }
    assert!(accepted < huge.len());
    assert!(stream.needs_flush());
    let error = stream.try_write(b"x").expect_err("still full");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_zero_linger_timeout_resets_the_connection() {
    let (stream, mut client) = pair(false).await;
    stream.set_linger_zero().expect("set");
    drop(stream);
    let error = client.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
