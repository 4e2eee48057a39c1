-- Digests of files. What a row of releases says is pinned by itself.
-- Of releases that were taken away, and those that an operator has accepted.
CREATE TABLE pins (
    gem BIGINT NOT NULL,
    number TEXT COLLATE "C" NOT NULL,
    platform TEXT COLLATE "C" NOT NULL,
    sha256 BYTEA NOT NULL,
    PRIMARY KEY (gem, number, platform)
);

-- Releases that are kept out, since their upstream has another file of them.
CREATE TABLE replaced_releases (
    gem BIGINT NOT NULL,
    number TEXT COLLATE "C" NOT NULL,
    platform TEXT COLLATE "C" NOT NULL,
    pinned BYTEA NOT NULL,
    offered BYTEA NOT NULL,
    -- When the offered one was first seen.
    since BIGINT NOT NULL,
    PRIMARY KEY (gem, number, platform)
);
