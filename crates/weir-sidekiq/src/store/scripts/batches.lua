-- Batches of jobs and their callbacks. Follows locks.lua.
-- The last keys of a script are those of features: locks, their ends, a sorted set of the batches by the time in
-- microseconds when they expire, the set of the batches whose jobs that are left have all failed, and Sidekiq's set of
-- queues. What belongs to a batch has keys behind that of all batches:
-- `:ID`, a hash, and `:ID:jobs`, a hash with its live jobs by jid (the value is 'f' if the job has failed once).
-- `:ID:children` is the set of its child batches. `:bytes` has the bytes of the definitions of all batches.
-- The hash of a batch has: parent, description, created_at, bytes, committed, total, lost, failed (counts of jobs),
-- age_open, age_committed (microseconds), incomplete, unsuccessful (counts of children), is_completed and
-- has_succeeded ('1' or '0'), and for each callback (`complete`, `success`) its JSON, its state as `_st` ('-' if there
-- is none, '' while it is pending, '1' once it is enqueued, '2' once it has succeeded), and what is pushed: `_jid`,
-- `_queue`, `_at` (score, '' for none), `_text` (without its end), `_lock` and `_lasts` ('' for none).
local FEATURE_KEYS = 5
local feature_key = #KEYS - FEATURE_KEYS
local LOCKS, LOCK_ENDS = KEYS[feature_key + 1], KEYS[feature_key + 2]
local BATCHES, BATCHES_WAITING = KEYS[feature_key + 3], KEYS[feature_key + 4]
local QUEUES = KEYS[feature_key + 5]
-- Parents above a batch that one script changes, so that a loop of them, which only an import can make, ends.
local PARENTS_MAX = 1000

local function batch_key(id) return BATCHES .. ':' .. id end

local function now_micros(time)
  if tonumber(time) then return tonumber(time) end
  local read = redis.call('TIME')
  return read[1] * 1000000 + read[2]
end

