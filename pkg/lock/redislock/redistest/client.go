// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/tls"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ClientOptions are the options of a client that does what it is told once, and nothing beside it: no retries, no notifications of
// maintenance, no report of its version.
func (s *Server) ClientOptions(user, password string) *redis.Options {
	options := &redis.Options{
		Addr: s.Addr(), Username: user, Password: password,
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if s.certificates != "" {
		// Whose certificate the server shows is for the test to find out.
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	}
	return options
}
