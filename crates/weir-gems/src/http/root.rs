//! Handler of `/`: a short text for people. `gem install` of RubyGems 3.3 uses `/info/` only if
//! this URL exists; otherwise it downloads the list of all gems.

use super::representation::{Described, TEXT, bytes};
use super::{Answer, Call, Endpoint, Failure, Gems};
use crate::index::digest::Digests;

const WORDS: &str = "An index of gems. In a Gemfile: source \"URL\", with the URL of this page; \
                     gem push --host URL FILE adds one.\n";

impl Gems {
    /// Responds with the text, or with an error if `/info/` is switched off, so that such clients
    /// don't go on to use it.
    pub(super) fn root(&self, call: &Call<'_>) -> Answer {
        if self.switches.is_off(Endpoint::Info.name(), self.clock.now()) {
            return Err(Failure::switched_off(Endpoint::Info));
        }
        let described = Described::by(&Digests::of(WORDS.as_bytes()), WORDS.len() as u64, TEXT);
        Ok(bytes(call.request, described, &WORDS.into()))
    }
}
