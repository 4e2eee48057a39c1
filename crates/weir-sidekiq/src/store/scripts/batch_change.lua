-- Opens or commits a batch. Follows batches.lua.
-- KEYS: keys of features. ARGV: id, 'open' or 'commit', time in microseconds ('' for Redis' clock).
-- Returns 1, or 0 if there is no such batch.
local id, now, key = ARGV[1], now_micros(ARGV[3]), batch_key(ARGV[1])
if redis.call('EXISTS', key) == 0 then return 0 end
if ARGV[2] == 'commit' then redis.call('HSET', key, 'committed', '1') end
keep_until(id, now + age_of(key))
if ARGV[2] == 'commit' then settle(id, now) end
return 1
