//! A compromised upstream that serves another file for a known version.

use hyper::StatusCode;
use sha2::{Digest, Sha256};
use weir_gems::package::sample::Sample;
use weir_gems::release::Checksum;

use super::Setup;
use super::scripted::Scripted;
use crate::store::{assert_consistent, identity};

type Built = (Vec<u8>, [u8; 32]);

/// Builds a gem of this version that contains `text`. Returns the file and its digest.
fn build(version: &str, text: &str) -> Built {
    let files = vec![("lib/shop.rb".to_owned(), text.as_bytes().to_vec())];
    let file = Sample { files, ..Sample::new("shop", version) }.build();
    let digest = Sha256::digest(&file).into();
    (file, digest)
}

fn publish(upstream: &Scripted, releases: &[(&str, &Built)]) {
    for (version, (file, _)) in releases {
        upstream.text(&format!("/gems/shop-{version}.gem"), file.clone());
    }
    let rows: Vec<_> = releases.iter().map(|(version, (_, digest))| (*version, *digest)).collect();
    upstream.versions(&[upstream.gem("shop", &rows)]);
}

#[tokio::test]
async fn a_replaced_file_is_kept_out_until_an_operator_accepts_it() {
    let upstream = Scripted::start();
    let (first, second) = (build("1.0", "as it was"), build("1.0", "with a back door"));
    let (fetched, unfetched, new) = (build("2.0", ""), build("3.0", ""), build("4.0", ""));
    publish(&upstream, &[("1.0", &first), ("2.0", &fetched), ("3.0", &unfetched)]);
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    replica.sync().await;
    assert_eq!(replica.file("shop-1.0").await.body, first.0);

    let other = build("3.0", "with a back door");
    publish(&upstream, &[("1.0", &second), ("2.0", &fetched), ("3.0", &other), ("4.0", &new)]);
    let looked = replica.sync().await;
    assert_eq!((looked.work.applied.kept_out, looked.work.applied.added), (2, 1));
    assert_eq!(replica.listed("shop").await, ["1.0", "2.0", "3.0", "4.0"]);
    // A stored file is served; a missing one is not taken from the replaced file.
    assert_eq!(replica.file("shop-1.0").await.body, first.0);
    assert!(!replica.file("shop-3.0").await.status.is_success());
    let upstream_state = replica.state().await.upstreams.remove(0);
    assert_eq!(upstream_state.counts.replaced, 2);
    let told: Vec<_> = upstream_state.replaced.iter().map(|it| it.offered).collect();
    assert_eq!(told, [Checksum(second.1), Checksum(other.1)]);
    let figure =
        |number: u64| format!("weir_gems_mirror_replaced_releases{{upstream=\"one\"}} {number}\n");
    assert!(replica.metrics().contains(&figure(2)), "{}", replica.metrics());
    // It is done as far as it goes.
    assert_eq!((upstream_state.counts.pending, replica.sync().await.requests), (0, 1));

    let name = "shop".parse().unwrap();
    assert_eq!(replica.mirror.accept(&name, &identity("2.0")).await.unwrap(), None);
    assert!(replica.mirror.accept(&name, &identity("1.0")).await.unwrap().is_some());
    assert!(replica.metrics().contains(&figure(1)), "{}", replica.metrics());
    replica.sync().await;
    assert_eq!(replica.file("shop-1.0").await.body, second.0);
    assert_eq!(replica.store().replaced("one", 9).await.unwrap().len(), 1);
    assert_consistent(&**replica.store()).await;
    // Once more is once too often.
    publish(&upstream, &[("1.0", &first), ("2.0", &fetched), ("3.0", &unfetched), ("4.0", &new)]);
    replica.sync().await;
    assert_eq!(replica.file("shop-1.0").await.body, second.0);
    assert_eq!(replica.file("shop-3.0").await.status, StatusCode::OK);
    assert_eq!(replica.store().replaced("one", 9).await.unwrap().len(), 1);
}
