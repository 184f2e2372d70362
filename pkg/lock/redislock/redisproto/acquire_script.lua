-- Without functions there is no memory to be armed in. An epoch record that is missing is made from the server's clock, so that
-- tokens go on growing when the data was lost.
local function check_epoch(prefix, epoch, max_ttl)
  if not epoch then
    epoch, max_ttl = redis.call('TIME')[1], '0'
    redis.call('SET', prefix .. '!epoch', epoch .. ' ' .. max_ttl .. ' 1')
  end
  return epoch, max_ttl, nil
end

return acquire(KEYS, ARGV, check_epoch)
