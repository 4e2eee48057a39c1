//! Messages queued for one client while its socket is full. Limited in bytes.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::cores::EventKey;
use crate::settings::SlowClients;

/// Frames in the order in which they will be written. The first one may be partly written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    frames: VecDeque<QueuedFrame>,
    /// Bytes of the first frame that are written.
    written: usize,
    /// Bytes of all frames, without those already written.
    bytes: usize,
    /// Number of frames pushed since the last [`Outbox::fit`].
    added: usize,
}

#[derive(Debug)]
struct QueuedFrame {
    bytes: Bytes,
    /// The key by which a newer event replaces this one. None for the protocol's own messages,
    /// which are never dropped.
    event: Option<EventKey>,
}

/// The outcome of applying the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FitOutcome {
    /// The rest fits, after this many queued events were dropped.
    Dropped(usize),
    /// The frames do not fit: the client must be disconnected.
    TooSlow,
}

impl Outbox {
    /// Adds a frame. The first `written` bytes of it are already written, which is possible only if
    /// the outbox is empty.
    pub(crate) fn push(&mut self, bytes: Bytes, event: Option<EventKey>, written: usize) {
        debug_assert!(written == 0 || self.frames.is_empty(), "a frame is written to its end");
        if self.frames.is_empty() {
            self.written = written;
        }
        self.bytes += bytes.len() - written;
        self.added += 1;
        self.frames.push_back(QueuedFrame { bytes, event });
    }

    /// Applies the limit `bytes_max` by `policy`.
    pub(crate) fn fit(&mut self, bytes_max: usize, policy: SlowClients) -> FitOutcome {
        let mut dropped = 0;
        let added = std::mem::take(&mut self.added).min(self.frames.len());
        if policy == SlowClients::Conflate {
            // Several events may have arrived together. Each replaces an earlier one with its key.
            dropped += (0..added).rev().filter(|newer| self.conflate(*newer)).count();
        }
        if policy != SlowClients::Disconnect {
            while self.bytes > bytes_max && self.drop_oldest() {
                dropped += 1;
            }
        }
        // A single message may exceed the limit: a long list, or a large recovery.
        let is_full = self.bytes > bytes_max && self.frames.len() > 1;
        if is_full { FitOutcome::TooSlow } else { FitOutcome::Dropped(dropped) }
    }

    /// Drops the queued event that is replaced by the event with `newer` frames behind it. Returns
    /// whether there was one.
    fn conflate(&mut self, newer: usize) -> bool {
        let last = self.frames.len() - 1 - newer;
        let Some(newest) = self.frames[last].event else { return false };
        let start = usize::from(self.written > 0);
        // Earlier events were conflated when they arrived, so at most one has this key.
        let outdated = (start..last).find(|index| self.frames[*index].event == Some(newest));
        outdated.inspect(|index| self.remove(*index)).is_some()
    }

    /// Drops the oldest event that is neither partly written nor the newest frame. Returns whether
    /// there was one.
    fn drop_oldest(&mut self) -> bool {
        let start = usize::from(self.written > 0);
        let end = self.frames.len().saturating_sub(1);
        let oldest = (start..end).find(|index| self.frames[*index].event.is_some());
        oldest.inspect(|index| self.remove(*index)).is_some()
    }

    fn remove(&mut self, index: usize) {
        if let Some(frame) = self.frames.remove(index) {
            self.bytes -= frame.bytes.len();
        }
    }

