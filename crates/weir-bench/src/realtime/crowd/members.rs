//! Members of a presence channel: who is expected, who follows the list, and who leaves.

use super::Crowd;

impl Crowd {
    /// From now on exactly the clients that `is_there` are to be known as members.
    pub(crate) fn expect_members(&mut self, is_there: impl Fn(usize) -> bool) {
        let there = (0..self.clients.len()).filter(|index| is_there(*index));
        let there = there.map(|index| u32::try_from(index).expect("fewer clients than 2^32"));
        self.around.roll.expect(there.collect());
        for client in &mut self.clients {
            client.members.compare(&mut self.around.roll);
        }
    }

    /// A client that has not come yet will hold the list of members.
    pub(crate) fn let_follow(&mut self, index: usize) {
        self.clients[index].members.follow();
    }

    /// A client closes its connection, without a word.
    pub(crate) fn leave(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.close();
        client.members.forget(&mut self.around.roll);
        self.attendance.live -= 1;
    }

    /// A follower whose list is wrong, and what is wrong with it.
    pub(crate) fn wrong_list(&self) -> Option<String> {
        let why = |client: &crate::realtime::client::Client| {
            let why = client.members.why_wrong(&self.around.roll)?;
            Some(format!("client {}: {why}", client.index))
        };
        self.clients.iter().find_map(why)
    }
}
