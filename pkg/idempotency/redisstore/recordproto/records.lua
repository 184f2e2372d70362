-- Idempotency records on a server that keeps locks. Errors begin with a code of their own, LSR_…, that the store maps to a typed error.
--
-- All records of a lock namespace are fields of one hash, <prefix>!records, so that their number, their bytes and their end are told by a few short commands, and
-- removing them is removing three keys. The field '!used' has the bytes that they are charged with; the others have 32 bytes for a name. <prefix>!records-ends is
-- a sorted set of the names by the time at which their retention is over, in ms; both keys run out when the last record does. <prefix>!records-limits,
-- "<most bytes of a response> <share in bytes>", and <root>:!records, the thousandths of every share that may be used now, are the operator's; tenants read them.

local NAME_LENGTH = 32
local USED = '!used'

-- A record is charged as if its value had at least FLOOR bytes, so that whatever was begun can be ended, without its response. The quarter on top is what the
-- allocator rounds up, and OVERHEAD is the rest of what a field and a member take.
local FLOOR, OVERHEAD = 768, 256

-- PURGE records whose retention is over go with every one that is begun.
local PURGE, SWEEP = 32, 512

local function fail(code, text)
  return redis.error_reply('LSR_' .. code .. ' ' .. text)
end

local function charge(length)
  if length == 0 then
    return 0
  end
  return OVERHEAD + math.ceil(math.max(length, FLOOR) * 5 / 4)
end

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function text_of(number)
  return string.format('%.0f', number)
end

-- read_call returns the prefix and the name of the record, or an error.
local function read_call(keys, args)
  local prefix = string.match(keys[1] or '', '^(.+)!records$')
  if not prefix then
    return nil, nil, fail('BADCALL', 'the key is <prefix>!records')
  end
  if #(args[1] or '') ~= NAME_LENGTH then
    return nil, nil, fail('BADCALL', 'the name of a record has 32 bytes')
  end
  return prefix, args[1]
end

local function read_whole(raw)
  return string.match(raw or '', '^%d+$') and #raw <= 15 and tonumber(raw)
end

-- read_limits returns the most bytes of a response, and what may be used now.
local function read_limits(prefix)
  local limits = redis.call('GET', prefix .. '!records-limits')
  local part = read_whole(redis.call('GET', string.match(prefix, '^[^:]*') .. ':!records') or nil)
  local most, share = string.match(limits or '', '^(%d+) (%d+)$')
  if not most or not part then
    return nil, nil, fail('NOLIMITS', 'the operator has not set the limits of this lock namespace')
  end
  return tonumber(most), math.floor(tonumber(share) * part / 1000)
end

local function foreign()
  return fail('FOREIGN', 'the key of the records holds what this library did not write')
end

-- read_record returns a record, or nothing when there is none or its retention is over, or an error.
local function read_record(prefix, name, now)
  local value = redis.pcall('HGET', prefix .. '!records', name)
  if type(value) == 'table' and value.err then
    if string.find(value.err, 'WRONGTYPE', 1, true) then
      return nil, foreign()
    end
    return nil, value
  end
  if not value then
    return nil
  end
  local ok, state, owner, token, fingerprint, lease, ends, response = pcall(cmsgpack.unpack, value)
  if not ok or type(state) ~= 'number' or type(owner) ~= 'string' or type(token) ~= 'string' or type(fingerprint) ~= 'string' or
    type(lease) ~= 'number' or type(ends) ~= 'number' or type(response) ~= 'string' then
    return nil, foreign()
  end
  if ends <= now then
    return nil
  end
  return {state = state, owner = owner, token = token, fingerprint = fingerprint, lease = lease, ends = ends, response = response}
end

local function pack(r)
  return cmsgpack.pack(r.state, r.owner, r.token, r.fingerprint, r.lease, r.ends, r.response)
end

local function reply_of(r, now)
  if not r then
    return {0, '', '', '', 0, ''}
  end
  return {r.state, r.owner, r.token, r.fingerprint, r.lease - now, r.response}
end

local function count(prefix, change)
  if change ~= 0 then
    redis.call('HINCRBY', prefix .. '!records', USED, text_of(change))
  end
end

-- remove takes a record away, or only its name from the list of ends if there is none.
local function remove(prefix, name)
  local length = redis.call('HSTRLEN', prefix .. '!records', name)
  if length > 0 then
    redis.call('HDEL', prefix .. '!records', name)
    count(prefix, -charge(length))
  end
  redis.call('ZREM', prefix .. '!records-ends', name)
end

local function purge(prefix, now, limit)
  local over = redis.call('ZRANGEBYSCORE', prefix .. '!records-ends', '-inf', text_of(now), 'LIMIT', 0, limit)
  for _, name in ipairs(over) do
    remove(prefix, name)
  end
  return #over
end

local function keep_until(prefix, left)
  for _, key in ipairs({prefix .. '!records', prefix .. '!records-ends'}) do
    if redis.call('PTTL', key) < left then
      redis.call('PEXPIRE', key, text_of(left))
    end
  end
