-- The lock protocol, shared by the function library and the scripts. Every call touches the keys of one lock namespace,
-- which lie in one cluster slot. Errors begin with a code of their own, LS_…, that the client maps to a typed error.

-- An acquisition id is 32 lower-case hexadecimal digits; its fixed width makes the comparison of a prefix of the
-- record exact.
local ID_LENGTH = 32

local function fail(code, text)
  return redis.error_reply('LS_' .. code .. ' ' .. text)
end

-- read_prefix returns the prefix of the lock namespace, from the key of its counter. Nothing that a caller sends beside the keys says
-- where the epoch record is, since a tenant could point it to a record of its own making.
local function read_prefix(lock_key, sequence_key)
  local prefix = string.match(sequence_key or '', '^(.+)!seq$')
  if not prefix or string.sub(lock_key or '', 1, #prefix + 5) ~= prefix .. 'lock:' then
    return nil, fail('BADKEYS', 'the keys are <prefix>lock:<key> and <prefix>!seq')
  end
  return prefix
end

-- read_epoch returns the parts of the epoch record, "<epoch> <longest TTL in ms, 0 is any> <1 if it arms itself>", or nothing.
local function read_epoch(prefix)
  local raw = redis.call('GET', prefix .. '!epoch')
  if not raw then
    return nil
  end
  return string.match(raw, '^(%d+) (%d+) ([01])$')
end

local function read_ttl(raw, max_ttl)
  local ttl = string.match(raw or '', '^%d+$') and tonumber(raw)
  if not ttl or ttl < 1 then
    return nil, fail('BADTTL', 'the TTL is a whole number of milliseconds from 1 up')
  end
  if tonumber(max_ttl) > 0 and ttl > tonumber(max_ttl) then
    return nil, fail('TTLTOOLONG', 'the longest TTL of this lock namespace is ' .. max_ttl .. ' ms')
  end
  return ttl
end

-- read_record returns the record of a lock, or nothing, or an error if the value is not a record of this protocol.
local function read_record(lock_key)
  local value = redis.pcall('GET', lock_key)
  if type(value) == 'table' and value.err then
    if string.find(value.err, 'WRONGTYPE', 1, true) then
      return nil, fail('FOREIGN', 'the key of the lock holds another type of value')
    end
    return nil, value
  end
  if not value then
    return nil
  end
  local _, id_end = string.find(value, '^[0-9a-f]+')
  if id_end ~= ID_LENGTH or not string.find(value, '^ %d+%-%d+ ', ID_LENGTH + 1) then
    return nil, fail('FOREIGN', 'the key of the lock holds a value of somebody else')
  end
  return value
end

local function holds(record, id)
  return #id == ID_LENGTH and string.sub(record, 1, ID_LENGTH) == id
end

-- The sequence of the token that a record carries.
local function sequence_of(record)
  return tonumber(string.match(record, '^ %d+%-(%d+) ', ID_LENGTH + 1))
end

-- read_clock returns the server's time in ms, or nothing if the user may not read it.
local function read_clock()
  local time = redis.pcall('TIME')
  return not time.err and time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The list of held keys, <prefix>!held, is for people: a sorted set of the names of keys, in the order in which their records run out. Locks do not
-- depend on it. A call keeps it only if it was given its key: a node of a cluster then does nothing before it has all keys of the call, and so begins no
-- list that would keep another node from handing over its own. Every access is a pcall, so a user without the commands, or who has put something else in its
-- place, still locks, and who reads the list looks at the records. A score is the time of the end in ms times SCALE, plus what the sequence of the token leaves of SCALE,
-- so that two names hardly ever have the same.
local SCALE = 1024

-- held_list returns the key of the list, or nothing if the call was not given it.
local function held_list(prefix, keys)
  return prefix and keys[3] == prefix .. '!held' and keys[3]
end

local function note_held(list, prefix, lock_key, ends, sequence)
  redis.pcall('ZADD', list, string.format('%.0f', ends * SCALE + sequence % SCALE), string.sub(lock_key, #prefix + 6))
end

local function note_free(list, prefix, lock_key)
  redis.pcall('ZREM', list, string.sub(lock_key, #prefix + 6))
end

-- sweep_held takes names out of the list whose records ran out, SWEEP of them at every SWEEP_EVERY-th grant: more than the grants between have added,
-- so the list is bounded by what is held.
local SWEEP, SWEEP_EVERY = 32, 16

local function sweep_held(list, prefix, now)
  local names = redis.pcall('ZRANGEBYSCORE', list, '-inf', string.format('%.0f', now * SCALE), 'LIMIT', 0, SWEEP)
  if names.err then
    return
  end
  for _, name in ipairs(names) do
    local lock_key = prefix .. 'lock:' .. name
    local left = redis.pcall('PTTL', lock_key)
    if type(left) == 'number' and left > 0 then
      -- A renewal was not noted.
      note_held(list, prefix, lock_key, now + left, 0)
    else
      note_free(list, prefix, lock_key)
    end
  end
end

-- grant gives the lock to id: a free one, or, with from, the one that from holds. Returns {1, epoch, sequence}, or {0, remaining ms, record}, or {}
-- if from held nothing. check decides whether the store may grant at all, and returns an error if not.
local function grant(keys, from, id, raw_ttl, owner, check)
  local prefix, bad_keys = read_prefix(keys[1], keys[2])
  if bad_keys then
    return bad_keys
  end
  if #id ~= ID_LENGTH or string.find(id, '[^0-9a-f]') then
    return fail('BADID', 'the acquisition id is 32 lower-case hexadecimal digits')
  end
  local record, foreign = read_record(keys[1])
  if foreign then
    return foreign
  end
  local left = record and redis.call('PTTL', keys[1])
  if record and left < 0 then
    return fail('FOREIGN', 'the record of the lock never runs out')
  end
  local epoch, max_ttl, self_arm = read_epoch(prefix)
  if record and not epoch then
    -- A cluster moves the slot and this key has not followed, or somebody has deleted it. Nothing may make another one meanwhile.
    if from then
      return fail('NOEPOCH', 'the lock namespace has no epoch record')
    end
    return {0, left, record}
  end
  local refused
  epoch, max_ttl, refused = check(prefix, epoch, max_ttl, self_arm)
  if refused then
    return refused
  end
  local ttl, bad_ttl = read_ttl(raw_ttl, max_ttl)
  if bad_ttl then
    return bad_ttl
  end
  if record and not (from and holds(record, from)) then
    return {0, left, record}
  end
  if from and not record then
    return {}
  end
  local sequence = redis.call('INCR', keys[2])
  local token = epoch .. '-' .. string.format('%.0f', sequence)
  local now = read_clock()
  local since = now and string.format(' @%.0f', now) or ''
  redis.call('SET', keys[1], id .. ' ' .. token .. ' ' .. owner .. since, 'PX', ttl)
  local list = held_list(prefix, keys)
  if now and list then
    note_held(list, prefix, keys[1], now + ttl, sequence)
    if sequence % SWEEP_EVERY == 0 then
      sweep_held(list, prefix, now)
    end
  end
  return {1, epoch, sequence}
end

-- acquire: keys lock, counter, and the list to keep it; args id, ttl, owner. Returns {1, epoch, sequence}, or {0, remaining ms, record}.
local function acquire(keys, args, check)
  return grant(keys, nil, args[1], args[2], args[3], check)
end

-- pass: keys lock, counter, and the list to keep it; args id, ttl, owner, id of the holder. Returns as acquire, or {} if nobody holds the lock. It publishes nothing:
-- the lock is not free.
local function pass(keys, args, check)
  return grant(keys, args[4] or '', args[1], args[2], args[3], check)
end

-- renew: keys lock, counter, and the list to keep it; args id, ttl. Returns 1, or 0 if the id is not the holder's. It needs no arming: a record that is there
-- was not lost, and a renewal creates none.
local function renew(keys, args)
  local prefix, bad_keys = read_prefix(keys[1], keys[2])
  if bad_keys then
    return bad_keys
  end
  local epoch, max_ttl = read_epoch(prefix)
  if not epoch then
    return fail('NOEPOCH', 'the lock namespace has no epoch record')
  end
  local ttl, bad_ttl = read_ttl(args[2], max_ttl)
  if bad_ttl then
    return bad_ttl
  end
  local record, foreign = read_record(keys[1])
  if foreign then
    return foreign
  end
  if not record or not holds(record, args[1]) then
    return 0
  end
  redis.call('PEXPIRE', keys[1], ttl)
  local list = held_list(prefix, keys)
  local now = list and read_clock()
  if now then
    note_held(list, prefix, keys[1], now + ttl, sequence_of(record))
  end
  return 1
end

-- release: keys lock, counter, and the list to keep it; args id, channel. Returns 1, or 0 if the id is not the holder's. A caller of an older version does
-- not give the counter: then the key stays in the list until it is swept.
local function release(keys, args)
  local record, foreign = read_record(keys[1])
  if foreign then
    return foreign
  end
  if not record or not holds(record, args[1]) then
    return 0
  end
  redis.call('DEL', keys[1])
  local prefix = read_prefix(keys[1], keys[2])
  local list = held_list(prefix, keys)
  if list then
    note_free(list, prefix, keys[1])
  end
  -- The lock is free now, whatever becomes of the notification: an error here would tell that nothing was applied.
  redis.pcall('PUBLISH', args[2], '')
  return 1
end

-- inspect: key lock. Returns {} or {remaining ms, record}.
local function inspect(keys)
  local record, foreign = read_record(keys[1])
  if foreign then
    return foreign
  end
  if not record then
    return {}
  end
  return {redis.call('PTTL', keys[1]), record}
end

-- force_release: keys lock, counter, and the list to keep it; args id or '' for whoever holds the lock. Returns {remaining ms, record, epoch, sequence} of what was taken away
-- and of a token after it (sequence 0 if none could be made), or {} if there is no such holder. It needs no arming, as a release does not.
local function force_release(keys, args)
  local prefix, bad_keys = read_prefix(keys[1], keys[2])
  if bad_keys then
    return bad_keys
  end
  local record, foreign = read_record(keys[1])
  if foreign then
    return foreign
  end
  local id = args[1] or ''
  if not record or id ~= '' and not holds(record, id) then
    return {}
  end
  local epoch = read_epoch(prefix)
  if not epoch then
    return fail('NOEPOCH', 'the lock namespace has no epoch record')
  end
  local left = redis.call('PTTL', keys[1])
  redis.call('DEL', keys[1])
  -- After a write a script may write more although the memory is full. The lock is free now, whatever becomes of the rest.
  local sequence = redis.pcall('INCR', keys[2])
  local list = held_list(prefix, keys)
  if list then
    note_free(list, prefix, keys[1])
  end
  redis.pcall('PUBLISH', prefix .. 'free:' .. string.sub(keys[1], #prefix + 6), '')
  return {left, record, epoch, type(sequence) == 'number' and sequence or 0}
end

-- list: key counter; args cursor or '', limit. Returns {next cursor or '', name, remaining ms, record, name, …}. The cursor is the score at which the page
-- ended, which the next page repeats, since another name may have the same; it goes on behind it when a whole page had one score.
local LONGEST_PAGE = 512

local function list(keys, args)
  local prefix = string.match(keys[1] or '', '^(.+)!seq$')
  if not prefix then
    return fail('BADKEYS', 'the key is <prefix>!seq')
  end
  local limit = math.max(1, math.min(tonumber(args[2]) or 1, LONGEST_PAGE))
  local from = args[1] and args[1] ~= '' and args[1] or '-inf'
  local names = redis.call('ZRANGEBYSCORE', prefix .. '!held', from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  local last = names[#names]
  local page = {''}
  if #names == 2 * limit then
    page[1] = names[2] == last and '(' .. last or last
  end
  for i = 1, #names, 2 do
    local lock_key = prefix .. 'lock:' .. names[i]
    local record = read_record(lock_key)
    local left = record and redis.call('PTTL', lock_key)
    if record and left >= 0 then
      page[#page + 1] = names[i]
      page[#page + 1] = left
      page[#page + 1] = record
    end
  end
  return page
end
