//! The compact index, as Bundler 2.3 and its successors fetch it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest, Md5};
use sha2::Sha256;
use weir_gems::package::sample::Sample;

use super::{Answer, Index};

/// How a client checks its copy.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// Bundler 2.3 compares the MD5 of its file with the response's `ETag`.
    ByMd5,
    /// Bundler since 2.5 saves the `ETag` and checks the digest of the whole text.
    ByDigest,
}

/// A client's file, and the responses that it received.
struct Cached {
    client: Client,
    bytes: Vec<u8>,
    etag: String,
    statuses: Vec<u16>,
}

impl Cached {
    fn new(client: Client) -> Self {
        Self { client, bytes: Vec::new(), etag: String::new(), statuses: Vec::new() }
    }

    fn is_whole(&self, bytes: &[u8], answer: &Answer) -> bool {
        let sha256 = BASE64_STANDARD.encode(Sha256::digest(bytes));
        match self.client {
            Client::ByMd5 => answer.header("etag") == format!("\"{}\"", md5(bytes)),
            Client::ByDigest => {
                answer.header("repr-digest") == format!("sha-256=:{sha256}:")
                    && answer.header("digest") == format!("sha-256={sha256}")
            }
        }
    }

    /// Updates the file as `CompactIndexClient::Updater#update` does.
    async fn update(&mut self, index: &Index, path: &str) {
        if !self.bytes.is_empty() {
            let range = format!("bytes={}-", self.bytes.len() - 1);
            let headers = [("if-none-match", &*self.etag), ("range", &*range)];
            let answer = index.ask("GET", path, &headers, "").await;
            self.statuses.push(answer.status.as_u16());
            match answer.status.as_u16() {
                304 => return,
                206 => {
                    let grown = [&self.bytes[..], &answer.body[1..]].concat();
                    if self.is_whole(&grown, &answer) {
                        return self.keep(grown, &answer);
                    }
                }
                416 => {}
                200 if self.is_whole(&answer.body, &answer) => {
                    return self.keep(answer.body.to_vec(), &answer);
                }
                other => panic!("{other}: {}", answer.text()),
            }
        }
        let answer = index.get(path).await;
        self.statuses.push(answer.status.as_u16());
        assert!(self.is_whole(&answer.body, &answer), "a full answer is not what it says");
        self.keep(answer.body.to_vec(), &answer);
    }

    fn keep(&mut self, bytes: Vec<u8>, answer: &Answer) {
        self.etag = match self.client {
            Client::ByMd5 => format!("\"{}\"", md5(&bytes)),
            Client::ByDigest => answer.header("etag").to_owned(),
        };
        self.bytes = bytes;
    }
}

fn md5(bytes: &[u8]) -> String {
    hex::encode(Md5::digest(bytes))
}

async fn sample_index() -> Index {
    let index = Index::new().await;
    index.push_sample(&Sample::new("rack", "1.0")).await;
    index.push_sample(&Sample::new("shop", "1.0").with_dependency("rack", ">= 1, < 2")).await;
    index
}

#[tokio::test]
async fn clients_fetch_only_what_is_new() {
    for client in [Client::ByMd5, Client::ByDigest] {
        let index = sample_index().await;
        let (mut versions, mut info) = (Cached::new(client), Cached::new(client));
        versions.update(&index, "/versions").await;
        versions.update(&index, "/versions").await;
        info.update(&index, "/info/shop").await;
        index.push_sample(&Sample::new("shop", "1.1")).await;
        versions.update(&index, "/versions").await;
        info.update(&index, "/info/shop").await;
        assert!(index.yank("gem_name=shop&version=1.0").await.status.is_success());
        versions.update(&index, "/versions").await;
        info.update(&index, "/info/shop").await;
        index.gems.store().rebaseline(index.clock.now()).await.unwrap();
        versions.update(&index, "/versions").await;
        // Full, unchanged, two tails; then the text was rewritten and is shorter.
        assert_eq!(versions.statuses, [200, 304, 206, 206, 416, 200], "{client:?}");
        assert_eq!(versions.bytes, index.get("/versions").await.body, "{client:?}");
        // A yank makes the text shorter, too.
        assert_eq!(info.statuses, [200, 206, 416, 200], "{client:?}");
        assert_eq!(info.bytes, index.get("/info/shop").await.body, "{client:?}");
        assert!(info.bytes.starts_with(b"---\n1.1 |checksum:"));
    }
}

#[tokio::test]
async fn a_tail_that_does_not_fit_is_told_by_its_digests() {
    for client in [Client::ByMd5, Client::ByDigest] {
        let index = sample_index().await;
        let mut versions = Cached::new(client);
        versions.update(&index, "/versions").await;
        index.clock.advance(std::time::Duration::from_secs(1));
        index.gems.store().rebaseline(index.clock.now()).await.unwrap();
        index.push_sample(&Sample::new("shop", "1.1")).await;
        versions.update(&index, "/versions").await;
        assert_eq!(versions.statuses, [200, 206, 200], "{client:?}");
        assert_eq!(versions.bytes, index.get("/versions").await.body, "{client:?}");
    }
}

