CREATE TABLE upstreams (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    -- Counts what was noted.
    sequence BIGINT NOT NULL,
    -- How far /versions was read; NULL: never to its end.
    length BIGINT,
    state BYTEA,
    overlap BYTEA,
    etag TEXT
);

-- What each upstream's /versions says.
CREATE TABLE upstream_gems (
    upstream BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    -- NULL: the name is not there any more.
    md5 BYTEA,
    -- What our releases are.
    applied BYTEA,
    -- Why it is not taken.
    refusal BIGINT,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (upstream, name)
);
CREATE INDEX upstream_gems_pending ON upstream_gems (upstream, sequence)
    WHERE md5 IS DISTINCT FROM applied AND refusal IS NULL;
CREATE INDEX upstream_gems_refused ON upstream_gems (upstream, name) WHERE refusal IS NOT NULL;

-- Gems that came from an upstream. All others were pushed or imported here.
CREATE TABLE origins (
    gem BIGINT PRIMARY KEY,
    upstream BIGINT NOT NULL
);

CREATE TABLE hooks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    upstream TEXT COLLATE "C" NOT NULL,
    is_removal BOOLEAN NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    number TEXT COLLATE "C" NOT NULL,
    platform TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    due_at BIGINT NOT NULL
);
CREATE INDEX hooks_due ON hooks (due_at);
