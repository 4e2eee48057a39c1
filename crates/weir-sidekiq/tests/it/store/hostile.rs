//! What other programs, or nobody in his right mind, put into Sidekiq's keys.

use std::time::Duration;

use weir_jobs::model::{JobLocation, SetName};
use weir_jobs::store::{Filter, ScanRequest, Store};

use super::rig::{Node, run};
use crate::shared_redis::client;

#[test]
fn no_payload_stops_a_fetch_and_none_is_dropped() {
    run(async |redis| {
        let mut client = client(&redis);
        let odd: [&[u8]; 7] =
            [b"", b"\xff\0", b"[]", b"{}", b"{\"class\":7}", b"{\"class\":\"A\"", b"null"];
        for payload in odd {
            redis::cmd("LPUSH").arg("queue:q").arg(payload).exec(&mut client).unwrap();
        }
        let good = r#"{"class":"A","args":[1 ,2],"mine":{"x" : 1e400}}"#;
        redis::cmd("LPUSH").arg("queue:q").arg(good).exec(&mut client).unwrap();
        redis::cmd("SADD").arg("queues").arg("q").arg("a b").arg("").exec(&mut client).unwrap();
        let node = Node::open(&redis);
        let delivery = node.fetch("w1", "q", Duration::from_secs(10)).await.unwrap();
        let text = String::from_utf8(delivery.json).unwrap();
        assert!(text.contains(r#""args":[1 ,2],"mine":{"x" : 1e400}"#), "{text}");
        assert_eq!(node.store.ack(&[&*delivery.jid]).await, Ok(vec![]));
        let mut dead: Vec<Vec<u8>> =
            redis::cmd("ZRANGE").arg("dead").arg(0).arg(-1).query(&mut client).unwrap();
        dead.sort();
        let mut expected: Vec<Vec<u8>> = odd.iter().map(|it| it.to_vec()).collect();
        expected.sort();
        assert_eq!(dead, expected);
        assert_eq!(node.store.malformed_payloads(), odd.len() as u64);
        let metric =
            format!("weir_jobs_store_malformed_payloads_total{{shard=\"{redis}\"}} {}", odd.len());
        assert!(node.scrape().contains(&metric), "{}", node.scrape());
        let request = ScanRequest {
            place: JobLocation::Set(SetName::Dead),
            after: None,
            newest_first: false,
            limit: 100,
            scan_max: 100,
            filter: Filter::default(),
        };
        let page = node.store.scan(request).await.unwrap();
        assert_eq!(page.jobs.len(), odd.len());
        for job in page.jobs {
            serde_json::from_slice::<serde_json::Value>(&job.json).unwrap();
        }
    });
}

#[test]
fn keys_of_another_type_stop_no_other_queue() {
    run(async |redis| {
        let mut client = client(&redis);
        redis::cmd("SET").arg("queue:bad").arg("x").exec(&mut client).unwrap();
        redis::cmd("SADD").arg("queues").arg("bad").arg("q").exec(&mut client).unwrap();
        redis::cmd("ZADD").arg("retry").arg("inf").arg("x").exec(&mut client).unwrap();
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("bad").await, None);
        node.push(r#"{"jid":"job-00001","jobtype":"A","args":[],"queue":"q"}"#).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let counts = node.store.counts().await;
        assert_eq!((counts.queues.len(), counts.retries, counts.reserved), (2, 1, 1));
    });
}

#[test]
fn ten_megabytes_of_arguments_come_back() {
    run(async |redis| {
        let node = Node::open(&redis);
        let args = format!("[\"{}\"]", "x".repeat(10 << 20));
        node.push(&format!(r#"{{"jid":"job-00001","jobtype":"A","args":{args},"queue":"q"}}"#))
            .await
            .unwrap();
        let delivery = node.fetch("w1", "q", Duration::ZERO).await.unwrap();
        let text = String::from_utf8(delivery.json).unwrap();
        assert!(text.contains(&args));
    });
}
