-- The policy that was in force last: a row, or none.
CREATE TABLE mirror_policy (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    rules TEXT NOT NULL
);
