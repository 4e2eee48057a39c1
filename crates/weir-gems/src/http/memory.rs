//! Limits the memory of responses that are built for a single client, from when they are written
//! until the client has received them. Slow clients together use at most a budget, each of them at
//! most its share of it, and only for a limited time. When the budget is exhausted, requests get
//! 503.

use bytes::Bytes;
use hyper::{Response, StatusCode};
use weir_net::client::ClientAddress;
use weir_net::server::{AnswerWithin, ResponseBody};

use super::representation::{Described, bytes};
use super::{Answer, Call, Failure, Gems};
use crate::metrics::{Budget, Limit, Room, RoomMax};
use crate::settings::GemsLimits;

/// Bytes with their reservation from a budget.
struct Kept<B> {
    bytes: B,
    _room: Room,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Kept<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// The client and the budget that a response's memory counts against.
#[derive(Clone, Copy)]
pub(super) struct Account {
    budget: Budget,
    client: Option<ClientAddress>,
}

impl Account {
    pub(super) fn of(call: &Call<'_>, budget: Budget) -> Self {
        Self { budget, client: call.request.extensions.get().copied() }
    }

    fn max(self, limits: &GemsLimits) -> RoomMax {
        let together = match self.budget {
            Budget::Dependencies => limits.dependency_memory_bytes_max,
            Budget::Infos => limits.info_memory_bytes_max,
        };
        let part = together / 100 * u64::from(limits.client_memory_percent_max);
        // One client may always have one response, however small the budget is.
        RoomMax { together, of_client: part.max(limits.dependency_answer_bytes_max as u64) }
    }
}

impl Gems {
    /// Reserves memory for `bytes` bytes.
    pub(super) fn room(
        &self,
        account: Account,
        bytes: usize,
        limits: &GemsLimits,
    ) -> Result<Room, Failure> {
        let Account { budget, client } = account;
        let room = self.metrics.room(budget, client, bytes as u64, account.max(limits));
        room.map_err(|limit| {
            let whose = match limit {
                Limit::ClientMemoryPercentMax => "you",
                _ => "clients",
            };
            let text = format!(
                "too many answers wait for {whose} to read them (gems.limits.{}); try again",
                limit.name()
            );
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// Returns the bytes with a memory reservation, which ends when they are sent or the client has
    /// disconnected.
    pub(super) fn kept<B>(
        &self,
        account: Account,
        bytes: B,
        limits: &GemsLimits,
    ) -> Result<Bytes, Failure>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let room = self.room(account, bytes.as_ref().len(), limits)?;
        Ok(Bytes::from_owner(Kept { bytes, _room: room }))
    }

    /// Returns a response whose content exists only for this client.
    pub(super) fn for_one<B>(&self, call: &Call<'_>, described: Described, content: B) -> Answer
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let limits = &call.settings.limits;
        let content = self.kept(Account::of(call, Budget::Infos), content, limits)?;
        Ok(with_end(bytes(call.request, described, &content), limits))
    }
}

/// Limits the time in which the client must receive this response, because it holds memory.
pub(super) fn with_end(
    mut answer: Response<ResponseBody>,
    limits: &GemsLimits,
) -> Response<ResponseBody> {
    answer.extensions_mut().insert(AnswerWithin(limits.answer_timeout));
    answer
}
