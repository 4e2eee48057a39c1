-- Stores jobs: all of them, or none.
-- A job whose mark is in the push memory of its target was stored before and is not stored again.
-- KEYS: the set of queues, unless the caller adds the names itself, and for each target its list or
-- sorted set and both halves of its push memory.
-- ARGV: milliseconds of push memory (0 for none), marks in one half; then for each target its queue
-- ('' for a sorted set), the count of its jobs, and for each job its mark, its score ('' in a
-- list) and its text.
-- Returns whether a half was full before its time (0 or 1), and the jobs that were stored before,
-- counted from 1.
local ARGUMENTS_MAX = 1000
local memory, marks_max = tonumber(ARGV[1]), tonumber(ARGV[2])
local reply = {0}
local failure

-- After an error, nothing more is written. Only the first write can fail: the types of the keys
-- were checked, and memory, disk and replicas are checked before it.
local function write(...)
  if failure then return end
  local result = redis.pcall(...)
  if type(result) == 'table' and result.err then
    -- Redis 6.2 puts the place in the script before the code.
    local text = string.match(result.err, '^@user_script: %d+: %-(.*)$')
    failure = text and redis.error_reply(text) or result
  end
end

local function write_all(command, key, values)
  for first = 1, #values, ARGUMENTS_MAX do
    local last = math.min(first + ARGUMENTS_MAX - 1, #values)
    write(command, key, unpack(values, first, last))
  end
end

-- Adds the marks that a half has to the set `known`. A key of another type has none.
local function look_up(half, marks, known)
  for first = 1, #marks, ARGUMENTS_MAX do
    local last = math.min(first + ARGUMENTS_MAX - 1, #marks)
    local found = redis.pcall('SMISMEMBER', half, unpack(marks, first, last))
    if found.err then return end
    for place = first, last do
      if found[place - first + 1] == 1 then known[marks[place]] = true end
    end
  end
end

-- Returns the half that takes marks and the other one. A half takes marks for the time of the
-- push memory and lasts twice as long, so the younger one has more time left.
local function halves(one, other)
  local left, other_left = redis.call('PTTL', one), redis.call('PTTL', other)
  if other_left > left then return other, one, other_left end
  return one, other, left
end

-- Adds the marks of a target to its push memory. Marks of jobs that were stored before are added
-- again: there is a write in any case, which covers the first one when the caller waits for
-- replicas.
local function remember(target)
  local one, left = target.one, target.left
  local size = redis.pcall('SCARD', one)
  local is_set = type(size) == 'number'
  local is_full = is_set and size >= marks_max
  local is_over = left <= memory or is_full or not is_set
  if is_over then
    if left > memory and is_full then reply[1] = 1 end
    write('UNLINK', target.other)
    if not is_set then write('UNLINK', one) end
    one, left = target.other, 2 * memory
  end
  write_all('SADD', one, target.marks)
  if is_over or target.is_repeated then write('PEXPIRE', one, math.max(left, 1)) end
end

-- The jobs of one target.
local function read_target(at)
  local target = {queue = ARGV[at], values = {}, marks = {}}
  for job = 1, tonumber(ARGV[at + 1]) do target.marks[job] = ARGV[at + 3 * job - 1] end
  return target
end

local queues = #KEYS % 3 == 1 and KEYS[1]
local targets, at, number = {}, 3, 0
for place = queues and 2 or 1, #KEYS, 3 do
  local target = read_target(at)
  target.key, target.is_list = KEYS[place], target.queue ~= ''
  local kind = redis.call('TYPE', target.key).ok
  if kind ~= 'none' and kind ~= (target.is_list and 'list' or 'zset') then
    return redis.error_reply('WRONGTYPE ' .. target.key .. ' is a ' .. kind)
  end
  local known = {}
  if memory > 0 then
    target.one, target.other, target.left = halves(KEYS[place + 1], KEYS[place + 2])
    look_up(target.one, target.marks, known)
    look_up(target.other, target.marks, known)
  end
  for job, mark in ipairs(target.marks) do
    number = number + 1
    if memory > 0 and known[mark] then
      reply[#reply + 1] = number
      target.is_repeated = true
    else
      known[mark] = true
      if not target.is_list then target.values[#target.values + 1] = ARGV[at + 3 * job] end
      target.values[#target.values + 1] = ARGV[at + 3 * job + 1]
    end
  end
  at = at + 2 + 3 * #target.marks
  targets[#targets + 1] = target
end

for _, target in ipairs(targets) do
  if #target.values > 0 and target.is_list and queues then write('SADD', queues, target.queue) end
  write_all(target.is_list and 'LPUSH' or 'ZADD', target.key, target.values)
end
if memory > 0 then
  for _, target in ipairs(targets) do
    remember(target)
  end
end
return failure or reply