end

-- put writes a record whose charge was found to be in order.
local function put(prefix, name, r, value, growth, now)
  redis.call('HSET', prefix .. '!records', name, value)
  count(prefix, growth)
  redis.call('ZADD', prefix .. '!records-ends', text_of(r.ends), name)
  keep_until(prefix, r.ends - now)
end

-- growth_of is what a value adds to the bytes that are charged.
local function growth_of(prefix, name, value)
  return charge(#value) - charge(redis.call('HSTRLEN', prefix .. '!records', name))
end

-- full refuses what would go beyond the share.
local function full(prefix, growth, share)
  local used = tonumber(redis.call('HGET', prefix .. '!records', USED) or 0)
  if growth > 0 and used + growth > share then
    return fail('FULL', text_of(used) .. ' ' .. text_of(share))
  end
end

-- get: key records; argument name. Returns {state, owner, token, fingerprint, rest of the lease in ms, response}.
local function get(keys, args)
  local prefix, name, bad = read_call(keys, args)
  if bad then
    return bad
  end
  local now = server_time()
  local record, wrong = read_record(prefix, name, now)
  return wrong or reply_of(record, now)
end

-- begin: key records; arguments name, owner, token, fingerprint, lease in ms, retention in ms. Returns as get.
local function begin(keys, args)
  local prefix, name, bad = read_call(keys, args)
  if bad then
    return bad
  end
  local owner, token, fingerprint, lease, retention = args[2], args[3], args[4], read_whole(args[5]), read_whole(args[6])
  if not retention or not lease or #owner > 128 or #token > 64 or #fingerprint > 64 then
    return fail('BADCALL', 'the arguments are name, owner, token, fingerprint, lease and retention')
  end
  local now = server_time()
  local found, wrong = read_record(prefix, name, now)
  if wrong then
    return wrong
  end
  if found and not (found.state == 1 and found.lease <= now and (token == '' or token >= found.token)) then
    return reply_of(found, now)
  end
  local _, share, unlimited = read_limits(prefix)
  if unlimited then
    return unlimited
  end
  purge(prefix, now, PURGE)
  local record = {
    state = 1, owner = owner, token = token, fingerprint = fingerprint, lease = now + lease, ends = now + math.max(lease, retention), response = '',
  }
  local value = pack(record)
  local growth = growth_of(prefix, name, value)
  local refused = full(prefix, growth, share)
  if refused then
    return refused
  end
  put(prefix, name, record, value, growth, now)
  return reply_of(record, now)
end

-- mine returns the record in flight of an owner, or the state that there is instead.
local function mine(prefix, name, owner, token, now)
  local record, wrong = read_record(prefix, name, now)
  if wrong then
    return nil, wrong
  end
  if record and record.owner == owner and record.token == token then
    return record
  end
  return nil, record and record.state or 0
end

-- complete: key records; arguments name, owner, token, state, response, retention in ms. Returns -1, or the state that it found instead. What fits into
-- the charge of the record as it was begun is always taken.
local function complete(keys, args)
  local prefix, name, bad = read_call(keys, args)
  if bad then
    return bad
  end
  local state, response, retention = read_whole(args[4]), args[5], read_whole(args[6])
  if not state or not retention then
    return fail('BADCALL', 'the arguments are name, owner, token, state, response and retention')
  end
  local now = server_time()
  local record, other = mine(prefix, name, args[2], args[3], now)
  if not record then
    return other
  end
  if record.state == state then
    return -1
  end
  if record.state ~= 1 then
    return record.state
  end
  record.state, record.response, record.ends = state, response, now + retention
  local value = pack(record)
  local growth = growth_of(prefix, name, value)
  if growth > 0 then
    local most, share, unlimited = read_limits(prefix)
    if unlimited then
      return unlimited
    end
    if #response > most then
      return fail('TOOLARGE', text_of(#response) .. ' ' .. text_of(most))
    end
    local refused = full(prefix, growth, share)
    if refused then
      return refused
    end
  end
  put(prefix, name, record, value, growth, now)
  return -1
end

-- complete_small is complete of a response of at most SMALL bytes, also on a server that is full.
local SMALL = 256

local function complete_small(keys, args)
  if #(args[5] or '') > SMALL then
    return fail('BADCALL', 'the response is not small')
  end
  return complete(keys, args)
end

-- extend: key records; arguments name, owner, token, lease in ms. Returns as complete.
local function extend(keys, args)
  local prefix, name, bad = read_call(keys, args)
  if bad then
    return bad
  end
  local lease = read_whole(args[4])
  if not lease then
    return fail('BADCALL', 'the arguments are name, owner, token and lease')
  end
  local now = server_time()
  local record, other = mine(prefix, name, args[2], args[3], now)
  if not record then
    return other
  end
  if record.state ~= 1 then
    return record.state
  end
  record.lease = now + lease
  record.ends = math.max(record.ends, record.lease)
  local value = pack(record)
  put(prefix, name, record, value, growth_of(prefix, name, value), now)
  return -1
end

-- abort: key records; arguments name, owner, token. Returns as complete.
local function abort(keys, args)
  local prefix, name, bad = read_call(keys, args)
  if bad then
    return bad
  end
  local record, other = mine(prefix, name, args[2], args[3], server_time())
  if not record then
    return other == 0 and -1 or other
  end
  if record.state ~= 1 then
    return record.state
  end
  remove(prefix, name)
  return -1
end

-- recount makes the charge and the list of ends what the records are.
local function recount(prefix, now)
  local records, ends = prefix .. '!records', prefix .. '!records-ends'
  local used, left = 0, 0
  for _, name in ipairs(redis.call('HKEYS', records)) do
    local score = #name == NAME_LENGTH and redis.call('ZSCORE', ends, name)
    if not score and name ~= USED then
      local record = #name == NAME_LENGTH and read_record(prefix, name, now)
      if record then
        score = record.ends
        redis.call('ZADD', ends, text_of(score), name)
      else
        redis.call('HDEL', records, name)
      end
    end
    if score then
      used = used + charge(redis.call('HSTRLEN', records, name))
      left = math.max(left, tonumber(score) - now)
    end
  end
  for _, name in ipairs(redis.call('ZRANGE', ends, 0, -1)) do
    if redis.call('HEXISTS', records, name) == 0 then
      redis.call('ZREM', ends, name)
    end
  end
  if used == 0 then
    redis.call('DEL', records, ends)
    return
  end
  redis.call('HSET', records, USED, text_of(used))
  keep_until(prefix, math.max(left, 1))
end

-- The functions from here on are the operator's: every other user is refused its key.
local function read_operator_call(keys)
  local prefix = string.match(keys[1] or '', '^(.+)!records$')
  if not prefix then
    return nil, nil, nil, fail('BADCALL', 'the key is <prefix>!records')
  end
  local root = string.match(prefix, '^[^:]*')
  return prefix, root, redis.call('HGET', root .. ':!records-index', prefix)
end

-- grant: key records; arguments limits, holder. Records of another holder go first. Returns 1, or 0 if it was so already.
local function grant(keys, args)
  local prefix, root, present, bad = read_operator_call(keys)
  if bad then
    return bad
  end
  local limits, part = prefix .. '!records-limits', root .. ':!records'
  if present == args[2] and redis.call('GET', limits) == args[1] and redis.call('EXISTS', part) == 1 then
    return 0
  end
  if present ~= args[2] then
    redis.call('UNLINK', prefix .. '!records', prefix .. '!records-ends')
  end
  redis.call('HSET', root .. ':!records-index', prefix, args[2])
  redis.call('SET', part, '1000', 'NX')
  redis.call('SET', limits, args[1])
  return 1
end

-- withdraw: key records; argument holder. It removes the records of the holder. Returns 1, or 0 if the prefix is another's or nobody's.
local function withdraw(keys, args)
  local prefix, root, present, bad = read_operator_call(keys)
  if bad then
    return bad
  end
  if present ~= args[1] then
    return 0
  end
  redis.call('UNLINK', prefix .. '!records', prefix .. '!records-ends', prefix .. '!records-limits')
  redis.call('HDEL', root .. ':!records-index', prefix)
  return 1
end

-- sweep: key records. It removes what is over, at most SWEEP records, and counts anew what does not add up, as after keys were changed by hand.
-- Returns {bytes that are charged, records, 1 if they were counted anew, 1 if there are limits}.
local function sweep(keys)
  local prefix, _, _, bad = read_operator_call(keys)
  if bad then
    return bad
  end
  local records, ends, now = prefix .. '!records', prefix .. '!records-ends', server_time()
  for _, key in ipairs({records, ends}) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= (key == records and 'hash' or 'zset') then
      redis.call('DEL', key)
    end
  end
  purge(prefix, now, SWEEP)
  local function look()
    local used = redis.call('HGET', records, USED)
    local number = redis.call('HLEN', records) - (used and 1 or 0)
    return read_whole(used or '0') or -1, number, redis.call('ZCARD', ends)
  end
  local used, number, listed = look()
  local again = 0
  if used < number * charge(1) or number == 0 and used > 0 or number ~= listed or number > 0 and redis.call('PTTL', records) < 0 then
    recount(prefix, now)
    used, number = look()
    again = 1
  end
  return {used, number, again, redis.call('EXISTS', prefix .. '!records-limits')}
end

redis.register_function{function_name='lockstead_record_get', callback=get, flags={'no-writes'}}
redis.register_function('lockstead_record_begin', begin)
redis.register_function('lockstead_record_complete', complete)
redis.register_function{function_name='lockstead_record_complete_small', callback=complete_small, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_record_extend', callback=extend, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_record_abort', callback=abort, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_records_grant', callback=grant, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_records_withdraw', callback=withdraw, flags={'allow-oom'}}
redis.register_function{function_name='lockstead_records_sweep', callback=sweep, flags={'allow-oom'}}
