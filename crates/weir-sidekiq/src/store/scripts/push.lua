-- Stores jobs: all of them, or none. Follows locks.lua and batches.lua.
-- A job whose mark is in the push memory of its target was stored before and is not stored again.
-- KEYS: the set of queues, unless the caller adds the names itself, and for each target its list or
-- sorted set and both halves of its push memory; then the keys of features, if some of the jobs have any.
-- ARGV: milliseconds of push memory (0 for none), marks in one half, the number of jobs with features. If there
-- are any: 'all', 'each' (jobs that can't be stored are left out) or 'import' (all jobs are stored, without the
-- locks of others and without batches that do not exist), time in microseconds ('' for Redis' clock), the number of
-- locks that there may be; for each job with features its number (from 1), its jid, its lock ('' for none), the time in
-- microseconds from which its lock lasts ('' for now), how long, its batch ('' for none), and '1' if it has failed.
-- Then for each target its queue ('' for a sorted set), the count of its jobs, and for each job its mark, its
-- score ('' in a list) and its text.
-- Returns whether a half was full before its time (0 or 1); and the numbers of the jobs that were stored before, of
-- those whose lock another job has, of those for whose lock there is no room, and of those whose batch does not exist.
local ARGUMENTS_MAX = 1000
local memory, marks_max = tonumber(ARGV[1]), tonumber(ARGV[2])
local reply = {0, {}, {}, {}, {}}
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

local jobs_with_features = tonumber(ARGV[3])
local keys = #KEYS - (jobs_with_features > 0 and FEATURE_KEYS or 0)
local queues = keys % 3 == 1 and KEYS[1]
local targets, at, number = {}, 4, 0

-- The features of jobs by their numbers; the locks that they get; those that have run out; the batches that exist; and
-- the jobs that enter one.
local mode, now
local asked, taken, over, locks_left, batches, members = {}, {}, {}, 0, {}, {}

local function read_features()
  mode, now = ARGV[4], tonumber(ARGV[5])
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  at = 7 + 7 * jobs_with_features
  for place = 7, at - 1, 7 do
    local job = {jid = ARGV[place + 1], batch = ARGV[place + 5], has_failed = ARGV[place + 6] == '1'}
    if ARGV[place + 2] ~= '' then
      job.lock = ARGV[place + 2]
      job.ends_at = (tonumber(ARGV[place + 3]) or now) + tonumber(ARGV[place + 4])
    end
    asked[tonumber(ARGV[place])] = job
    if batches[job.batch] == nil then
      batches[job.batch] = job.batch ~= '' and redis.call('EXISTS', batch_key(job.batch)) == 1
    end
  end
  local held, max = redis.call('HLEN', LOCKS), tonumber(ARGV[6])
  local over_max = held < max and 4 * jobs_with_features or ARGUMENTS_MAX
  over = redis.call('ZRANGEBYSCORE', LOCK_ENDS, '-inf', string.format('%.0f', now), 'LIMIT', 0, over_max)
  locks_left = max - held + #over
end

-- Returns whether a job may be stored, and notes the lock that it gets.
local function admit(number)
  local job = asked[number]
  if not job then return true end
  local imports = mode == 'import'
  if job.batch ~= '' and not batches[job.batch] and not imports then
    table.insert(reply[5], number)
    return false
  end
  if job.lock and (taken[job.lock] or lock_holder(LOCKS, job.lock, now)) then
    if not imports then
      table.insert(reply[3], number)
      return false
    end
  elseif job.lock and locks_left <= 0 and not imports then
    table.insert(reply[4], number)
    return false
  elseif job.lock and job.ends_at > now then
    taken[job.lock] = job
    locks_left = locks_left - 1
  end
  if batches[job.batch] then members[#members + 1] = job end
  return true
end

local function write_features()
  if next(taken) then
    for _, lock in ipairs(over) do
      if not taken[lock] then
        write('HDEL', LOCKS, lock)
        write('ZREM', LOCK_ENDS, lock)
      end
    end
    for lock, job in pairs(taken) do set_lock(write, LOCKS, LOCK_ENDS, lock, job.jid, job.ends_at) end
    expire_locks(write, LOCKS, LOCK_ENDS, now)
  end
  if failure then return end
  for _, job in ipairs(members) do count_job(job.batch, job.jid, job.has_failed) end
  for batch, exists in pairs(batches) do
    if exists then settle(batch, now) end
  end
end

if jobs_with_features > 0 then read_features() end
for place = queues and 2 or 1, keys, 3 do
  local target = read_target(at)
  target.key, target.is_list = KEYS[place], target.queue ~= ''
  local kind = redis.call('TYPE', target.key).ok
  if kind ~= 'none' and kind ~= (target.is_list and 'list' or 'zset') then
    return redis.error_reply('WRONGTYPE ' .. target.key .. ' is a ' .. kind)
  end
  local known, left_out = {}, {}
  if memory > 0 then
    target.one, target.other, target.left = halves(KEYS[place + 1], KEYS[place + 2])
    look_up(target.one, target.marks, known)
    look_up(target.other, target.marks, known)
  end
  for job, mark in ipairs(target.marks) do
    number = number + 1
    if memory > 0 and known[mark] then
      table.insert(reply[2], number)
      target.is_repeated = true
    elseif admit(number) then
      known[mark] = true
      if not target.is_list then target.values[#target.values + 1] = ARGV[at + 3 * job] end
      target.values[#target.values + 1] = ARGV[at + 3 * job + 1]
    else
      left_out[#left_out + 1] = job
    end
  end
  at = at + 2 + 3 * #target.marks
  -- What is not stored now may be stored later.
  for place = #left_out, 1, -1 do table.remove(target.marks, left_out[place]) end
  targets[#targets + 1] = target
end
if mode == 'all' and #reply[3] + #reply[4] + #reply[5] > 0 then return reply end

for _, target in ipairs(targets) do
  if #target.values > 0 and target.is_list and queues then write('SADD', queues, target.queue) end
  write_all(target.is_list and 'LPUSH' or 'ZADD', target.key, target.values)
end
write_features()
if memory > 0 then
  for _, target in ipairs(targets) do
    remember(target)
  end
end
return failure or reply
