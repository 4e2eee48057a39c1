-- Returns reserved jobs to the end of their queue that is served next, and counts for some how often
-- they have killed their worker. Follows features.lua.
-- KEYS: reservations, list, leases, hash of kills, set of queue names, unless the caller adds the
-- name itself; then the keys of features, if jobs take locks again.
-- ARGV: queue name, owner whose lease must be over ('' for any), owner that returns the jobs, whose
-- lease must be alive ('' for any), time in seconds ('' for Redis' clock), age in seconds at which a
-- count starts again, then for each job its id and its jid ('' not to count it), in the order in
-- which they are put back: the one to be served first comes last. If jobs take locks again, the job has three
-- more arguments: its lock ('' for none), its jid, and when the lock ends, in microseconds. The job takes it
-- unless another one has it.
-- Returns 1 for each job that was moved and 0 for each that was not there any more or can't enter
-- its list. Returns nothing if a lease is not as it must be.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local function is_alive(owner)
  local lease = redis.call('ZSCORE', KEYS[3], owner)
  return lease and tonumber(lease) > now
end
if ARGV[2] ~= '' and is_alive(ARGV[2]) then return {} end
if ARGV[3] ~= '' and not is_alive(ARGV[3]) then return {} end

local seconds, age_max = math.floor(tonumber(ARGV[4]) or now), tonumber(ARGV[5])
local function count(jid)
  local times, since = 0, seconds
  local text = redis.pcall('HGET', KEYS[4], jid)
  if type(text) == 'string' then
    local last, from = string.match(text, '^(%d+) (%d+)$')
    if last and seconds - tonumber(from) <= age_max then
      times, since = tonumber(last), tonumber(from)
    end
  end
  redis.pcall('HSET', KEYS[4], jid, string.format('%d %.0f', math.min(times + 1, 255), since))
end

local function lock_again(lock, jid, ends_at)
  local micros = (tonumber(ARGV[4]) or now) * 1000000
  if lock == '' or tonumber(ends_at) <= micros or lock_holder(LOCKS, lock, micros) then return end
  set_lock(redis.pcall, LOCKS, LOCK_ENDS, lock, jid, tonumber(ends_at))
  expire_locks(redis.pcall, LOCKS, LOCK_ENDS, micros)
end

local moved = {}
-- A write that needs no memory: after it, Redis does not reject the others when it is full.
redis.call('HDEL', KEYS[1], '')
for place = 6, #ARGV, KEYS[6] and 5 or 2 do
  local value = redis.call('HGET', KEYS[1], ARGV[place])
  local done = 0
  if value then
    -- The list may be of another type: then the job stays reserved.
    local payload = string.sub(value, (string.find(value, '\n', 1, true) or 0) + 1)
    if type(redis.pcall('RPUSH', KEYS[2], payload)) == 'number' then
      redis.call('HDEL', KEYS[1], ARGV[place])
      if KEYS[5] then redis.pcall('SADD', KEYS[5], ARGV[1]) end
      if ARGV[place + 1] ~= '' then count(ARGV[place + 1]) end
      if KEYS[6] then lock_again(ARGV[place + 2], ARGV[place + 3], ARGV[place + 4]) end
      done = 1
    end
  end
  moved[#moved + 1] = done
end
return moved
