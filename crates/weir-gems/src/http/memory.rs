//! Memory of answers that are there for one client alone, from when they are written until it has
//! taken them. Clients that don't read hold no more than a budget, and who finds nothing left of it is
//! told to come again.

use bytes::Bytes;
use hyper::StatusCode;

use super::{Failure, Gems};
use crate::metrics::{Budget, Room};
use crate::settings::GemsLimits;

/// Bytes with their part of a budget.
struct Kept<B> {
    bytes: B,
    _room: Room,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Kept<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<S> Gems<S> {
    /// Room for so many bytes.
    pub(super) fn room(
        &self,
        budget: Budget,
        bytes: usize,
        limits: &GemsLimits,
    ) -> Result<Room, Failure> {
        let bytes_max = match budget {
            Budget::Dependencies => limits.dependency_memory_bytes_max,
            Budget::Infos => limits.info_memory_bytes_max,
        };
        self.metrics.room(budget, bytes as u64, bytes_max).ok_or_else(|| {
            let limit = budget.limit();
            self.metrics.limit_hit(limit);
            let text = format!(
                "too many answers wait for clients that don't read them (gems.limits.{}); try again",
                limit.name()
            );
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// The bytes, with room for them until they are sent or their client is gone.
    pub(super) fn kept<B>(
        &self,
        budget: Budget,
        bytes: B,
        limits: &GemsLimits,
    ) -> Result<Bytes, Failure>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let room = self.room(budget, bytes.as_ref().len(), limits)?;
        Ok(Bytes::from_owner(Kept { bytes, _room: room }))
    }

    /// The same for what the store gave, unless the store has it in memory anyway.
    pub(super) fn shared_or_kept(
        &self,
        bytes: Bytes,
        limits: &GemsLimits,
    ) -> Result<Bytes, Failure> {
        match bytes.is_unique() {
            true => self.kept(Budget::Infos, bytes, limits),
            false => Ok(bytes),
        }
    }
}
