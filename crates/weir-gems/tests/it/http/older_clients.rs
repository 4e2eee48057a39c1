//! The dependency API, and the lists of all releases.

use std::io::Read;

use flate2::read::{GzDecoder, ZlibDecoder};
use weir_gems::package::sample::Sample;

use super::Index;

async fn sample_index() -> Index {
    let index = Index::new().await;
    for version in ["1.0", "1.1", "2.0.rc1"] {
        let sample = Sample::new("shop", version).with_dependency("rack", ">= 1, < 2");
        index.push_sample(&sample).await;
    }
    index
}

#[tokio::test]
async fn dependencies_of_what_is_asked_for() {
    let index = sample_index().await;
    let answer = index.get("/api/v1/dependencies.json?gems=none,shop,shop").await;
    assert!(answer.text().starts_with(
        "[{\"name\":\"shop\",\"number\":\"1.0\",\"platform\":\"ruby\",\
         \"dependencies\":[[\"rack\",\"< 2, >= 1\"]]},"
    ));
    assert_eq!(answer.text().matches("\"name\"").count(), 3);
    assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
    let answer = index.get("/api/v1/dependencies?gems=shop").await;
    assert!(answer.body.starts_with(b"\x04\x08[\x08{\x09:\x09nameI\"\x09shop"));
    // Clients use this request to find out whether the API exists.
    let answer = index.get("/api/v1/dependencies").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
    assert_eq!(index.get("/api/v1/dependencies?gems=none").await.body, &b"\x04\x08[\x00"[..]);
}

#[tokio::test]
async fn what_is_asked_for_is_bounded() {
    let index = sample_index().await;
    index.change(|settings| settings.limits.dependency_names_max = 2);
    let answer = index.get("/api/v1/dependencies?gems=a,b,c").await;
    assert_eq!(answer.status.as_u16(), 422);
    assert_eq!(index.get("/api/v1/dependencies?gems=a,b,b,a").await.status.as_u16(), 200);
    index.change(|settings| settings.limits.dependency_answer_bytes_max = 50);
    for path in ["/api/v1/dependencies?gems=shop", "/api/v1/dependencies.json?gems=shop"] {
        let answer = index.get(path).await;
        assert_eq!(answer.status.as_u16(), 413, "{path}");
        assert!(
            answer.text().contains("gems.limits.advanced.dependency_answer_bytes_max"),
            "{path}"
        );
    }
    let metrics = index.metrics();
    for line in [
        "weir_gems_limit_hits_total{limit=\"dependency_names_max\"} 1\n",
        "weir_gems_limit_hits_total{limit=\"dependency_answer_bytes_max\"} 2\n",
        "weir_gems_dependency_names_sum 7.0\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// Returns the versions in a list, as far as a test needs them without Ruby.
async fn versions_in(index: &Index, path: &str) -> Vec<&'static str> {
    let answer = index.get(path).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    let mut list = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut list).unwrap();
    assert!(list.starts_with(b"\x04\x08["));
    let all = ["1.0", "1.1", "2.0.rc1", "3.0"];
    let has = |version: &&str| list.windows(version.len()).any(|it| it == version.as_bytes());
    all.into_iter().filter(has).collect()
}

#[tokio::test]
async fn lists_follow_every_change() {
    let index = sample_index().await;
    assert_eq!(versions_in(&index, "/specs.4.8.gz").await, ["1.0", "1.1"]);
    assert_eq!(versions_in(&index, "/latest_specs.4.8.gz").await, ["1.1"]);
    assert_eq!(versions_in(&index, "/prerelease_specs.4.8.gz").await, ["2.0.rc1"]);
    let before = index.get("/specs.4.8.gz").await;
    let same = [("if-none-match", before.header("etag"))];
    assert_eq!(index.ask("GET", "/specs.4.8.gz", &same, "").await.status.as_u16(), 304);
    index.push_sample(&Sample::new("shop", "3.0")).await;
    index.yank("gem_name=shop&version=1.0").await;
    assert_eq!(versions_in(&index, "/specs.4.8.gz").await, ["1.1", "3.0"]);
    assert_eq!(versions_in(&index, "/latest_specs.4.8.gz").await, ["3.0"]);
    assert_eq!(index.ask("GET", "/specs.4.8.gz", &same, "").await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_specification_is_there_until_it_is_yanked() {
    let index = sample_index().await;
    let path = "/quick/Marshal.4.8/shop-1.0.gemspec.rz";
    let answer = index.get(path).await;
    let mut gemspec = Vec::new();
    ZlibDecoder::new(&answer.body[..]).read_to_end(&mut gemspec).unwrap();
    assert!(gemspec.starts_with(b"\x04\x08u:\x17Gem::Specification"));
    index.yank("gem_name=shop&version=1.0").await;
    assert_eq!(index.get(path).await.status.as_u16(), 404);
}

#[tokio::test]
async fn the_root_says_whether_there_are_infos() {
    let index = sample_index().await;
    assert_eq!(index.ask("HEAD", "/", &[], "").await.status.as_u16(), 200);
    assert!(index.get("/").await.text().starts_with("An index of gems."));
    index.turn_off("info");
    assert_eq!(index.ask("HEAD", "/", &[], "").await.status.as_u16(), 404);
}
