//! Members of a presence channel: the expected ones, those that follow the list, and those that leave.

use super::ClientPool;

impl ClientPool {
    /// Expects that from now on exactly the clients for which `is_member` is true are members.
    pub(crate) fn expect_members(&mut self, is_member: impl Fn(usize) -> bool) {
        let members = (0..self.clients.len()).filter(|index| is_member(*index));
        let members = members.map(|index| u32::try_from(index).expect("fewer clients than 2^32"));
        self.shared.membership.expect(members.collect());
        for client in &mut self.clients {
            client.members.recheck(&mut self.shared.membership);
        }
    }

    /// Makes a client that is not connected yet keep the list of members.
    pub(crate) fn make_follower(&mut self, index: usize) {
        self.clients[index].members.add_follower();
    }

    /// Closes a client's connection without a close frame.
    pub(crate) fn disconnect_member(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.close();
        client.members.clear(&mut self.shared.membership);
        self.connections.live -= 1;
    }

    /// Returns the first follower whose list is wrong, and what is wrong with it.
    pub(crate) fn first_list_mismatch(&self) -> Option<String> {
        let why = |client: &crate::realtime::client::Client| {
            let why = client.members.mismatch(&self.shared.membership)?;
            Some(format!("client {}: {why}", client.index))
        };
        self.clients.iter().find_map(why)
    }
}
