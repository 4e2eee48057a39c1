//! The log's promises, on the file system and on a simulated disk.

mod real_disk;
