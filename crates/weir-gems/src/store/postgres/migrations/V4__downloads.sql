CREATE TABLE downloads (
    full_name TEXT COLLATE "C" PRIMARY KEY,
    count BIGINT NOT NULL
);
