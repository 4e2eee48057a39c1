-- Notes which cron jobs a node has in its settings, and forgets those that no node has had for long. Follows
-- cron_state.lua.
-- KEYS: cron jobs. ARGV: time in microseconds ('' for Redis' clock), seconds after which they are forgotten, seconds
-- between two notes of one; then the names of those in the settings.
-- Returns the time, and the name, the last time and whether it is paused of each.
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] .. string.format('%06d', time[2])
end
local second = math.floor(tonumber(now) / 1000000)
local kept, interval = tonumber(ARGV[2]), tonumber(ARGV[3])
local registered, reply, has_noted = {}, {now}, false
for place = 4, #ARGV do registered[ARGV[place]] = true end

local function add(name, last, paused)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = name, string.format('%.0f', last), paused
end

local found = redis.call('HGETALL', KEYS[1])
for place = 1, #found, 2 do
  local name, state = found[place], read_state(found[place + 1])
  if state and state.seen + kept < second then
    redis.call('HDEL', KEYS[1], name)
  elseif state then
    add(name, state.last, state.paused)
    if registered[name] and state.seen + interval <= second then
      write_state(KEYS[1], name, state.last, state.paused, second)
      has_noted = true
    end
    registered[name] = nil
  end
end
for place = 4, #ARGV do
  local name = ARGV[place]
  if registered[name] then
    registered[name] = nil
    write_state(KEYS[1], name, tonumber(now), '0', second)
    add(name, tonumber(now), '0')
    has_noted = true
  end
end
if has_noted then redis.call('EXPIRE', KEYS[1], kept) end
return reply
