// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"fmt"

	"github.com/lockstead/lockstead/pkg/fence"
)

// The statement can run by any means: it takes the values, the key and the text of the handle's token, and a write that changes no row was refused.
func ExampleUpdate_SQL() {
	query, err := fence.Update{Table: "orders", Set: []string{"state"}, Key: []string{"id"}}.SQL()
	if err != nil {
		panic(err)
	}
	fmt.Println(query)
	// Output: UPDATE "orders" SET "state" = $1, "fence" = $3 WHERE "id" = $2 AND "fence" COLLATE "C" <= $3
}
