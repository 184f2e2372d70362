// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
)

// ReloadCertificates makes the server read its certificate, key and authorities anew from the files that it was configured with. Connections stay.
// An error that the server answered with says that it refuses them; it then goes on with those that it has.
func (c *Client) ReloadCertificates(ctx context.Context) error {
	command := []any{"CONFIG", "SET"}
	for _, name := range []string{"tls-cert-file", "tls-key-file", "tls-ca-cert-file"} {
		found, err := c.redis.ConfigGet(ctx, name).Result()
		if err != nil {
			return wrap("read the paths of the server's certificate", err)
		}
		if path := found[name]; path != "" {
			command = append(command, name, path)
		}
	}
	// In one command: the certificate and the key have to fit together. The server reads the files also where the paths stay the same.
	return wrap("reload the server's certificate", c.redis.Do(ctx, command...).Err())
}

// IsRefusal reports whether the server answered with an error, as opposed to a connection that failed.
func IsRefusal(err error) bool { return isReply(err) }
