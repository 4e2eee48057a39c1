end

if mode == 'push' and paused == '0' then
  -- Only the first write can fail, and a push that fails has written nothing.
  local pushed = push()
  if type(pushed) == 'table' and pushed.err then return pushed end
end
handle()
return paused == '1' and mode == 'push' and 'paused' or 'handled'
