//! The rules on systems that are described in a few lines.

mod decisions;
mod system;
