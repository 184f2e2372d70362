// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// serverCommand is a command, or a subcommand with its container, as the server describes it.
type serverCommand struct {
	// name has a bar before the subcommand, as in ACL rules.
	name  string
	arity int
	flags []any
	// group is the server's, for example "pubsub".
	group     string
	arguments []any
}

// serverCommands asks a server for all that it can do, so that the tests cover commands of versions that nobody has looked at.
func serverCommands(t *testing.T, admin *redis.Client) []serverCommand {
	t.Helper()
	infos, err := admin.Do(t.Context(), "command").Slice()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := admin.Do(t.Context(), "command", "docs").Result()
	if err != nil {
		t.Fatal(err)
	}
	described := describe(asMap(docs))
	var commands []serverCommand
	for _, info := range infos {
		commands = append(commands, flatten(info.([]any), described)...)
	}
	slices.SortFunc(commands, func(a, b serverCommand) int { return strings.Compare(a.name, b.name) })
	return commands
}

// describe has the documentation of each command and subcommand by its name.
func describe(docs map[string]any) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for name, entry := range docs {
		doc := asMap(entry)
		all[name] = doc
		maps.Copy(all, describe(asMap(doc["subcommands"])))
	}
	return all
}

// flatten makes a command of each subcommand. A container that is no command by itself is left out.
func flatten(info []any, described map[string]map[string]any) []serverCommand {
	const nameAt, arityAt, flagsAt, subcommandsAt = 0, 1, 2, 9
	name, arity := fmt.Sprint(info[nameAt]), int(info[arityAt].(int64))
	doc := described[name]
	arguments, _ := doc["arguments"].([]any)
	subcommands := info[subcommandsAt].([]any)
	command := serverCommand{name: name, arity: arity, flags: info[flagsAt].([]any), group: fmt.Sprint(doc["group"]), arguments: arguments}
	var commands []serverCommand
	// Words up to the subcommand are the least that a mere container takes.
	if len(subcommands) == 0 || arity != -2 {
		commands = append(commands, command)
	}
	for _, sub := range subcommands {
		commands = append(commands, flatten(sub.([]any), described)...)
	}
	return commands
}

func asMap(value any) map[string]any {
	m := make(map[string]any)
	entries, _ := value.(map[any]any)
	for key, value := range entries {
		m[fmt.Sprint(key)] = value
	}
	return m
}

func (c serverCommand) flagged(name string) bool {
	return slices.ContainsFunc(c.flags, func(flag any) bool { return fmt.Sprint(flag) == name })
}

// words are the command with the fewest arguments that it takes, with the target as its keys, or as its channels.
func (c serverCommand) words(target string) []any {
	var words []any
	for word := range strings.SplitSeq(c.name, "|") {
		words = append(words, word)
	}
	words = append(words, c.fill(c.arguments, target)...)
	for len(words) < max(c.arity, -c.arity) {
		words = append(words, "x")
	}
	if c.arity > 0 {
		words = words[:c.arity]
	}
	return words
}

// hasTarget reports whether the command takes a key or a channel.
func (c serverCommand) hasTarget() bool { return slices.Contains(c.words("\x00"), "\x00") }

func (c serverCommand) fill(arguments []any, target string) []any {
	var words []any
	for _, argument := range arguments {
		a := asMap(argument)
		flags, _ := a["flags"].([]any)
		// A call of server-side code may have no key; the tests want one.
		if slices.ContainsFunc(flags, func(flag any) bool { return fmt.Sprint(flag) == "optional" }) && a["type"] != "key" {
			continue
		}
		if token, ok := a["token"].(string); ok {
			words = append(words, token)
		}
		inner, _ := a["arguments"].([]any)
		switch name := fmt.Sprint(a["name"]); fmt.Sprint(a["type"]) {
		case "key":
			words = append(words, target)
		case "pure-token":
		case "oneof":
			words = append(words, c.fill(inner[:1], target)...)
		case "block":
			words = append(words, c.fill(inner, target)...)
		case "integer", "double", "unix-time":
			// A great number of keys or weights would ask for as many arguments, and a short time would pass.
			words = append(words, map[bool]string{true: "1", false: "9999999"}[name == "numkeys"])
		default:
			if c.group == "pubsub" && (name == "channel" || name == "shardchannel" || name == "pattern") {
				words = append(words, target)
			} else {
				words = append(words, "x")
			}
		}
	}
	return words
}
