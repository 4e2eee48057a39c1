//! Fair shares for the tenants of one queue: which tenant's job runs next.
//!
//! Each tenant has a lane. The lane with the least work in progress for its weight is served first;
//! among equals, the one whose jobs have taken the least time. The rules do no I/O and read no clock:
//! the caller reports jobs that wait, start and end, and holds the jobs of each lane itself.
//!
//! - `lane`: one lane. `wheel`: lanes without work in progress, ordered by time.
//! - `levels`: lanes with jobs waiting, by their work in progress, then by time; `heap`: one level.
//! - `table`: all lanes, with their number limited. `limits`: what their tenants may do. `sleep`: lanes whose next
//!   job may not start before a time.
//! - `blocked`: lanes whose next job waits for a shared resource.
//! - `limited`: which tenants a limit holds back.
//! - `room`: which slots a tenant above its share may take.

mod blocked;
mod heap;
mod lane;
mod levels;
mod limited;
mod limits;
mod room;
mod sleep;
mod table;
#[cfg(test)]
mod tests;
mod wheel;

pub use lane::{BlockedJobs, LaneId, TenantKey};
pub use limited::{LimitKind, LimitedLane};
pub use limits::LaneLimits;
pub use room::Room;
pub use table::{LaneCounts, Lanes};
