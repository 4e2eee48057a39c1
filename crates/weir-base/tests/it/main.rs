//! The building blocks as their users have them: through the public interface, on real threads.

mod semaphore;
