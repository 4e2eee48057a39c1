//! Where a core reads to. A core is a thread, and a read is looked at before the next one: so one
//! buffer serves all of its connections, and one that waits for a response holds none.

use std::cell::RefCell;

/// As much as a unix socket hands over at once.
const SCRATCH_BYTES: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// `read` must not come back here.
pub(super) fn with<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| read(scratch))
}
