// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockstead/lockstead/test/fault/resource"
)

// Tally is what a guarded resource tells about a key.
type Tally struct {
	Acknowledged int `json:"acknowledged"`
	Lost         int `json:"lost"`
	Refused      int `json:"refused"`
}

// Resource counts the updates that were acknowledged and are missing at the end. With a fence none may be, and the tokens of what was written never fall.
func Resource(key string, log *resource.Log) (Tally, []Violation) {
	final := make(map[string]bool, len(log.Final))
	for _, id := range log.Final {
		final[id] = true
	}
	var tally Tally
	var found []Violation
	for i, w := range log.Writes {
		if !w.Accepted {
			tally.Refused++
			continue
		}
		tally.Acknowledged++
		if !final[w.ID] {
			tally.Lost++
			if log.Fenced {
				found = append(found, Violation{ResourceChecker, key, fmt.Sprintf("the update %s with token %s was acknowledged and lost in spite of the fence", w.ID, w.Token)})
			}
		}
		for j := i - 1; log.Fenced && j >= 0; j-- {
			if log.Writes[j].Accepted {
				if w.Token.Less(log.Writes[j].Token) {
					found = append(found, Violation{ResourceChecker, key, fmt.Sprintf("token %s was written after %s", w.Token, log.Writes[j].Token)})
				}
				break
			}
		}
	}
	return tally, found
}

// Refusals finds writes that the fence refused though their holder believed at that instant to hold the key: tokens that do not grow do that.
func Refusals(key string, log *resource.Log) []Violation {
	var found []Violation
	for _, w := range log.Writes {
		if log.Fenced && !w.Accepted && w.Valid {
			found = append(found, Violation{ResourceChecker, key, fmt.Sprintf("the fence refused token %s of a holder whose lock was valid before and after the write", w.Token)})
		}
	}
	return found
}
