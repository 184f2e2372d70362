// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// Where things are in the container.
const (
	configFolder = "/etc/lockstead/config"
	configFile   = "redis.conf"
	aclFolder    = "/etc/lockstead/acl"
	aclFile      = "users.acl"
	tlsFolder    = "/etc/lockstead/tls"
	dataFolder   = "/data"
	redisPort    = 6379
)

const memoryPercent = 70

// redisConf is the configuration of a managed server: it evicts nothing, lets nobody in but the users of the ACL file, and unless told otherwise
// acknowledges nothing before it is on the volume.
func redisConf(managed v1alpha1.ManagedServer) string {
	lines := []string{
		"bind * -::*",
		"protected-mode no",
		"aclfile " + aclFolder + "/" + aclFile,
		"dir " + dataFolder,
		"daemonize no",
		`logfile ""`,
		"appendonly yes",
		"appendfsync " + appendFsync[managed.Fsync],
		"no-appendfsync-on-rewrite no",
		"aof-use-rdb-preamble yes",
		`save ""`,
		fmt.Sprintf("maxmemory %d", managed.Memory.Value()/100*memoryPercent),
		"maxmemory-policy noeviction",
		"tcp-keepalive 60",
		"timeout 0",
	}
	if managed.TLS.Mode == v1alpha1.ManagedTLSSecret {
		lines = append(lines, "port 0", fmt.Sprintf("tls-port %d", redisPort), "tls-auth-clients no",
			"tls-cert-file "+tlsFolder+"/"+corev1.TLSCertKey, "tls-key-file "+tlsFolder+"/"+corev1.TLSPrivateKeyKey, "tls-ca-cert-file "+tlsFolder+"/"+entryCA)
	} else {
		lines = append(lines, fmt.Sprintf("port %d", redisPort))
	}
	return strings.Join(append(lines, ""), "\n")
}

var appendFsync = map[v1alpha1.Fsync]string{v1alpha1.FsyncAlways: "always", v1alpha1.FsyncEverySecond: "everysec"}

// engine has what differs between the programs.
type engine struct {
	repository, version string
	server, client      string
}

var engines = map[v1alpha1.Engine]engine{
	v1alpha1.EngineValkey: {"docker.io/valkey/valkey", "8.1", "valkey-server", "valkey-cli"},
	v1alpha1.EngineRedis:  {"docker.io/library/redis", "8.0", "redis-server", "redis-cli"},
}

// image is the image of a managed server.
func image(managed v1alpha1.ManagedServer) string {
	if managed.Image != "" {
		return managed.Image
	}
	engine := engines[managed.Engine]
	version := managed.Version
	if version == "" {
		version = engine.version
	}
	return engine.repository + ":" + version
}
