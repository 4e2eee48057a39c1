//! The log's promises, on the file system and on a simulated disk.

mod crash;
mod damage;
mod extent;
mod failed_sync;
mod full_disk;
mod history;
mod read_ahead;
mod real_disk;
mod threads;
mod upkeep;
