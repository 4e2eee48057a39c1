//! Index responses with seeded damage: none causes a crash or partial changes.

use weir_gems::mirror::Scope;
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::read::{VersionsLine, VersionsReader, read_info};
use weir_gems::store::TextKind;

use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};
use crate::http::Index;
use crate::store::postgres_place;

const MUTATIONS: u64 = 1_000;
const SUM: [u8; 32] = [7; 32];

/// Overwrites, truncates, duplicates or moves some bytes.
fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=random.usize(..3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(..bytes.len());
        let end = (at + random.usize(..40)).min(bytes.len());
        match random.u8(..7) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                let place = random.usize(..=bytes.len());
                bytes.splice(place..place, copy);
            }
            5 => bytes[at] = *random.choice(b"\n ,|:-&/.").unwrap(),
            _ => bytes[at..end].fill(random.u8(..)),
        }
    }
}

struct Good {
    versions: Vec<u8>,
    infos: Vec<(String, Vec<u8>)>,
}

fn good() -> Good {
    let (mut versions, mut infos) = ("created_at: x\n---\n".to_owned(), Vec::new());
    for number in 0..6 {
        let name = format!("gem-{number}");
        let info = format!(
            "---\n1.0 a:< 2&>= 1,b:>= 0|checksum:{0},ruby:>= 2.7\n1.0-java |checksum:{0}\n",
            hex::encode(SUM)
        );
        let md5 = weir_gems::index::digest::Digests::of(info.as_bytes()).md5;
        versions.push_str(&format!("{name} 1.0,1.0-java {}\n", hex::encode(md5)));
        infos.push((format!("/info/{name}"), info.into_bytes()));
    }
    Good { versions: versions.into_bytes(), infos }
}

/// Returns a complete response without digests, so that they don't reveal all damage.
fn plain(body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    Reply::Raw([head.as_bytes(), body].concat())
}

fn serve(upstream: &Scripted, random: &mut fastrand::Rng, good: &Good, kind: u64) {
    let damaged = |random: &mut fastrand::Rng, text: &[u8]| {
        let mut text = text.to_vec();
        mutate(random, &mut text);
        text
    };
    let mut versions = good.versions.clone();
    for (path, info) in &good.infos {
        let mut info = info.clone();
        match kind {
            1 => info = damaged(random, &info),
            // Damaged, but with a matching digest in /versions, which reaches deeper code.
            2 => {
                let before = weir_gems::index::digest::Digests::of(&info).md5;
                info = damaged(random, &info);
                let after = weir_gems::index::digest::Digests::of(&info).md5;
                let name = path.trim_start_matches("/info/");
                let text = String::from_utf8(versions).unwrap();
                let (before, after) = (hex::encode(before), hex::encode(after));
                let old = format!("{name} 1.0,1.0-java {before}");
                versions = text.replace(&old, &format!("{name} 1.0,1.0-java {after}")).into_bytes();
            }
            _ => {}
        }
        upstream.on(path, plain(&info));
    }
    if kind == 0 {
        versions = damaged(random, &versions);
    }
    let mut answer = match plain(&versions) {
        Reply::Raw(bytes) => bytes,
        other => unreachable!("{}", matches!(other, Reply::Silence)),
    };
    if kind == 3 {
        // Damage the head, too.
        answer = damaged(random, &answer);
    }
    upstream.on("/versions", Reply::Raw(answer));
}

async fn assert_whole(replica: &Replica, seed: u64) {
    // The stored texts are readable by a client, and by this crate.
    let text = replica.store().text(TextKind::Versions).await.unwrap().to_vec();
    let (mut reader, mut names) = (VersionsReader::new(1 << 20), Vec::new());
    let fed = reader.feed(&text, |line| match line {
        VersionsLine::Gem { name, .. } => names.push(name.to_owned()),
        VersionsLine::Malformed => panic!("seed {seed}: a line that is none"),
    });
    fed.unwrap();
    reader.finish().unwrap();
    for name in names {
        let info = replica.store().info(&name).await.unwrap().unwrap();
        assert_eq!(read_info(&info.content).unwrap().left_out, 0, "seed {seed}: {name}");
    }
}

#[tokio::test]
async fn damaged_answers_leave_nothing_half_done() {
    leave_nothing_half_done(Index::new().await).await;
}

#[tokio::test]
async fn nor_do_they_in_postgres() {
    let Some(place) = postgres_place() else { return };
    leave_nothing_half_done(Index::on(place.store()).await).await;
}

async fn leave_nothing_half_done(index: Index) {
    let upstream = Scripted::start();
    let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
        // A truncated response ends with a closed connection.
        settings.limits.attempts_max = 1;
    });
    let replica = setup.start_on(index);
    let good = good();
    let (mut read, mut refused, mut incomplete) = (0, 0, 0);
    for seed in 0..MUTATIONS {
        let mut random = fastrand::Rng::with_seed(seed);
        serve(&upstream, &mut random, &good, seed % 4);
        let looked = replica.mirror.sync_once(Scope::Everything, Progress::NONE).await.remove(0);
        match looked {
            Ok(looked) if looked.is_complete() => read += 1,
            Ok(_) => incomplete += 1,
            Err(_) => refused += 1,
        }
        if seed % 20 == 0 {
            assert_whole(&replica, seed).await;
            crate::store::assert_consistent(&**replica.store()).await;
        }
    }
    // All outcomes must occur, or the damage does not test anything.
    assert!(read > 50 && refused > 50 && incomplete > 50, "{read} {incomplete} {refused}");
    serve(&upstream, &mut fastrand::Rng::with_seed(0), &good, 9);
    let last = replica.mirror.sync_once(Scope::Everything, Progress::NONE).await.remove(0).unwrap();
    assert!(last.is_complete());
    for (path, info) in &good.infos {
        assert_eq!(replica.index.get(path).await.body, info, "{path}");
    }
    let names = replica.store().text(TextKind::Names).await.unwrap().to_vec();
    assert_eq!(crate::client::read_names(&names).len(), good.infos.len());
    crate::store::assert_consistent(&**replica.store()).await;
}
