-- What Weir keeps for a job beside its text. Follows locks.lua.
-- A tag is JSON: `jid` of the job, `lock` if it may hold one. An event is what happens to the job:
-- 'succeeded', 'lost' (it ends without success), 'failed' (it waits for a retry, or is dead), 'failed-unlocked' (the
-- same, without its lock: an operator has killed it, or its retry enters another queue), 'freed' (it waits without
-- its lock), 'started' (its lock ends at the start).

-- The number of keys that a script gets for this, behind its other keys: the locks and their ends.
local FEATURE_KEYS = 2

-- Applies an event to what is kept for the job of a tag. Returns when its lock would have ended, if it held one.
local function apply_event(event, tag)
  local first = #KEYS - FEATURE_KEYS
  local job = cjson.decode(tag)
  if job.lock and event ~= 'failed' then
    return free_lock(KEYS[first + 1], KEYS[first + 2], job.lock, job.jid)
  end
end

