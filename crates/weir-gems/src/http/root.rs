//! `/`: a word for people. `gem install` of RubyGems 3.3 asks whether there is anything, and only then
//! reads `/info/`; otherwise it fetches the list of all gems.

use super::representation::{Described, TEXT, bytes};
use super::{Answer, Call, Endpoint, Failure, Gems};
use crate::index::digest::Digests;

const WORDS: &str = "An index of gems. In a Gemfile: source \"URL\", with the URL of this page; \
                     gem push --host URL FILE adds one.\n";

impl Gems {
    /// Where `/info/` is switched off, who would read it next is better off elsewhere.
    pub(super) fn root(&self, call: &Call<'_>) -> Answer {
        if self.switches.is_off(Endpoint::Info.name(), self.clock.now()) {
            return Err(Failure::switched_off(Endpoint::Info));
        }
        let described = Described::by(&Digests::of(WORDS.as_bytes()), WORDS.len() as u64, TEXT);
        Ok(bytes(call.request, described, &WORDS.into()))
    }
}
