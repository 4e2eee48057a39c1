//! Facts that may be missing.

use proptest::prelude::*;

use crate::observation::{Fact, Missing, MissingReason};

/// A fact that is mostly known. Boxed, as all parts of an observation by value do not fit on a stack.
pub(super) fn fact<T: Clone + std::fmt::Debug + 'static>(
    known: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Fact<T>> {
    let missing = Missing {
        what: "a fact".to_owned(),
        obstacle: MissingReason::NotAllowed,
        reason: "permission denied".to_owned(),
        remedy: None,
    };
    let known = known.boxed().prop_map(Fact::Known);
    prop_oneof![8 => known, 1 => Just(Fact::Unknown(missing)), 1 => Just(Fact::NotAsked)].boxed()
}
