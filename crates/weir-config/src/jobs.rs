//! `[jobs]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weir_jobs::model::QueueName;
use weir_jobs::settings::{Fsync, QueueSettings, Settings, StoreKind};
use weir_net::TlsSettings;

use super::keys::{Key, Keys};
use super::units::{DAY, HOUR, MILLISECOND};
use super::{limits, tls};

/// The job server and where it listens.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub listen: SocketAddr,
    /// `listen` is `"off"`: there is no job server.
    pub is_off: bool,
    pub tls: Option<TlsSettings>,
    pub settings: Settings,
}

impl Default for Jobs {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 7419));
        Self { listen, is_off: false, tls: None, settings: Settings::default() }
    }
}

impl Jobs {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        self.is_off = !keys.listener(
            Key::fixed("listen", "Where Faktory clients connect. \"off\": there is no job server, and no job store is opened."),
            &mut self.listen,
        );
        keys.section("tls", |keys| self.tls = tls::read(keys));
        self.read_storage(keys);
        let Settings { allow_flush, password, limits, .. } = &mut self.settings;
        keys.flag(
            Key::live(
                "allow_flush",
                "Any client may FLUSH (forget everything): only for development.",
            ),
            allow_flush,
        );
        keys.secret(
            Key::live(
                "password",
                "What clients prove in HELLO. None: everybody who can connect may work.",
            ),
            password,
        );
        keys.section("limits", |keys| limits::read(keys, limits));
        self.read_queues(keys);
        keys.later(&["resources", "cron"]);
    }

    fn read_storage(&mut self, keys: &mut Keys<'_>) {
        let Settings { store, fsync, fsync_acks, ack_sync_max, gather_wait, .. } =
            &mut self.settings;
        keys.choice(
            Key::fixed("store", "Where jobs are kept: the segment log under data_dir, or memory (nothing survives; for tests and development).").with_later(&["redis"]),
            &[("embedded", StoreKind::Embedded), ("memory", StoreKind::Memory)],
            store,
        );
        keys.choice(
            Key::fixed("fsync", "When an acknowledged job is on the disk itself: before the reply, within a second, or when the system likes."),
            &[("always", Fsync::Always), ("everysec", Fsync::EverySecond), ("never", Fsync::Never)],
            fsync,
        );
        keys.flag(
            Key::fixed("fsync_acks", "An ACK too is on disk before its reply (with fsync = \"always\"); otherwise within ack_sync_max."),
            fsync_acks,
        );
        keys.duration(
            Key::fixed(
                "ack_sync_max",
                "An ACK that waits for nobody else's sync is synced after this long.",
            ),
            MILLISECOND..=HOUR,
            ack_sync_max,
        );
        keys.duration(
            Key::fixed("gather_wait", "How long a sync waits for more records to join it."),
            Duration::ZERO..=Duration::from_secs(1),
            gather_wait,
        );
    }

    fn read_queues(&mut self, keys: &mut Keys<'_>) {
        let Settings { queues, limits, .. } = &mut self.settings;
        keys.named("queues", |name, keys| {
            let mut queue = QueueSettings::default();
            let QueueSettings { target_latency, concurrency, fresh_lane } = &mut queue;
            keys.optional_duration(
                Key::live(
                    "target_latency",
                    "A job that waits longer counts as late, on the console and for fresh_lane. By itself it changes nothing about the order in which jobs are served.",
                ),
                MILLISECOND..=DAY * 400,
                target_latency,
            );
            keys.optional_number(
                Key::live(
                    "concurrency",
                    "At most so many jobs of the queue run at once, over all workers.",
                ),
                1..=u64::from(u32::MAX),
                concurrency,
            );
            keys.flag(
                Key::live(
                    "fresh_lane",
                    "While the oldest job has waited longer than target_latency: the newest first, and the oldest with every fifth fetch, however long those jobs take.",
                ),
                fresh_lane,
            );
            match QueueName::parse(name, limits) {
                Ok(name) => drop(queues.insert(name, queue)),
                Err(error) => keys.mistake(error.to_string()),
            }
        });
    }
}
