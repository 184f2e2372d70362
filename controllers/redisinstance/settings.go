// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/lockstead/lockstead/internal/redisadmin"
)

// settingChange is a setting that somebody changed by hand.
type settingChange struct{ name, found, wanted string }

// changedSettings are the settings in which a managed server differs from the configuration file that it runs with, sorted by name.
func changedSettings(conf string, live map[string]string) []settingChange {
	wanted := map[string]string{
		// With it a server without replicas refuses every write.
		"min-replicas-to-write": "0",
	}
	for line := range strings.Lines(conf) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		wanted[name] = strings.Trim(value, `"`)
	}
	var changes []settingChange
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if found, ok := live[name]; ok && found != wanted[name] {
			changes = append(changes, settingChange{name, found, wanted[name]})
		}
	}
	return changes
}

// putRight undoes what somebody changed on a managed server by hand, and returns the changed settings.
func putRight(ctx context.Context, admin *redisadmin.Client, server redisadmin.Server, conf string) ([]settingChange, error) {
	changes := changedSettings(conf, server.Settings.Values)
	if len(changes) > 0 {
		values := map[string]string{}
		for _, change := range changes {
			values[change.name] = change.wanted
		}
		if err := admin.ChangeSettings(ctx, values); err != nil {
			return nil, err //nolint:wrapcheck // redisadmin says what was done.
		}
	}
	if user := server.DefaultUser; user.Known && (user.On || user.Restricted) {
		if err := admin.CloseDefaultUser(ctx); err != nil {
			return nil, err //nolint:wrapcheck // As above.
		}
	}
	return changes, nil
}
