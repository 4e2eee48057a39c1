-- Handles a time of a cron job without a job, or claims it for a job that is stored on another slot. Follows
-- cron_state.lua.
-- KEYS: cron jobs, claims. ARGV: name, time in microseconds, the second now, job ('' for none).
-- Returns 'handled', 'paused' (without the job), 'before' (it or a later time was handled before), or the claim to carry out,
-- which is the own one or another node's: its time, a space and its job.
local name, at = ARGV[1], tonumber(ARGV[2])
local claim = redis.call('HGET', KEYS[2], name)
if claim then return claim end
local state = read_state(redis.call('HGET', KEYS[1], name))
if state and state.last >= at then return 'before' end
local paused = state and state.paused or '0'
if ARGV[4] ~= '' and paused == '0' then
  claim = ARGV[2] .. ' ' .. ARGV[4]
  redis.call('HSET', KEYS[2], name, claim)
  return claim
end
write_state(KEYS[1], name, at, paused, state and state.seen or tonumber(ARGV[3]))
return ARGV[4] ~= '' and 'paused' or 'handled'
