//! Upstreams that lose their names, at once or gradually.

use std::time::Duration;

use weir_gems::index::digest::Digests;
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::{Problem, Scope};

use super::scripted::Scripted;
use super::wrong::{SUM, with_one_gem};
use super::{Replica, Setup};

#[tokio::test]
async fn an_upstream_that_lost_its_names_takes_nothing_away() {
    let upstream = Scripted::start();
    let replica = with_one_gem(&upstream).await;
    let names = ["a", "b", "c", "d"];
    let lines: Vec<_> = names.iter().map(|name| upstream.gem(name, &[("1.0", SUM)])).collect();
    upstream.versions(&lines);
    replica.sync().await;
    upstream.versions(&[]);
    let looked = replica.try_sync().await.remove(0);
    let problem = looked.unwrap_err().problem;
    assert!(matches!(problem, Problem::Vanished { gone: 4, max: 3, .. }), "{problem}");
    for name in names {
        assert_eq!(replica.listed(name).await, ["1.0"]);
    }
    // Three names may be removed.
    upstream.versions(&lines[..1]);
    replica.sync().await;
    assert_eq!(replica.listed("a").await, ["1.0"]);
    assert_eq!(replica.listed("d").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_upstream_that_empties_its_gems_takes_away_no_more_than_one_that_lists_none() {
    let upstream = Scripted::start();
    let replica = with_one_gem(&upstream).await;
    let names = ["a", "b", "c", "d", "e"];
    let mut lines = names.map(|name| upstream.gem(name, &[("1.0", SUM)])).to_vec();
    upstream.versions(&lines);
    replica.sync().await;
    // A tail says that four have no version any more; for one nothing can be read of its info.
    for name in &names[..3] {
        lines.push(upstream.gem(name, &[]).replace("  ", " -1.0 "));
    }
    upstream.text("/info/d", "---\nnothing of ours\n");
    let md5 = hex::encode(Digests::of(b"---\nnothing of ours\n").md5);
    lines.push(format!("d -1.0 {md5}\n"));
    lines.push(upstream.gem("e", &[("1.0", SUM), ("2.0", SUM)]));
    upstream.versions(&lines);
    for _ in 0..3 {
        let error = replica.try_sync().await.remove(0).unwrap_err().to_string();
        assert!(error.contains("4 of its names") && error.contains("names_gone_max"), "{error}");
    }
    for name in &names[..4] {
        assert_eq!(replica.listed(name).await, ["1.0"]);
    }
    // Other gems are still updated.
    assert_eq!(replica.listed("e").await, ["1.0", "2.0"]);
    assert_eq!(replica.state().await.upstreams[0].counts.pending, 4);
    // Three may go, and one that comes back is as it was.
    lines.push(upstream.gem("d", &[("1.0", SUM)]));
    upstream.versions(&lines);
    let looked = replica.sync().await;
    assert_eq!((looked.work.applied.yanked, looked.is_complete()), (3, true));
    assert_eq!(replica.listed("a").await, Vec::<String>::new());
    assert_eq!(replica.listed("d").await, ["1.0"]);
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn a_small_index_that_is_emptied_takes_nothing_away() {
    let upstream = Scripted::start();
    let lines = ["a", "b", "c"].map(|name| upstream.gem(name, &[("1.0", SUM)]));
    upstream.versions(&lines);
    let setup = |percent| {
        Setup::new(&[("one", &upstream.url())])
            .change(move |settings| settings.limits.names_gone_percent_max = percent)
    };
    let replica = setup(50).start().await;
    replica.sync().await;
    // The text was rewritten without most of its content.
    for left in [&lines[..0], &lines[2..]] {
        upstream.versions(left);
        let error = replica.try_sync().await.remove(0).unwrap_err().to_string();
        assert!(
            error.contains("names_gone_percent_max allows (50 % of those that it had)"),
            "{error}"
        );
        assert_eq!(replica.listed("a").await, ["1.0"]);
    }
    upstream.versions(&lines);
    assert!(replica.sync().await.is_complete());
    // The operator allows it.
    let Replica { index, .. } = replica;
    let replica = setup(100).start_on(index.opened_again());
    upstream.versions(&lines[..0]);
    assert!(replica.sync().await.is_complete());
    assert_eq!(replica.listed("a").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_upstream_that_loses_its_names_bit_by_bit_loses_no_more_than_at_once() {
    let upstream = Scripted::start();
    let names: Vec<_> = (0..10).map(|number| format!("g{number}")).collect();
    let lines: Vec<_> = names.iter().map(|name| upstream.gem(name, &[("1.0", SUM)])).collect();
    upstream.versions(&lines);
    let setup = || Setup::new(&[("one", &upstream.url())]);
    let mut replica = setup().start().await;
    replica.sync().await;
    // Each look takes less than half of what is left, and each is made by another process.
    for left in [8, 6, 5] {
        upstream.versions(&lines[..left]);
        assert!(replica.compare().await.is_complete());
        assert_eq!(replica.listed(&names[left]).await, Vec::<String>::new());
        let Replica { index, .. } = replica;
        replica = setup().start_on(index.opened_again());
    }
    for left in [4, 0] {
        upstream.versions(&lines[..left]);
        let looked = replica.mirror.sync_once(Scope::Everything, Progress::NONE).await.remove(0);
        let error = looked.unwrap_err().to_string();
        let told = format!("{} of its names would be gone within", names.len() - left);
        assert!(error.contains(&told) && error.contains("names_gone_percent_max"), "{error}");
        assert_eq!(replica.listed("g4").await, ["1.0"]);
    }
    // Names that were removed before that no longer count.
    replica.index.clock.advance(Duration::from_secs(24 * 3_600));
    upstream.versions(&lines[..4]);
    assert!(replica.compare().await.is_complete());
    assert_eq!(replica.listed("g4").await, Vec::<String>::new());
}

#[tokio::test]
async fn names_that_are_emptied_bit_by_bit_count_together() {
    let upstream = Scripted::start();
    let replica = with_one_gem(&upstream).await;
    let names = ["a", "b", "c", "d"];
    let mut lines = names.map(|name| upstream.gem(name, &[("1.0", SUM)])).to_vec();
    upstream.versions(&lines);
    replica.sync().await;
    for name in &names[..3] {
        lines.push(upstream.gem(name, &[]).replace("  ", " -1.0 "));
        upstream.versions(&lines);
        assert!(replica.sync().await.is_complete());
    }
    lines.push(upstream.gem("d", &[]).replace("  ", " -1.0 "));
    upstream.versions(&lines);
    let error = replica.try_sync().await.remove(0).unwrap_err().to_string();
    assert!(error.contains("4 of its names") && error.contains("names_gone_max"), "{error}");
    assert_eq!(replica.listed("d").await, ["1.0"]);
}
