-- Notes what is known of tracked jobs: their states and their progress.
-- KEYS: a sorted set with the time of the last change of each job in microseconds, and a hash with what is known of it: its
-- state, its percentage ('' if unknown), both followed by a space, and its description.
-- ARGV: time in microseconds ('' for Redis' clock), the time for which a job is kept in microseconds, the maximum number of
-- jobs; then for each note its jid, its kind ('state', 'progress' or 'import'), a state, a percentage, a description ('' for
-- each that stays as it is) and the time of the change ('' for now).
-- Returns how many jobs were removed because there were too many.
local STEP = 500
local updated, known = KEYS[1], KEYS[2]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local kept, max = tonumber(ARGV[2]), tonumber(ARGV[3])

local function read(jid)
  local at = tonumber(redis.call('ZSCORE', updated, jid) or '')
  if not at or at + kept <= now then return nil end
  local state, percent, description = string.match(redis.call('HGET', known, jid) or '', '^(%a+) (%d*) (.*)$')
  return state and {at = at, state = state, percent = percent, description = description}
end

local function write(jid, at, state, percent, description)
  redis.call('HSET', known, jid, state .. ' ' .. percent .. ' ' .. description)
  redis.call('ZADD', updated, string.format('%.0f', at), jid)
end

local function remove(jids)
  if #jids == 0 then return end
  redis.call('ZREM', updated, unpack(jids))
  redis.call('HDEL', known, unpack(jids))
end

local function or_else(value, other) return value ~= '' and value or other end

for place = 4, #ARGV, 6 do
  local jid, kind, state = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  local percent, description = ARGV[place + 3], ARGV[place + 4]
  local before, at = read(jid), tonumber(ARGV[place + 5]) or now
  if kind == 'import' then
    -- The import of the job itself is noted as enqueued.
    if not (before and before.state ~= 'enqueued' and before.at > at) then
      write(jid, at, state, percent, description)
    end
  elseif before then
    write(jid, at, or_else(state, before.state), or_else(percent, before.percent),
      or_else(description, before.description))
  elseif kind == 'state' then
    write(jid, at, state, '', '')
  end
end

remove(redis.call('ZRANGEBYSCORE', updated, '-inf', string.format('%.0f', now - kept), 'LIMIT', 0, STEP))
local over = math.min(redis.call('ZCARD', updated) - max, STEP)
if over > 0 then remove(redis.call('ZRANGE', updated, 0, over - 1)) end
if #ARGV > 3 then
  for place = 1, 2 do redis.call('EXPIRE', KEYS[place], math.ceil(kept / 1000000)) end
end
return math.max(over, 0)
