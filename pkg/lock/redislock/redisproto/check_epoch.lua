-- Without functions there is no memory to be armed in. An epoch record that is missing is made from the server's clock, so that
-- tokens go on growing when the data was lost. A user who may only read the record waits until the operator has made it.
local function check_epoch(prefix, epoch, max_ttl)
  if not epoch then
    epoch, max_ttl = redis.call('TIME')[1], '0'
    local made = redis.pcall('SET', prefix .. '!epoch', epoch .. ' ' .. max_ttl .. ' 1')
    if made.err and string.find(made.err, 'OOM', 1, true) then
      return nil, nil, made
    end
    if made.err then
      return nil, nil, fail('NOEPOCH', 'the lock namespace has no epoch record, and this user may not make one')
    end
  end
  return epoch, max_ttl, nil
end
