//! Guarantees of every store for a mirror. Each store's test runs these with an empty store.

mod files;
mod hooks;
mod noting;
mod owners;
mod releases;
mod replaced;

use std::sync::Arc;

use weir_gems::name::GemName;
use weir_gems::release::Release;
use weir_gems::store::Store;
use weir_gems::store::mirror::{Applied, MirrorStore, MirroredGem, Noted, Position};

pub(crate) use self::files::*;
pub(crate) use self::hooks::*;
pub(crate) use self::noting::*;
pub(crate) use self::owners::*;
pub(crate) use self::releases::*;
pub(crate) use self::replaced::*;
use crate::client::versions_of_info;
use crate::store::{NOW, release};

fn name(text: &str) -> GemName {
    text.parse().unwrap()
}

fn noted(text: &str, md5: u8) -> Noted {
    Noted { name: name(text), md5: Some([md5; 16]) }
}

fn gone(text: &str) -> Noted {
    Noted { name: name(text), md5: None }
}

fn position(length: u64) -> Position {
    Position {
        length,
        digest_state: vec![1, 2],
        overlap: b"end\n".to_vec(),
        etag: Some("\"x\"".to_owned()),
    }
}

fn releases(versions: &[&str]) -> Vec<Release> {
    let at = |version: &&str| Release {
        created_at: weir_base::clock::Timestamp::default(),
        ..release(version, "")
    };
    versions.iter().map(at).collect()
}

fn gem(text: &str, md5: u8, versions: &[&str]) -> MirroredGem {
    let (noted, releases) = (noted(text, md5), releases(versions));
    MirroredGem { noted, releases, is_invited: false, earlier: Arc::default() }
}

/// Records a gem and applies it.
async fn mirror(store: &(impl MirrorStore + ?Sized), upstream: &str, gem: MirroredGem) -> Applied {
    store.note(upstream, vec![gem.noted.clone()], None).await.unwrap();
    store.apply(upstream, vec![gem], NOW).await.unwrap()
}

async fn pending(store: &(impl MirrorStore + ?Sized), upstream: &str) -> Vec<String> {
    let all = store.pending(upstream, 0, 100).await.unwrap();
    all.into_iter().map(|it| it.noted.name.to_string()).collect()
}

async fn versions(store: &(impl Store + ?Sized), name: &str) -> Vec<String> {
    let info = store.info(name).await.unwrap();
    info.map(|info| versions_of_info(&info.content)).unwrap_or_default()
}
