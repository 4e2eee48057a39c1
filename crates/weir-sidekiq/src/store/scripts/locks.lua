-- The locks of unique jobs: a hash from a lock to the time in microseconds when it ends and the jid of the job that
-- holds it, and a sorted set of these times. Both expire with the last lock.

-- Returns the jid of the job that holds a lock, and when the lock ends; nothing if it is free.
local function lock_holder(locks, lock, now)
  local text = redis.pcall('HGET', locks, lock)
  local ends_at, jid = string.match(type(text) == 'string' and text or '', '^(%d+) (.*)$')
  if ends_at and tonumber(ends_at) > now then return jid, tonumber(ends_at) end
end

-- Frees a lock if this job holds it. Returns when it would have ended.
local function free_lock(locks, ends, lock, jid)
  local holder, ends_at = lock_holder(locks, lock, 0)
  if holder ~= jid then return nil end
  redis.pcall('HDEL', locks, lock)
  redis.pcall('ZREM', ends, lock)
  return ends_at
end

-- Gives a lock to a job. `run` executes a command.
local function set_lock(run, locks, ends, lock, jid, ends_at)
  local time = string.format('%.0f', ends_at)
  run('HSET', locks, lock, time .. ' ' .. jid)
  run('ZADD', ends, time, lock)
end

-- Lets Redis forget all locks once the last one has ended.
local function expire_locks(run, locks, ends, now)
  local last = redis.pcall('ZRANGE', ends, -1, -1, 'WITHSCORES')
  local left = last[2] and tonumber(last[2]) - now or 0
  if left > 0 then
    local seconds = string.format('%.0f', math.ceil(left / 1000000))
    run('EXPIRE', locks, seconds)
    run('EXPIRE', ends, seconds)
  end
end

