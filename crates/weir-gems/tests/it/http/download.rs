//! Downloads of `.gem` files.

use std::fs;

use sha2::{Digest, Sha256};
use weir_gems::package::sample::Sample;

use super::Index;

/// Returns a gem that has several chunks.
fn large() -> Sample {
    let mut random = fastrand::Rng::with_seed(3);
    let noise = std::iter::repeat_with(|| random.u8(..)).take(400_000).collect();
    let sample = Sample::new("large", "1.0");
    Sample { files: vec![("lib/noise".to_owned(), noise)], ..sample }
}

#[tokio::test]
async fn a_file_is_what_was_pushed() {
    let index = Index::new().await;
    let bytes = large().build();
    assert!(index.push(bytes.clone()).await.status.is_success());
    let answer = index.get("/gems/large-1.0.gem").await;
    assert!(answer.body == bytes);
    let sha256 = hex::encode(Sha256::digest(&bytes));
    assert_eq!(answer.header("etag"), format!("\"{sha256}\""));
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    let part = [("range", "bytes=100000-399999")];
    let answer = index.ask("GET", "/gems/large-1.0.gem", &part, "").await;
    assert_eq!(answer.status.as_u16(), 206);
    assert!(answer.body == bytes[100_000..400_000]);
    let same = [("if-none-match", &*format!("\"{sha256}\""))];
    let answer = index.ask("GET", "/gems/large-1.0.gem", &same, "").await;
    assert_eq!(answer.status.as_u16(), 304);
    let behind = [("range", "bytes=9999999-")];
    let answer = index.ask("GET", "/gems/large-1.0.gem", &behind, "").await;
    assert_eq!(answer.status.as_u16(), 416);
}

/// RubyGems 3.3 converts `x86_64-linux-gnu` to `x86_64-linux` and requests files by that name.
#[tokio::test]
async fn a_file_is_found_by_the_platform_that_older_clients_make_of_it() {
    let index = Index::new().await;
    let gnu = Sample::new("native", "1.0").for_platform("x86_64-linux-gnu").build();
    assert!(index.push(gnu.clone()).await.status.is_success());
    index.push_sample(&Sample::new("native", "1.0").for_platform("x86_64-linux-musl")).await;
    let quick = |platform: &str| format!("/quick/Marshal.4.8/native-1.0-{platform}.gemspec.rz");
    for platform in ["x86_64-linux-gnu", "x86_64-linux"] {
        let file = index.get(&format!("/gems/native-1.0-{platform}.gem")).await;
        assert!(file.body == gnu, "{platform}: {}", file.status);
        assert_eq!(index.get(&quick(platform)).await.status.as_u16(), 200, "{platform}");
    }
    for platform in ["aarch64-linux", "x86_64-linux-uclibc", "x86_64-linux-gn"] {
        let file = index.get(&format!("/gems/native-1.0-{platform}.gem")).await;
        assert_eq!(file.status.as_u16(), 404, "{platform}");
        assert_eq!(index.get(&quick(platform)).await.status.as_u16(), 404, "{platform}");
    }
    // A release with exactly this name takes precedence.
    let plain = Sample::new("native", "1.0").for_platform("x86_64-linux").build();
    assert!(index.push(plain.clone()).await.status.is_success());
    assert!(index.get("/gems/native-1.0-x86_64-linux.gem").await.body == plain);
    assert!(index.get("/gems/native-1.0-x86_64-linux-gnu.gem").await.body == gnu);
    // An ambiguous platform matches no release.
    for platform in ["arm-linux-gnueabi", "arm-linux-gnueabihf"] {
        index.push_sample(&Sample::new("native", "1.0").for_platform(platform)).await;
    }
    assert_eq!(index.get("/gems/native-1.0-arm-linux.gem").await.status.as_u16(), 404);
}

/// See RFC 9110, 14.2 and 13.1.1.
#[tokio::test]
async fn ranges_are_for_get_and_preconditions_hold() {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    for path in ["/gems/a-1.0.gem", "/info/a", "/versions", "/specs.4.8.gz"] {
        let whole = index.get(path).await;
        let etag = whole.header("etag");
        let head = index.ask("HEAD", path, &[("range", "bytes=0-1")], "").await;
        assert_eq!((head.status.as_u16(), head.header("content-range")), (200, ""), "{path}");
        let weak = format!("W/{etag}");
        let list = format!("\"x\", {etag}");
        for (tags, expected) in
            [(etag, 200), ("*", 200), (&list, 200), ("\"x\"", 412), (&weak, 412)]
        {
            let answer = index.ask("GET", path, &[("if-match", tags)], "").await;
            assert_eq!(answer.status.as_u16(), expected, "{path} {tags}");
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    for path in ["/gems/a-1.1.gem", "/gems/b-1.0.gem", "/gems/a-1.0-java.gem", "/gems/%2e%2e.gem"] {
        assert_eq!(index.get(path).await.status.as_u16(), 404, "{path}");
    }
    index.yank("gem_name=a&version=1.0").await;
    assert_eq!(index.get("/gems/a-1.0.gem").await.status.as_u16(), 404);
}

#[tokio::test]
async fn a_file_that_is_damaged_or_gone_is_not_served() {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    let (files, _) = index.files();
    fs::write(&files[0], b"short").unwrap();
    for _ in 0..2 {
        let answer = index.get("/gems/a-1.0.gem").await;
        assert_eq!(answer.status.as_u16(), 503);
        assert!(answer.text().starts_with("the file of a-1.0 is missing or damaged here"));
        let _ = fs::remove_file(&files[0]);
    }
}

#[tokio::test]
async fn files_may_be_elsewhere() {
    let index = Index::new().await;
    index.change(|settings| settings.files_url = Some("https://cdn.example/gems/".to_owned()));
    let answer = index.get("/gems/a-1.0%2Fb%0d%0ax.gem").await;
    assert_eq!(answer.status.as_u16(), 302);
    assert_eq!(answer.header("location"), "https://cdn.example/gems/a-1.0%2Fb%0D%0Ax.gem");
}
