ALTER TABLE upstreams
    -- Microseconds since the Unix epoch. When all that it had was here; NULL: never.
    ADD COLUMN complete_at BIGINT,
    -- When all of its /versions was compared; NULL: never.
    ADD COLUMN compared_at BIGINT;
