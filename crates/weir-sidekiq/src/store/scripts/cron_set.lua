-- Pauses or resumes a cron job that is known, or replaces what is remembered of one. Follows cron_state.lua.
-- KEYS: cron jobs. ARGV: name, last time in microseconds ('' to leave it as it is), paused (0 or 1), the second now.
local state = read_state(redis.call('HGET', KEYS[1], ARGV[1]))
local last = tonumber(ARGV[2]) or (state and state.last)
if last then write_state(KEYS[1], ARGV[1], last, ARGV[3], state and state.seen or tonumber(ARGV[4])) end
return last and 1 or 0
