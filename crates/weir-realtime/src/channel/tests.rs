use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};

use weir_base::secret::Secret;

use super::*;
use crate::settings::Settings;

const NOW: Timestamp = Timestamp::from_millis(1_000);
const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    channel: Channel,
    app: AppSettings,
    cores: Cores,
}

/// A presence channel that is large with a second user.
fn scene() -> Scene {
    let name = ChannelName::parse("presence-room", &Settings::default().pusher).unwrap();
    let mut app = AppSettings::new("1", "key", Secret::new("secret"));
    app.presence.list_max = 1;
    Scene {
        channel: Channel::new(ChannelId(1), name, 1, NOW),
        app,
        cores: Cores::new(1, 100, 100_000),
    }
}

impl Scene {
    fn join(&self, user_id: &str, now: Timestamp) -> Join {
        let member = Some(ListedMember { user_id: Arc::from(user_id), user_info: None });
        let joining = Joining { core: 0, member, recover: None, wants_member_changes: true, now };
        self.channel.join(joining, &self.app, &self.cores).unwrap()
    }

    fn leave(&self, user_id: &str, now: Timestamp) {
        let user_id = Some(user_id);
        let leaving = Leaving { core: 0, user_id, wants_member_changes: true, now };
        self.channel.leave(leaving, &self.app, &self.cores);
    }

    /// What was sent since the last call, as text.
    fn sent(&self) -> Vec<String> {
        let mut letters = VecDeque::new();
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.cores.get(0).mailbox.poll_take(&mut context, &mut letters);
        let frames = letters.into_iter().filter_map(|letter| match letter {
            Letter::Broadcast(broadcast) => Some(broadcast.frame),
            _ => None,
        });
        frames.map(|frame| String::from_utf8(frame.json().to_vec()).unwrap()).collect()
    }
}

#[test]
fn a_swap_of_users_is_told_to_who_follows_a_large_channel() {
    let scene = scene();
    scene.join("ada", NOW);
    scene.join("grace", NOW);
    assert!(!scene.channel.tell_count(SECOND, &scene.cores, NOW), "told");
    scene.sent();
    scene.leave("grace", NOW);
    scene.join("alan", NOW);
    assert!(scene.channel.tell_count(SECOND, &scene.cores, NOW), "gathered");
    assert_eq!(scene.sent(), Vec::<String>::new());
    assert!(!scene.channel.tell_count(SECOND, &scene.cores, NOW + SECOND));
    let sent = scene.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].contains("alan") && sent[0].contains("grace"), "{sent:?}");
}
