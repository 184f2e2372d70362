// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
)

// clusterRedis stands in a value for the name of the Redis image that the local cluster has.
const clusterRedis = "<image of the local cluster>"

// redisValues asks the chart for a default RedisInstance that every namespace may use.
func redisValues(config config) []string {
	values := []string{
		"defaultRedisInstance.enabled=true",
		"defaultRedisInstance.spec.mode=Managed",
		"defaultRedisInstance.spec.managed.engine=Redis",
		"defaultRedisInstance.spec.allowedNamespaces.from=All",
	}
	if !config.existing {
		values = append(values, "defaultRedisInstance.spec.managed.image="+clusterRedis)
	}
	return values
}

// resolve asks the cluster for what only it knows.
func resolve(ctx context.Context, values []string) ([]string, error) {
	var resolved []string
	for _, value := range values {
		if before, found := strings.CutSuffix(value, clusterRedis); found {
			image, err := output(ctx, clusterProgram, "image", "redis")
			if err != nil {
				return nil, err
			}
			value = before + image
			// The tag of the image is the version of the server in it.
			if _, version, found := strings.Cut(image, ":"); found {
				resolved = append(resolved, "defaultRedisInstance.spec.managed.version="+version)
			}
		}
		resolved = append(resolved, value)
	}
	return resolved, nil
}
