-- Ends a reserved job that has features. Follows features.lua.
-- KEYS: reservations, keys of features. ARGV: id, event, tag.
-- Returns 1, or 0 if the reservation is gone.
local ended = redis.call('HDEL', KEYS[1], ARGV[1])
if ended == 1 then apply_event(ARGV[2], ARGV[3]) end
return ended
