//! Tables of webhooks: events, and endpoints with their positions in the order of events.

pub(super) const TABLES: &str = "
CREATE TABLE webhook_events (
    id INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    name TEXT NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    at INTEGER NOT NULL,
    release TEXT NOT NULL
) STRICT;
CREATE TABLE webhook_endpoints (
    name TEXT PRIMARY KEY,
    -- The last event that it has got, or will not get.
    cursor INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    holder TEXT,
    held_until INTEGER
) STRICT;
-- One row: the last event's number, and how many are kept.
CREATE TABLE webhook_log (last INTEGER NOT NULL, events_max INTEGER NOT NULL) STRICT;
INSERT INTO webhook_log VALUES (0, 1);
";
