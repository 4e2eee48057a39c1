//! Who is there.

use std::collections::BTreeSet;

use serde_json::json;
use weir_base::clock::Timestamp;

use super::client::Event;
use super::*;

fn member(server: &Server, user: &str) -> (Client, Event) {
    let mut client = server.connect();
    let answer = client.subscribe_as("presence-x", user);
    (client, answer)
}

fn ids(event: &Event) -> BTreeSet<String> {
    let ids = event.data["presence"]["ids"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
fn members_are_listed_once_and_notified_of_each_other() {
    let server = Server::start();
    let (mut ada, answer) = member(&server, "ada");
    assert_eq!(ids(&answer), BTreeSet::from(["ada".to_owned()]));
    let (grace, answer) = member(&server, "grace");
    assert_eq!(answer.data["presence"]["count"], 2);
    assert_eq!(ids(&answer).len(), 2);
    assert_eq!(ada.event().data["user_id"], "grace");
    let (grace_again, answer) = member(&server, "grace");
    assert_eq!(answer.data["presence"]["count"], 2);
    drop(grace);
    drop(grace_again);
    assert_eq!(ada.skip_until("pusher_internal:member_removed").data["user_id"], "grace");
    assert_eq!(ada.flush(), [], "once each");
}

#[test]
fn a_presence_channel_needs_a_user_id() {
    let server = Server::start();
    let mut client = server.connect();
    let auth = client.auth("presence-x", None);
    client.send_event("pusher:subscribe", &json!({ "channel": "presence-x", "auth": auth }));
    assert_eq!(client.event().name, "pusher:subscription_error");
    let data = json!({ "user_id": "me" }).to_string();
    let auth = format!("{KEY}:{}", client::sign(&format!("{}::user::{data}", client.socket_id)));
    let sign_in = json!({ "auth": auth, "user_data": json!({ "id": "me" }).to_string() });
    client.send_event("pusher:signin", &sign_in);
    assert_eq!(client.event().data["code"], 4009, "signed for other data");
    let user = json!({ "id": "me", "user_info": { "name": "Ada" } }).to_string();
    let auth = format!("{KEY}:{}", client::sign(&format!("{}::user::{user}", client.socket_id)));
    client.send_event("pusher:signin", &json!({ "auth": auth, "user_data": user }));
    client.skip_until("pusher:signin_success");
    let answer = client.subscribe("presence-x");
    assert_eq!(answer.data["presence"]["hash"], json!({ "me": { "name": "Ada" } }));
}

#[test]
fn members_per_channel_are_limited() {
    let server = Server::with(|_, app| app.presence.members_max = 1);
    let (_ada, _) = member(&server, "ada");
    let mut client = server.connect();
    let data = json!({ "user_id": "grace" }).to_string();
    let auth = client.auth("presence-x", Some(&data));
    let request = json!({ "channel": "presence-x", "auth": auth, "channel_data": data });
    client.send_event("pusher:subscribe", &request);
    assert_eq!(client.event().data["type"], "LimitReached");
    member(&server, "ada");
}

#[test]
fn a_large_channel_sends_counts_instead_of_member_events() {
    let server = Server::with(|_, app| app.presence.list_max = 3);
    let (mut first, _) = member(&server, "0");
    let mut others: Vec<Client> =
        (1..10).map(|user| member(&server, &user.to_string()).0).collect();
    let (_, answer) = member(&server, "10");
    assert_eq!(answer.data["presence"]["ids"], json!(["10"]), "itself, for members.me");
    assert_eq!(answer.data["presence"]["count"], 11);
    let added: Vec<_> = (0..2).map(|_| first.event()).collect();
    assert!(added.iter().all(|event| event.name == "pusher_internal:member_added"));
    let mut count = json!(0);
    while count != 10 {
        let event = first.event();
        assert_eq!(event.name, "pusher_internal:subscription_count");
        count = event.data["subscription_count"].clone();
    }
    others.clear();
    let mut gone = 0;
    while gone < 2 {
        let event = first.event();
        gone += usize::from(event.name == "pusher_internal:member_removed");
    }
    let rest: Vec<_> = first.flush();
    assert!(rest.iter().all(|event| event.name != "pusher_internal:member_added"), "{rest:?}");
}

fn leave(client: &mut Client) {
    client.send_event("pusher:unsubscribe", &json!({ "channel": "presence-x" }));
    client.flush();
}

#[test]
fn counting_clients_have_the_right_count_when_a_channel_is_small_again() {
    let server = Server::with(|_, app| app.presence.list_max = 3);
    let (mut first, _) = member(&server, "0");
    let mut others: Vec<Client> = (1..6).map(|user| member(&server, &user.to_string()).0).collect();
    others.iter_mut().rev().for_each(leave);
    let (mut count, mut is_listed) = (1, false);
    while !is_listed || count != 1 {
        let event = first.event();
        match event.name.as_str() {
            "pusher_internal:member_added" => count += 1,
            "pusher_internal:member_removed" => count -= 1,
            "pusher_internal:subscription_count" => {
                count = event.data["subscription_count"].as_u64().unwrap();
            }
            "pusher_internal:subscription_succeeded" => {
                count = event.data["presence"]["count"].as_u64().unwrap();
                is_listed = true;
            }
            other => panic!("{other}"),
        }
    }
}

/// What pusher-js keeps of a presence channel: lists replace it, members change it.
struct Shown {
    client: Client,
    members: BTreeSet<String>,
    count: usize,
}

impl Shown {
    fn join(server: &Server, user: &str) -> Self {
        let (client, answer) = member(server, user);
        let count = answer.data["presence"]["count"].as_u64().unwrap();
        let count = usize::try_from(count).unwrap();
        Self { client, members: ids(&answer), count }
    }

    fn apply(&mut self, event: &Event) {
        let user = || event.data["user_id"].as_str().unwrap().to_owned();
        match event.name.as_str() {
            "pusher_internal:member_added" => {
                self.count += usize::from(self.members.insert(user()))
            }
            "pusher_internal:member_removed" => {
                self.count -= usize::from(self.members.remove(&user()));
            }
            "pusher_internal:subscription_succeeded" => {
                self.members = ids(event);
                self.count = self.members.len();
            }
            other => assert_eq!(other, "pusher_internal:subscription_count"),
        }
    }

    fn skip_until(&mut self, expected: &BTreeSet<String>) {
        while self.members != *expected {
            let event = self.client.event();
            self.apply(&event);
        }
        assert_eq!(self.count, expected.len());
    }
}

#[test]
fn after_a_peak_all_clients_have_the_right_member_list() {
    let clock = weir_base::clock::Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |_, app| app.presence.list_max = 4);
    let mut shown: Vec<Shown> =
        (0..9).map(|user| Shown::join(&server, &user.to_string())).collect();
    assert_eq!(shown[8].members.len(), 1, "it gets numbers");
    // Some of those whom the first ones know go, and some whom they don't.
    for gone in [7, 6, 5, 2, 1] {
        shown.remove(gone);
    }
    let names = |shown: &[&str]| shown.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let expected = names(&["0", "3", "4", "8"]);
    for one in &mut shown {
        one.skip_until(&expected);
    }
    // Each is told again.
    shown.push(Shown::join(&server, "9"));
    drop(shown.remove(1));
    let users = || server.hub.channel_view("1", "presence-x").and_then(|channel| channel.users);
    while users() != Some(4) {
        std::thread::yield_now();
    }
    // That was a peak again: the list comes, but not as often as a number that goes up and down.
    let expected = names(&["0", "4", "8", "9"]);
    assert_ne!(shown[0].members, expected);
    clock.advance(Duration::from_secs(31));
    for one in &mut shown {
        one.skip_until(&expected);
    }
    drop(shown.remove(1));
    let expected = names(&["0", "8", "9"]);
    for one in &mut shown {
        one.skip_until(&expected);
    }
}

/// A list in pages and the differences after it.
struct Follower {
    client: Client,
    members: BTreeSet<String>,
    version: u64,
}

impl Follower {
    fn join(server: &Server, user: &str) -> Self {
        let mut client = server.connect();
        let data = json!({ "user_id": user }).to_string();
        let request = json!({ "member_changes": true });
        let answer = client.subscribe_with("presence-x", Some(data), request);
        let version = answer.json["members_version"].as_u64().unwrap();
        let mut follower = Self { client, members: BTreeSet::new(), version };
        follower.fetch();
        follower
    }

    /// Reads one version of the list, in small pages, and applies the differences behind it.
    fn fetch(&mut self) {
        let (mut version, mut start) = (Value::Null, 0);
        let mut differences = Vec::new();
        loop {
            let request =
                json!({ "channel": "presence-x", "version": version, "start": start, "limit": 7 });
            self.client.send_event("weir:members", &request);
            let page = loop {
                let event = self.client.event();
                match event.name.as_str() {
                    "weir:members" => break event.data,
                    "weir:members_changed" => differences.push(event.data),
                    other => assert_eq!(other, "pusher_internal:subscription_count"),
                }
            };
            if version != page["version"] {
                version = page["version"].clone();
                self.members.clear();
            }
            let members = page["members"].as_object().unwrap();
            self.members.extend(members.keys().cloned());
            start = usize::try_from(page["start"].as_u64().unwrap()).unwrap() + members.len();
            if start >= usize::try_from(page["count"].as_u64().unwrap()).unwrap() {
                break;
            }
        }
        self.version = version.as_u64().unwrap();
        for difference in differences {
            self.apply(&difference);
        }
    }

    fn apply(&mut self, difference: &Value) {
        let version = difference["version"].as_u64().unwrap();
        if version <= self.version {
            return;
        }
        assert!(difference["from"].as_u64().unwrap() <= self.version, "a difference is missing");
        self.members.extend(difference["added"].as_object().unwrap().keys().cloned());
        for removed in difference["removed"].as_array().unwrap() {
            self.members.remove(removed.as_str().unwrap());
        }
        self.version = version;
    }

    fn skip_until(&mut self, expected: &BTreeSet<String>) {
        while self.members != *expected {
            let event = self.client.event();
            if event.name == "weir:members_changed" {
                self.apply(&event.data);
            }
        }
    }
}

#[test]
fn pages_and_later_differences_give_the_members() {
    let server = Server::with(|_, app| {
        app.presence.list_max = 10;
        app.presence.gather = Duration::from_millis(20);
    });
    let mut followers = vec![Follower::join(&server, "follower-small")];
    let mut others: Vec<(String, Client)> = Vec::new();
    for user in 0..60 {
        let user = user.to_string();
        others.push((user.clone(), member(&server, &user).0));
        if followers.len() < 4 && others.len().is_multiple_of(17) {
            let name = format!("follower-{}", others.len());
            followers.push(Follower::join(&server, &name));
        }
    }
    let expected = |others: &[(String, Client)], followers: usize| -> BTreeSet<String> {
        let names = ["follower-small", "follower-17", "follower-34", "follower-51"];
        let followers = names[..followers].iter().map(ToString::to_string);
        others.iter().map(|(user, _)| user.clone()).chain(followers).collect()
    };
    let all = expected(&others, followers.len());
    for follower in &mut followers {
        follower.skip_until(&all);
    }
    // Back below the size from which on differences are gathered.
    others.truncate(3);
    let few = expected(&others, followers.len());
    for follower in &mut followers {
        follower.skip_until(&few);
    }
}

/// One goes and one comes between two tellings: the number is as it was, and who is there is not.
#[test]
fn followers_learn_of_two_users_that_swapped() {
    use weir_base::clock::{Clock, Timestamp};
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |_, app| app.presence.list_max = 1);
    let mut follower = Follower::join(&server, "follower");
    let (ada, _) = member(&server, "ada");
    clock.advance(Duration::from_secs(1));
    follower.skip_until(&BTreeSet::from(["follower".to_owned(), "ada".to_owned()]));
    drop(ada);
    let users = || server.hub.channel_view("1", "presence-x").and_then(|channel| channel.users);
    while users() != Some(1) {
        std::thread::yield_now();
    }
    let (_grace, _) = member(&server, "grace");
    clock.advance(Duration::from_secs(1));
    follower.skip_until(&BTreeSet::from(["follower".to_owned(), "grace".to_owned()]));
}

#[test]
fn a_swap_of_users_is_reported_at_the_same_count() {
    let server = Server::with(|_, app| {
        app.presence.list_max = 2;
        app.presence.gather = Duration::from_millis(300);
    });
    let mut follower = Follower::join(&server, "0");
    let mut others: Vec<Client> = ["a", "b", "c"].map(|user| member(&server, user).0).into();
    let set = |users: [&str; 4]| BTreeSet::from(users.map(ToString::to_string));
    follower.skip_until(&set(["0", "a", "b", "c"]));
    // They have just been told: this is told together.
    let (mut other, answer) = member(&server, "d");
    assert_eq!(answer.data["presence"]["count"], 5);
    leave(&mut others[2]);
    follower.skip_until(&set(["0", "a", "b", "d"]));
    // Who came in between was told of one who is not there any more.
    while other.skip_until("pusher_internal:subscription_count").data["subscription_count"] != 4 {}
}