-- Stores the job of a callback. The key of its queue may be of another type: then it goes to the dead set.
local function enqueue_callback(batch, kind, now)
  local fields = {'_jid', '_queue', '_at', '_text', '_lock', '_lasts'}
  for place, field in ipairs(fields) do fields[place] = kind .. field end
  local jid, queue, at, text, lock, lasts = unpack(redis.call('HMGET', batch, unpack(fields)))
  local sidekiqs = string.sub(QUEUES, 1, -1 - #'queues')
  local seconds = string.format('%.0f.%06d', math.floor(now / 1000000), now % 1000000)
  if at ~= '' then
    redis.pcall('ZADD', sidekiqs .. 'schedule', at, text .. '}')
  else
    redis.pcall('SADD', QUEUES, queue)
    local whole = text .. ',"enqueued_at":' .. seconds .. '}'
    local pushed = redis.pcall('LPUSH', sidekiqs .. 'queue:' .. queue, whole)
    if type(pushed) ~= 'number' then redis.pcall('ZADD', sidekiqs .. 'dead', seconds, whole) end
  end
  if lock ~= '' and not lock_holder(LOCKS, lock, now) then
    local from = at ~= '' and tonumber(at) * 1000000 or now
    set_lock(redis.pcall, LOCKS, LOCK_ENDS, lock, jid, from + tonumber(lasts))
    expire_locks(redis.pcall, LOCKS, LOCK_ENDS, now)
  end
  redis.call('HSET', batch, kind .. '_st', '1')
end

-- Returns how long a batch is kept from its last change.
local function age_of(batch)
  local has_succeeded, committed, open, kept =
    unpack(redis.call('HMGET', batch, 'has_succeeded', 'committed', 'age_open', 'age_committed'))
  return tonumber((has_succeeded == '1' or committed ~= '1') and open or kept)
end

local function keep_until(id, time)
  redis.call('ZADD', BATCHES, string.format('%.0f', time), id)
end

-- Finds out what follows from a change of one batch: stores its callbacks that are due. Returns its parent, if that
-- has changed as well.
local function settle_one(id, now)
  local key = batch_key(id)
  local committed, failed, lost, incomplete, unsuccessful, complete, success, was_completed, had_succeeded, parent =
    unpack(redis.call('HMGET', key, 'committed', 'failed', 'lost', 'incomplete', 'unsuccessful', 'complete_st',
      'success_st', 'is_completed', 'has_succeeded', 'parent'))
  if not committed then return nil end
  local live = redis.call('HLEN', key .. ':jobs')
  failed = tonumber(failed)
  local waits = committed == '1' and live > 0 and live == failed
  redis.call(waits and 'SADD' or 'SREM', BATCHES_WAITING, id)
  local has_run = committed == '1' and live == failed and tonumber(incomplete) == 0
  if complete == '' and has_run then
    enqueue_callback(key, 'complete', now)
    complete = '1'
  end
  local is_completed = has_run and (complete == '-' or complete == '2')
  local jobs_succeeded =
    is_completed and live == 0 and tonumber(lost) == 0 and tonumber(unsuccessful) == 0
  if success == '' and jobs_succeeded then
    enqueue_callback(key, 'success', now)
    success = '1'
  end
  local has_succeeded = jobs_succeeded and (success == '-' or success == '2')
  was_completed, had_succeeded = was_completed == '1', had_succeeded == '1'
  if is_completed == was_completed and has_succeeded == had_succeeded then return nil end
  redis.call('HSET', key, 'is_completed', is_completed and '1' or '0', 'has_succeeded', has_succeeded and '1' or '0')
  if has_succeeded ~= had_succeeded then keep_until(id, now + age_of(key)) end
  if parent == '' or redis.call('EXISTS', batch_key(parent)) == 0 then return nil end
  if is_completed ~= was_completed then
    redis.call('HINCRBY', batch_key(parent), 'incomplete', is_completed and -1 or 1)
  end
  if has_succeeded ~= had_succeeded then
    redis.call('HINCRBY', batch_key(parent), 'unsuccessful', has_succeeded and -1 or 1)
  end
  return parent
end

-- The same for a batch and its parents.
local function settle(id, now)
  for _ = 1, PARENTS_MAX do
    id = settle_one(id, now)
    if not id then return end
  end
end

-- Counts a job that was stored, and is a live job of a batch that exists. The caller settles the batch.
local function count_job(id, jid, has_failed)
  local key = batch_key(id)
  if redis.call('HSET', key .. ':jobs', jid, has_failed and 'f' or 'w') == 0 then return end
  redis.call('HINCRBY', key, 'total', 1)
  if has_failed then redis.call('HINCRBY', key, 'failed', 1) end
end

-- Counts what happened to a job of a batch. A job that has ended counts no more.
local function count_event(id, jid, event, now)
  local key = batch_key(id)
  local state = redis.pcall('HGET', key .. ':jobs', jid)
  if type(state) ~= 'string' then return end
  if event == 'succeeded' or event == 'lost' then
    redis.call('HDEL', key .. ':jobs', jid)
    if state == 'f' then redis.call('HINCRBY', key, 'failed', -1) end
    if event == 'lost' then redis.call('HINCRBY', key, 'lost', 1) end
  elseif (event == 'failed' or event == 'failed-unlocked') and state ~= 'f' then
    redis.call('HSET', key .. ':jobs', jid, 'f')
    redis.call('HINCRBY', key, 'failed', 1)
  else
    return
  end
  settle(id, now)
end

-- Notes that the job of a callback has succeeded.
local function note_callback(id, jid, now)
  local key = batch_key(id)
  for _, kind in ipairs({'complete', 'success'}) do
    local known, state = unpack(redis.call('HMGET', key, kind .. '_jid', kind .. '_st'))
    if known == jid and state == '1' then
      redis.call('HSET', key, kind .. '_st', '2')
      settle(id, now)
    end
  end
end

-- Connects a batch with its parent, if there is one.
local function join_parent(id, parent, now)
  local is_completed, has_succeeded = unpack(redis.call('HMGET', batch_key(id), 'is_completed', 'has_succeeded'))
  if parent == '' or redis.call('EXISTS', batch_key(parent)) == 0 then return end
  if is_completed ~= '1' then redis.call('HINCRBY', batch_key(parent), 'incomplete', 1) end
  if has_succeeded ~= '1' then redis.call('HINCRBY', batch_key(parent), 'unsuccessful', 1) end
  settle(parent, now)
end

-- Deletes a batch. It no longer holds up its parent.
local function remove_batch(id, now)
  local key = batch_key(id)
  local parent, bytes, is_completed, has_succeeded =
    unpack(redis.call('HMGET', key, 'parent', 'bytes', 'is_completed', 'has_succeeded'))
  redis.call('DEL', key, key .. ':jobs')
  redis.call('ZREM', BATCHES, id)
  redis.call('SREM', BATCHES_WAITING, id)
  redis.call('INCRBY', BATCHES .. ':bytes', string.format('%.0f', -(tonumber(bytes) or 0)))
  if not parent or parent == '' then return end
  redis.call('SREM', batch_key(parent) .. ':children', id)
  if redis.call('EXISTS', batch_key(parent)) == 0 then return end
  if is_completed ~= '1' then redis.call('HINCRBY', batch_key(parent), 'incomplete', -1) end
  if has_succeeded ~= '1' then redis.call('HINCRBY', batch_key(parent), 'unsuccessful', -1) end
  settle(parent, now)
end