    /// Removes and returns all frames. None of them may be partly written.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Bytes> {
        debug_assert_eq!(self.written, 0, "a frame is written to its end");
        self.bytes = 0;
        std::mem::take(&mut self.frames).into_iter().map(|frame| frame.bytes)
    }

    /// Copies the next bytes to write into `buffer`. Returns how many.
    pub(crate) fn fill(&self, buffer: &mut [u8]) -> usize {
        let (mut filled, mut skip) = (0, self.written);
        for frame in &self.frames {
            let rest = &frame.bytes[skip..];
            let bytes = rest.len().min(buffer.len() - filled);
            buffer[filled..filled + bytes].copy_from_slice(&rest[..bytes]);
            filled += bytes;
            skip = 0;
            if filled == buffer.len() {
                break;
            }
        }
        filled
    }

    /// Removes `bytes` that were written.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(first) = self.frames.front() {
            let remaining = first.bytes.len() - self.written;
            if bytes < remaining {
                self.written += bytes;
                return;
            }
            bytes -= remaining;
            self.written = 0;
            self.frames.pop_front();
        }
        debug_assert_eq!(bytes, 0, "more was written than there was");
    }

    /// Removes all frames except one that is partly written.
    pub(crate) fn clear(&mut self) {
        self.frames.truncate(usize::from(self.written > 0));
        self.bytes = self.frames.front().map_or(0, |frame| frame.bytes.len() - self.written);
    }

    /// Returns the number of queued bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of queued frames, including a partly written one.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cores::ChannelId;

    fn key(name: &str) -> Option<EventKey> {
        Some(EventKey::new(ChannelId(1), name))
    }

    fn outbox(frames: &[(&'static str, Option<&str>)]) -> Outbox {
        let mut outbox = Outbox::default();
        for (text, event) in frames {
            outbox.push(Bytes::from_static(text.as_bytes()), event.and_then(key), 0);
        }
        outbox
    }

    fn text(outbox: &Outbox) -> String {
        let mut buffer = [0; 100];
        let bytes = outbox.fill(&mut buffer);
        assert_eq!(bytes, outbox.bytes());
        String::from_utf8(buffer[..bytes].to_vec()).unwrap()
    }

    #[test]
    fn the_oldest_events_are_dropped_first_but_no_partial_or_protocol_messages() {
        let frames =
            [("aaaa", Some("x")), ("PPPP", None), ("bbbb", Some("x")), ("cccc", Some("y"))];
        let mut waiting = outbox(&frames);
        waiting.advance(1);
        assert_eq!(waiting.fit(11, SlowClients::DropOldest), FitOutcome::Dropped(1));
        assert_eq!(text(&waiting), "aaaPPPPcccc");
        assert_eq!(waiting.fit(10, SlowClients::DropOldest), FitOutcome::TooSlow);
    }

    #[test]
    fn conflation_keeps_the_newest_event_at_its_own_position() {
        let mut waiting = outbox(&[("a1", Some("a")), ("b1", Some("b"))]);
        waiting.push(Bytes::from_static(b"a2"), key("a"), 0);
        assert_eq!(waiting.fit(100, SlowClients::Conflate), FitOutcome::Dropped(1));
        assert_eq!(text(&waiting), "b1a2");
    }

    #[test]
    fn conflation_within_one_delivery_keeps_the_newest_of_each_name() {
        let frames = [("a1", Some("a")), ("PP", None), ("a2", Some("a")), ("b1", Some("b"))];
        let mut waiting = outbox(&frames);
        waiting.push(Bytes::from_static(b"a3"), key("a"), 0);
        waiting.advance(1);
        assert_eq!(waiting.fit(100, SlowClients::Conflate), FitOutcome::Dropped(1));
        assert_eq!(text(&waiting), "1PPb1a3", "what is begun stays");
        waiting.push(Bytes::from_static(b"b2"), key("b"), 0);
        waiting.push(Bytes::from_static(b"b3"), key("b"), 0);
        assert_eq!(waiting.fit(100, SlowClients::Conflate), FitOutcome::Dropped(2));
        assert_eq!(text(&waiting), "1PPa3b3");
    }

    #[test]
    fn one_message_can_exceed_the_outbox_budget() {
        let mut waiting = outbox(&[("aaaaaaaa", None)]);
        assert_eq!(waiting.fit(4, SlowClients::Disconnect), FitOutcome::Dropped(0));
        waiting.push(Bytes::from_static(b"b"), None, 0);
        assert_eq!(waiting.fit(4, SlowClients::Disconnect), FitOutcome::TooSlow);
    }

    #[test]
    fn messages_before_a_disconnect_are_delivered() {
        let mut waiting = outbox(&[("aaaa", Some("x")), ("bbbb", Some("x"))]);
        assert_eq!(waiting.fit(8, SlowClients::Disconnect), FitOutcome::Dropped(0));
        assert_eq!(waiting.fit(7, SlowClients::Disconnect), FitOutcome::TooSlow);
        waiting.advance(2);
        waiting.clear();
        assert_eq!(text(&waiting), "aa");
    }

    proptest! {
        #[test]
        fn bytes_written_in_pieces_equal_the_added_bytes(
            frames in prop::collection::vec("[a-z]{1,9}", 1..20),
            pieces in prop::collection::vec(1_usize..12, 1..100),
        ) {
            let mut outbox = Outbox::default();
            for frame in &frames {
                outbox.push(Bytes::from(frame.clone().into_bytes()), None, 0);
            }
            let mut written = Vec::new();
            for piece in pieces.iter().cycle() {
                let mut buffer = vec![0; *piece];
                let bytes = outbox.fill(&mut buffer);
                outbox.advance(bytes);
                written.extend_from_slice(&buffer[..bytes]);
                if outbox.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(String::from_utf8(written).unwrap(), frames.concat());
            prop_assert_eq!(outbox.bytes(), 0);
        }
    }
}
