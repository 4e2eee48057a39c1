CREATE TABLE webhook_events (
    id BIGINT PRIMARY KEY,
    change BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    number TEXT COLLATE "C" NOT NULL,
    platform TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    release TEXT NOT NULL
);
CREATE TABLE webhook_endpoints (
    name TEXT COLLATE "C" PRIMARY KEY,
    -- The last event that it has got, or will not get.
    cursor BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    holder TEXT,
    held_until BIGINT
);
-- One row: the last event's number, and how many are kept.
CREATE TABLE webhook_log (last BIGINT NOT NULL, events_max BIGINT NOT NULL);
INSERT INTO webhook_log VALUES (0, 1);
