end

if mode == 'push' and paused == '0' then
  -- Only the first write can fail, and a push that fails has written nothing.
  local pushed = push()
  if pushed.err then return pushed end
  if #pushed[4] > 0 then return 'no-room' end
  if #pushed[5] > 0 then return 'no-batch' end
  handle()
  return #pushed[3] > 0 and 'left-out' or 'handled'
end
handle()
return paused == '1' and mode == 'push' and 'paused' or 'handled'