#[tokio::test]
async fn texts_are_as_the_facts_say() {
    let index = sample_index().await;
    let names = index.get("/names").await;
    assert_eq!(names.text(), "---\nrack\nshop\n");
    assert_eq!(names.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(names.header("accept-ranges"), "bytes");
    let info = index.get("/info/shop").await;
    assert!(info.text().starts_with("---\n1.0 rack:< 2&>= 1|checksum:"), "{}", info.text());
    let versions = index.get("/versions").await;
    let md5 = md5(&info.body);
    assert!(versions.text().ends_with(&format!("\nshop 1.0 {md5}\n")), "{}", versions.text());
    let unknown = index.get("/info/none").await;
    assert_eq!((unknown.status.as_u16(), unknown.header("etag")), (404, ""));
}

#[tokio::test]
async fn ranges_and_conditions() {
    let index = sample_index().await;
    let all = index.get("/names").await;
    let etag = all.header("etag").to_owned();
    let bare = etag.trim_matches('"').to_owned();
    let weak = format!("W/{etag}, \"x\"");
    for (headers, status, body, range) in [
        (vec![("range", "bytes=4-7")], 206, "rack", "bytes 4-7/14"),
        (vec![("range", "bytes=-5")], 206, "shop\n", "bytes 9-13/14"),
        (vec![("range", "bytes=14-")], 416, "", "bytes */14"),
        (vec![("range", "bytes=0-1,3-4")], 200, all.text(), ""),
        (vec![("range", "bytes=4-7"), ("if-range", &*etag)], 206, "rack", "bytes 4-7/14"),
        (vec![("range", "bytes=4-7"), ("if-range", "\"x\"")], 200, all.text(), ""),
        (vec![("if-none-match", &*etag)], 304, "", ""),
        (vec![("if-none-match", &*bare)], 304, "", ""),
        (vec![("if-none-match", &*weak)], 304, "", ""),
        (vec![("if-none-match", "*")], 304, "", ""),
        (vec![("if-none-match", "\"x\"")], 200, all.text(), ""),
        // Conditions take precedence over ranges.
        (vec![("if-none-match", &*etag), ("range", "bytes=4-7")], 304, "", ""),
    ] {
        let answer = index.ask("GET", "/names", &headers, "").await;
        assert_eq!((answer.status.as_u16(), answer.text()), (status, body), "{headers:?}");
        assert_eq!(answer.header("content-range"), range, "{headers:?}");
        // Whichever part is sent, the digests are of the whole text.
        assert_eq!(answer.header("etag"), etag, "{headers:?}");
        assert_eq!(answer.header("repr-digest"), all.header("repr-digest"), "{headers:?}");
    }
}

#[tokio::test]
async fn each_endpoint_has_a_switch_and_a_count() {
    let index = sample_index().await;
    for (switch, path, status) in [
        ("dependencies", "/api/v1/dependencies?gems=rack", 404),
        ("versions", "/versions", 404),
        ("info", "/info/rack", 404),
        ("names", "/names", 404),
        ("specs", "/specs.4.8.gz", 404),
        ("gemspec", "/quick/Marshal.4.8/rack-1.0.gemspec.rz", 404),
        ("file", "/gems/rack-1.0.gem", 503),
    ] {
        assert_eq!(index.get(path).await.status.as_u16(), 200, "{path}");
        index.turn_off(switch);
        let answer = index.get(path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert!(answer.text().contains("switched off"), "{path}");
        let metrics = index.metrics();
        for (status, count) in [("200", 1), (if status == 404 { "4xx" } else { "5xx" }, 1)] {
            let line = format!(
                "weir_gems_answers_total{{endpoint=\"{switch}\",status=\"{status}\"}} {count}\n"
            );
            assert!(metrics.contains(&line), "{line}");
        }
    }
    index.turn_off("push");
    assert_eq!(index.push(Sample::new("x", "1").build()).await.status.as_u16(), 503);
    index.turn_off("yank");
    assert_eq!(index.yank("gem_name=rack&version=1.0").await.status.as_u16(), 503);
}

#[tokio::test]
async fn methods_and_mounts() {
    let index = sample_index().await;
    for (method, path, allow) in [
        ("POST", "/versions", "GET, HEAD"),
        ("GET", "/api/v1/gems", "POST"),
        ("POST", "/api/v1/gems/yank", "DELETE"),
    ] {
        let answer = index.ask(method, path, &[], "").await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, allow), "{path}");
    }
    assert_eq!(index.ask("HEAD", "/versions", &[], "").await.status.as_u16(), 200);
    assert_eq!(index.get("/else").await.status.as_u16(), 404);
    index.change(|settings| settings.mount = "/gem-index".to_owned());
    assert!(index.gems.serves("/gem-index/versions") && !index.gems.serves("/versions"));
    assert_eq!(index.get("/gem-index/names").await.status.as_u16(), 200);
    assert_eq!(index.get("/names").await.status.as_u16(), 404);
}
