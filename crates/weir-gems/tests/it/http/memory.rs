//! Clients that send requests but don't read the responses.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode};
use tokio::task::yield_now;
use weir_base::clock::Clock;
use weir_gems::import_file::{ImportFile, ImportLimits};
use weir_gems::store::{SqliteSettings, SqliteStore};
use weir_net::client::ClientAddress;
use weir_net::server::{AnswerWithin, ResponseBody};

use super::Index;
use crate::store::NOW;

const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const DEPENDENCIES: &str = "/api/v1/dependencies.json?gems=large";

/// Returns an index with a gem of many releases, on a store without a cache of infos.
async fn index_with_large_gem() -> (tempfile::TempDir, Index) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gems.db");
    let settings = SqliteSettings { info_cache_bytes: 0, ..SqliteSettings::new(path) };
    let index = Index::on(SqliteStore::open(&settings, NOW).unwrap()).await;
    let sum = "ab".repeat(32);
    let release = |number| {
        format!(
            "{{\"number\":\"1.{number}\",\"sha256\":\"{sum}\",\
             \"dependencies\":[[\"a-gem-with-a-long-name\",\">= 1.2.3\"]]}}"
        )
    };
    let releases: Vec<_> = (0..4_000).map(release).collect();
    let line = format!("{{\"name\":\"large\",\"versions\":[{}]}}", releases.join(","));
    let file = ImportFile::new(line.as_bytes(), ImportLimits::default(), NOW);
    let gems: Vec<_> = file.collect::<Result<_, _>>().unwrap();
    index.gems.store().import(Box::new(gems.into_iter()), &Clock::manual(NOW)).await.unwrap();
    (folder, index)
}

/// Requests until one is rejected. Returns the unread responses and the rejection.
async fn unread(
    index: &Index,
    path: &str,
) -> (Vec<Response<ResponseBody>>, Response<ResponseBody>) {
    let mut answers = Vec::new();
    for _ in 0..20 {
        let answer = index.begin("GET", path, &[], "").await;
        match answer.status() {
            StatusCode::OK => answers.push(answer),
            _ => return (answers, answer),
        }
    }
    panic!("nobody was refused");
}

async fn check_bound(index: &Index, path: &str, limit: &str) {
    // Copied, because the response itself would hold its reservation.
    let whole = index.get(path).await.body.to_vec();
    let (mut answers, refused) = unread(index, path).await;
    assert_eq!(answers.len(), 3, "{path}");
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let held = format!("weir_gems_answers_held_bytes{{limit=\"{limit}\"}}");
    assert!(index.metrics().contains(&format!("{held} {}\n", 3 * whole.len())), "{path}");
    let hit = format!("weir_gems_limit_hits_total{{limit=\"{limit}\"}} 1\n");
    assert!(index.metrics().contains(&hit), "{path}");
    // A client that has disconnected holds no memory.
    answers.pop();
    assert!(index.get(path).await.body == whole);
    drop(answers);
    assert!(index.metrics().contains(&format!("{held} 0\n")), "{path}");
}

#[tokio::test]
async fn answers_that_nobody_reads_hold_no_more_than_their_budget() {
    let (_folder, index) = index_with_large_gem().await;
    let length = index.get(DEPENDENCIES).await.body.len() as u64;
    assert!(length > 200_000, "several slices");
    // Enough for three responses, and the fragments of the fourth.
    index.change(|it| it.limits.dependency_memory_bytes_max = 3 * length + length / 2);
    check_bound(&index, DEPENDENCIES, "dependency_memory_bytes_max").await;
    // Responses of the dependency API don't use the budget of infos.
    let length = index.get("/info/large").await.body.len() as u64;
    index.change(|it| it.limits.info_memory_bytes_max = 3 * length + length / 2);
    check_bound(&index, "/info/large", "info_memory_bytes_max").await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_leaves_most_of_the_budget_to_others() {
    let (_folder, index) = index_with_large_gem().await;
    let length = index.get(DEPENDENCIES).await.body.len();
    index.change(|it| {
        it.limits.dependency_memory_bytes_max = 40 * length as u64;
        it.limits.dependency_answer_bytes_max = length;
        it.limits.client_memory_percent_max = 5;
    });
    let ask = |address: &str| {
        let request = Request::builder().uri(DEPENDENCIES);
        let client = ClientAddress::from_ip(address.parse().unwrap()).unwrap();
        index.gems.answer(request.extension(client).body(Full::new(Bytes::new())).unwrap())
    };
    let mut greedy = vec![ask("192.0.2.7").await];
    let refused = ask("192.0.2.7").await;
    assert_eq!((greedy[0].status(), refused.status()), (StatusCode::OK, BUSY));
    assert!(refused.headers().contains_key("retry-after"));
    // Other clients, and requests without a client address, are not limited.
    for other in ["192.0.2.8", "2001:db8::1"] {
        assert_eq!(ask(other).await.status(), StatusCode::OK, "{other}");
    }
    greedy.push(index.begin("GET", DEPENDENCIES, &[], "").await);
    assert_eq!(greedy[1].status(), StatusCode::OK);
    // A client that has read its responses may send further requests.
    greedy.clear();
    assert_eq!(ask("192.0.2.7").await.status(), StatusCode::OK);
    let hit = "weir_gems_limit_hits_total{limit=\"client_memory_percent_max\"} 1\n";
    assert!(index.metrics().contains(hit));
}

#[tokio::test]
async fn answers_that_hold_room_have_an_end() {
    let (_folder, index) = index_with_large_gem().await;
    index.change(|it| it.limits.answer_timeout = Duration::from_secs(7));
    for path in [DEPENDENCIES, "/info/large"] {
        let answer = index.begin("GET", path, &[], "").await;
        let within = answer.extensions().get::<AnswerWithin>();
        assert_eq!(within, Some(&AnswerWithin(Duration::from_secs(7))), "{path}");
    }
    // A response that is in memory anyway has no time limit.
    let answer = index.begin("GET", "/versions", &[], "").await;
    assert_eq!(answer.extensions().get::<AnswerWithin>(), None);
}

#[tokio::test]
async fn infos_that_the_store_keeps_are_shared_by_all_who_read_them() {
    let index = Index::new().await;
    index.push_sample(&weir_gems::package::sample::Sample::new("a", "1.0")).await;
    assert_eq!(index.get("/info/a").await.status, StatusCode::OK);
    index.change(|it| it.limits.info_memory_bytes_max = 1);
    assert_eq!(index.get("/info/a").await.status, StatusCode::OK);
}

#[tokio::test]
async fn others_have_their_turn_while_a_long_answer_is_written() {
    let (_folder, index) = index_with_large_gem().await;
    let turns = Cell::new(0);
    let others = async {
        loop {
            turns.set(turns.get() + 1);
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = index.get(DEPENDENCIES) => assert!(turns.get() >= answer.body.len() / 100_000),
        () = others => unreachable!(),
    }
    assert!(turns.get() > 1);
}
