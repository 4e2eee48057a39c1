//! The HTTP client against servers that are scripts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_net::http_client::{
    ClientSettings, HttpClient, HttpError, HttpRequest, Reach, Server, TimeLimit,
};
use weir_settings::{Change, Setting};

const LIMIT: Setting = Setting::new("limit", "", Change::Reload);
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What a server does with the requests of one connection, in order; then it closes it.
type Script = Vec<&'static [u8]>;

/// Serves one connection after the other, and returns how many there were.
async fn serve(listener: TcpListener, connections: Vec<Script>) -> usize {
    let count = connections.len();
    for script in connections {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        for response in script {
            read_head(&mut stream).await;
            stream.write_all(response).await.expect("it is read");
        }
    }
    count
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut head).await.expect("a head") > 0, "a request ends");
    }
}

/// A client, and the server, which must be polled.
async fn client(
    connections: Vec<Script>,
    nearest: Reach,
) -> (HttpClient, impl Future<Output = usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url =
        format!("http://{}", listener.local_addr().expect("an address")).parse().expect("a URL");
    let limit = TimeLimit::new(Duration::from_millis(200), &LIMIT);
    let settings = ClientSettings { silence_timeout: Some(limit), ..ClientSettings::default() };
    let client = HttpClient::new(Server::Web { url, nearest }, Arc::new(settings));
    (client, serve(listener, connections))
}

fn request(is_repeatable: bool) -> HttpRequest {
    let request = HttpRequest::new(Method::POST, Uri::from_static("/"), Bytes::new());
    HttpRequest { is_repeatable, ..request }
}

async fn exchange(client: &HttpClient, is_repeatable: bool) -> Result<Vec<u8>, HttpError> {
    client.send(request(is_repeatable)).await?.read_to_end(10).await
}

#[tokio::test]
async fn only_repeatable_requests_are_sent_again_over_a_new_connection() {
    for (is_repeatable, connections) in [(true, 2), (false, 1)] {
        // The second request over a kept connection is read and gets no response.
        let scripts = [vec![OK, b""], vec![OK]];
        let (client, server) = client(scripts[..connections].to_vec(), Reach::Special).await;
        let requests = async {
            assert_eq!(exchange(&client, is_repeatable).await.unwrap(), b"ok");
            exchange(&client, is_repeatable).await
        };
        let (second, served) = tokio::join!(requests, server);
        assert_eq!(served, connections);
        match is_repeatable {
            true => assert_eq!(second.unwrap(), b"ok"),
            false => {
                assert!(
                    matches!(second, Err(HttpError::Closed { was_sent: true, .. })),
                    "{second:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn each_failure_has_a_kind() {
    async fn failed(response: &'static [u8], nearest: Reach) -> HttpError {
        let (client, server) = client(vec![vec![response]], nearest).await;
        tokio::select! {
            result = exchange(&client, true) => result.unwrap_err(),
            // The connection was closed: the client notices that next.
            _ = async { server.await; std::future::pending::<()>().await } => unreachable!(),
        }
    }
    let error = failed(OK, Reach::Private).await;
    assert!(matches!(error, HttpError::TooNear { reach: Reach::Loopback, .. }), "{error:?}");
    let error = failed(b"220 mail.example.org ESMTP\r\n\r\n", Reach::Special).await;
    assert!(matches!(error, HttpError::InvalidResponse(_)), "{error:?}");
    let error = failed(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", Reach::Special).await;
    assert!(matches!(error, HttpError::Closed { was_sent: true, .. }), "{error:?}");
    let error =
        failed(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n01234567890", Reach::Special).await;
    assert!(matches!(error, HttpError::TooLarge(10)), "{error:?}");
}

#[tokio::test]
async fn a_silent_or_unreachable_server_times_out() {
    let (client, server) = client(vec![vec![&b""[..]]], Reach::Special).await;
    // The server accepts nothing, because nobody polls it; the kernel does.
    let error = exchange(&client, true).await.unwrap_err();
    assert!(matches!(error, HttpError::Silent(setting) if setting.name == "limit"), "{error:?}");
    drop(server);
    let error = exchange(&client, true).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)), "{error:?}");
}
