-- Moves waiting jobs, each only if it is still where it was read. Follows near.lua and features.lua.
-- KEYS: source, target, leases, set of queue names, unless the caller adds the name itself; then the keys of
-- features, if some of the jobs have any.
-- ARGV: 'list' or 'set' (source), 'list', 'set' or 'none' (target), queue name or score, owner whose
-- lease must be alive ('' for any); for a list the positions between which the jobs were read, how many
-- entries to read at once and a mark that it does not have; then for each job its text and its new text. If some
-- jobs have features, each has its tag ('' for none) as well, and the last argument is the event.
-- Returns for each job 1 if it was moved, 0 if it was not there any more, 2 if it was not found before
-- so many bytes were read that others have to be served, and -1 if it stays because the target is of another
-- type. Returns nothing if the lease is over.
if ARGV[4] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[3], ARGV[4])
  if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
end
local kinds = {list = 'list', set = 'zset'}
local kind = redis.call('TYPE', KEYS[2])['ok']
local fits = ARGV[2] == 'none' or kind == 'none' or kind == kinds[ARGV[2]]
local is_list = ARGV[1] == 'list'
local has_features = #KEYS > 4
local event, queues = has_features and ARGV[#ARGV], KEYS[4]
local olds, news, tags, moved = {}, {}, {}, {}
for place = is_list and 9 or 5, #ARGV - (event and 1 or 0), event and 3 or 2 do
  olds[#olds + 1], news[#news + 1] = ARGV[place], ARGV[place + 1]
  moved[#moved + 1] = fits and 0 or -1
  if event then tags[#olds] = ARGV[place + 2] end
end
if not fits then return moved end

local function enter(text)
  if ARGV[2] == 'list' then
    redis.call('LPUSH', KEYS[2], text)
    if queues then redis.pcall('SADD', queues, ARGV[3]) end
  elseif ARGV[2] == 'set' then
    redis.call('ZADD', KEYS[2], ARGV[3], text)
  end
end

if is_list then
  local places, is_complete =
    locate(KEYS[1], olds, tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
  -- A write that needs no memory: after it, Redis does not reject the others when it is full.
  redis.pcall('ZREM', KEYS[3], ARGV[8])
  for number, text in ipairs(news) do
    if places[number] then
      enter(text)
      moved[number] = 1
    elseif not is_complete then
      moved[number] = 2
    end
  end
  cut(KEYS[1], places, ARGV[8])
else
  for number, text in ipairs(news) do
    moved[number] = redis.call('ZREM', KEYS[1], olds[number])
    if moved[number] == 1 then enter(text) end
  end
end
for number, tag in ipairs(tags) do
  if moved[number] == 1 and tag ~= '' then apply_event(event, tag) end
end
return moved
