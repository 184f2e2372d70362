// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

// PoolSize is how many requests beside renewals a client of FromBinding has under way.
const PoolSize = poolSize
