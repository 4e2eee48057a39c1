ALTER TABLE upstreams
    -- Names that were taken away since their upstream does not have them any more, and since when
    -- they are counted, in microseconds since the Unix epoch; NULL: none was.
    ADD COLUMN gone_since BIGINT,
    ADD COLUMN gone BIGINT NOT NULL DEFAULT 0;
