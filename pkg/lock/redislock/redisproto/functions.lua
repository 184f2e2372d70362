-- armed has the epoch that each prefix is armed for. It lives in the server's memory alone, so a restart, a reload of
-- the library or a promoted replica begins unarmed: whoever may have lost data grants nothing until it is armed again.
local armed = {}

local function check_armed(prefix, epoch, max_ttl, self_arm)
  if not epoch then
    return nil, nil, fail('NOEPOCH', 'the lock namespace has no epoch record')
  end
  if armed[prefix] ~= epoch then
    if self_arm ~= '1' then
      return nil, nil, fail('NOTARMED', 'the lock namespace is not armed')
    end
    armed[prefix] = epoch
  end
  return epoch, max_ttl, nil
end

-- touch_operator_key fails for every user but the operator: no tenant's pattern matches the key. The key is made from the prefix, not
-- taken from the caller, who could declare a key of its own. It has the prefix's hash tag, so that the node of a cluster that serves the prefix has it.
local function touch_operator_key(prefix)
  redis.call('GET', string.match(prefix, '^[^:]*') .. ':!arm' .. (string.match(prefix, '{[^}]*}') or ''))
end

-- arm: key of the operator; args prefix, epoch.
local function arm(keys, args)
  touch_operator_key(args[1])
  if read_epoch(args[1]) ~= args[2] then
    return fail('NOEPOCH', 'the epoch record is not of the epoch to be armed')
  end
  armed[args[1]] = args[2]
  return 1
end

-- armed_epochs: key of the operator; args prefixes. Returns for each the epoch it is armed for, or ''.
local function armed_epochs(keys, args)
  local epochs = {}
  for i, prefix in ipairs(args) do
    touch_operator_key(prefix)
    epochs[i] = armed[prefix] or ''
  end
  return epochs
end

redis.register_function('lockstead_acquire', function(keys, args) return acquire(keys, args, check_armed) end)
redis.register_function('lockstead_pass', function(keys, args) return pass(keys, args, check_armed) end)
redis.register_function{function_name='lockstead_renew', callback=renew, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_release', callback=release, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_force_release', callback=force_release, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_list', callback=list, flags={'no-writes'}}
redis.register_function{function_name='lockstead_inspect', callback=inspect, flags={'no-writes'}}
redis.register_function{function_name='lockstead_arm', callback=arm, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_armed_epochs', callback=armed_epochs, flags={'no-writes'}}
