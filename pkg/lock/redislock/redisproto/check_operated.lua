-- The operator of the server decides whether locks are granted. It writes the epoch record, whose last part says "may grant", and loads the scripts with this check,
-- which are gone after a restart: a server that may have lost data grants nothing until the operator has looked at it.
local function check_epoch(prefix, epoch, max_ttl, may_grant)
  if not epoch then
    return nil, nil, fail('NOEPOCH', 'the lock namespace has no epoch record')
  end
  if may_grant ~= '1' then
    return nil, nil, fail('NOTARMED', 'the lock namespace is not armed')
  end
  return epoch, max_ttl, nil
end
