-- Moves a reserved job to a sorted set. Follows features.lua.
-- KEYS: reservations, set, leases; then the keys of features, if the job has any.
-- ARGV: id, owner whose lease must be over ('' for any), owner that moves the job, whose lease must
-- be alive ('' for any), score, new text ('' for the stored one); then the event and the tag, if the job has
-- features.
-- Returns 1, or 0 if the reservation is gone or a lease is not as it must be. Returns an error, and
-- the job stays reserved, if the set is of another type.
local function is_alive(owner)
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[3], owner)
  return lease and tonumber(lease) > time[1] + time[2] / 1000000
end
if ARGV[2] ~= '' and is_alive(ARGV[2]) then return 0 end
if ARGV[3] ~= '' and not is_alive(ARGV[3]) then return 0 end
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then return 0 end
local text = ARGV[5]
if text == '' then text = string.sub(value, (string.find(value, '\n', 1, true) or 0) + 1) end
-- A write that needs no memory: after it, Redis does not reject the others when it is full.
redis.call('HDEL', KEYS[1], '')
local added = redis.pcall('ZADD', KEYS[2], ARGV[4], text)
if type(added) ~= 'number' then return added end
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[7] then apply_event(ARGV[6], ARGV[7]) end
return 1
