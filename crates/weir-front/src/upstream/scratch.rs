//! The read buffer of a core. A core is one thread, and the bytes of a read are parsed before the
//! next read: so its connections share one buffer, and those that wait need none.

use std::cell::RefCell;

/// As much as a unix socket returns in one read.
const SCRATCH_BYTES: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// Calls `read` with the buffer; panics if `read` calls this function.
pub(super) fn with<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| read(scratch))
}
