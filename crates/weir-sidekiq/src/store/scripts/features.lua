-- What Weir keeps for a job beside its text. Follows locks.lua and batches.lua.
-- A tag is JSON: `jid` of the job, `lock` if it may hold one, `batch` if it belongs to one, `callback` if it may be a
-- callback of that batch, `now` in microseconds unless that is Redis' clock. An event is what happens to the job:
-- 'succeeded', 'lost' (it ends without success), 'failed' (it waits for a retry, or is dead), 'failed-unlocked' (the
-- same, without its lock: an operator has killed it, or its retry enters another queue), 'freed' (it waits without
-- its lock), 'started' (its lock ends at the start).

-- Applies an event to what is kept for the job of a tag. Returns when its lock would have ended, if it held one.
local function apply_event(event, tag)
  local job, freed = cjson.decode(tag), nil
  if job.lock and event ~= 'failed' then freed = free_lock(LOCKS, LOCK_ENDS, job.lock, job.jid) end
  if job.batch then count_event(job.batch, job.jid, event, now_micros(job.now)) end
  if job.callback and event == 'succeeded' then note_callback(job.callback, job.jid, now_micros(job.now)) end
  return freed
end

