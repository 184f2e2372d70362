// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import "github.com/redis/go-redis/v9"

// The fields of the hash: s(tate), o(wner), t(oken as text that sorts, empty without one), f(ingerprint), l(ease end in ms of the server's clock), r(esponse). A hash
// without a lease end counts as held: what cannot be told is not expired.
const (
	now = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`
	// read answers with a record as recordOf reads it.
	read = now + `
local function read(h)
  if not h[1] then return {0, '', '', '', 0, ''} end
  local left = 1
  if h[5] then left = tonumber(h[5]) - now end
  return {tonumber(h[1]), h[2], h[3], h[4], left, h[6] or ''}
end
local h = redis.call('HMGET', KEYS[1], 's', 'o', 't', 'f', 'l', 'r')
`
	// owned goes on only for the record in flight of the owner, else it answers with the state that it found.
	owned = `
local h = redis.call('HMGET', KEYS[1], 's', 'o', 't')
local state = tonumber(h[1] or 0)
local mine = h[2] == ARGV[1] and h[3] == ARGV[2]
`
)

//nolint:gochecknoglobals // Scripts do not change, and their hash is computed once.
var (
	getScript = redis.NewScript(read + `return read(h)`)

	// ARGV: owner, token, fingerprint, lease, retention. A record in flight has no response that could be left over. HSET is the first write: after another one
	// Redis would let it pass on a full server.
	beginScript = redis.NewScript(read + `
local free = not h[1] or (h[1] == '1' and h[5] and tonumber(h[5]) <= now and (ARGV[2] == '' or ARGV[2] >= h[3]))
if not free then return read(h) end
redis.call('HSET', KEYS[1], 's', 1, 'o', ARGV[1], 't', ARGV[2], 'f', ARGV[3], 'l', string.format('%.0f', now + ARGV[4]))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {1, ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ''}
`)

	// ARGV: owner, token, state, response, retention.
	completeScript = redis.NewScript(owned + `
if mine and state == tonumber(ARGV[3]) then return -1 end
if not mine or state ~= 1 then return state end
redis.call('HSET', KEYS[1], 's', ARGV[3], 'r', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return -1
`)

	// ARGV: owner, token.
	abortScript = redis.NewScript(owned + `
if state == 0 then return -1 end
if not mine or state ~= 1 then return state end
redis.call('DEL', KEYS[1])
return -1
`)

	// ARGV: owner, token, lease.
	extendScript = redis.NewScript(now + owned + `
if not mine or state ~= 1 then return state end
redis.call('HSET', KEYS[1], 'l', string.format('%.0f', now + ARGV[3]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return -1
`)
)
