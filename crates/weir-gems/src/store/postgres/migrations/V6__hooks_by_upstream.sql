-- Those of one upstream are found without looking at the others'.
DROP INDEX hooks_due;
CREATE INDEX hooks_due ON hooks (upstream, due_at);
