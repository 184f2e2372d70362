// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"strings"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
)

// constant can only be given as a constant in the caller's source: its type cannot be named outside this package. So a condition
// is never put together from what a user typed.
type constant string

// Condition narrows the rows that can be claimed.
type Condition struct {
	sql  string
	args []any
}

// Where is a condition on the table's columns, as a constant of SQL, with $1, $2, … for args:
//
//	claim.Where("kind = $1 AND NOT paused", "email")
//
// Every arg has to occur in it.
func Where(sql constant, args ...any) Condition {
	return Condition{sql: string(sql), args: args}
}

func (c Condition) check() error {
	switch {
	case c.sql == "" && len(c.args) > 0:
		return &InvalidError{Argument: "Where", Problem: "has arguments but no SQL"}
	case strings.ContainsRune(c.sql, 0):
		return &InvalidError{Argument: "Where", Problem: "contains NUL"}
	}
	return nil
}

// statements is the SQL of one table, composed once. Each is sent with the arguments that its comment names.
type statements struct {
	// claim: the condition's, then token, TTL in µs, limit, maximum of attempts.
	claim string
	// exhausted: the condition's, then limit, maximum of attempts.
	exhausted string
	// giveBack: token of a batch.
	giveBack string
	// extend: key, token, TTL in µs.
	extend string
	// release: key, token.
	release string
	// releaseAfter, rescheduleIn: key, token, delay in µs.
	releaseAfter, rescheduleIn string
	// rescheduleAt: key, token, time.
	rescheduleAt string
	// complete, remove: key, token.
	complete, remove string
}

// compose writes the statements. The clock is the server's, and clock_timestamp() rather than now(), which stands still for the
// length of a transaction. Where it is compared with a column it is a subselect: that is evaluated once, so an index can serve, and
// early, so that a row counts as free too late rather than too soon. Where it is written it is evaluated anew for each row.
func compose(r Relation, c Columns, where Condition, rowColumns []string) statements {
	w := writer{table: r.quoted(), key: r.Key}
	w.runAt, w.until, w.token = pgname.Quote(c.RunAt), pgname.Quote(c.LockedUntil), pgname.Quote(c.LockToken)
	w.fence, w.attempts = pgname.Quote(c.Fence), pgname.Quote(c.Attempts)

	n := len(where.args)
	condition := ""
	if where.sql != "" {
		// The line break ends a comment at the end of the condition.
		condition = " AND (" + where.sql + "\n)"
	}
	order := w.runAt + ", " + pgname.QuoteList(r.Key)
	free := fmt.Sprintf("(%[1]s IS NULL OR %[1]s <= (SELECT clock_timestamp()))", w.until)

	mine := w.owned(1)
	tokenAt := len(r.Key) + 1
	cleared := fmt.Sprintf("%s = NULL, %s = NULL", w.until, w.token)
	update := func(set string) string {
		return fmt.Sprintf("UPDATE %s AS t SET %s WHERE %s", w.table, set, mine)
	}
	return statements{
		// The rows are picked in a materialized CTE: a planner may run a subselect several times, and then more rows than the limit
		// are locked. NO KEY: rows that others refer to at the moment are not passed over.
		claim: fmt.Sprintf(`WITH due AS MATERIALIZED (SELECT %[1]s FROM %[2]s WHERE %[3]s <= (SELECT clock_timestamp()) AND %[4]s AND %[5]s < $%[6]d::bigint%[7]s`+
			` ORDER BY %[8]s LIMIT $%[9]d::bigint FOR NO KEY UPDATE SKIP LOCKED),`+
			` claimed AS (UPDATE %[2]s AS t SET %[10]s = clock_timestamp() + $%[11]d::bigint * interval '1 microsecond', %[12]s = $%[13]d::uuid,`+
			` %[14]s = t.%[14]s + 1, %[5]s = t.%[5]s + 1 FROM due WHERE %[15]s RETURNING t.*)`+
			` SELECT %[14]s::bigint, %[5]s::bigint, %[16]s FROM claimed ORDER BY %[8]s`,
			pgname.QuoteList(r.Key), w.table, w.runAt, free, w.attempts, n+4, condition, order, n+3, w.until, n+2, w.token, n+1, w.fence,
			w.joined("t", "due"), pgname.QuoteList(rowColumns)),
		exhausted: fmt.Sprintf("SELECT %s FROM %s WHERE %s IS NOT NULL AND %s AND %s >= $%d::bigint%s ORDER BY %s LIMIT $%d::bigint",
			pgname.QuoteList(rowColumns), w.table, w.runAt, free, w.attempts, n+2, condition, order, n+1),
		giveBack: fmt.Sprintf("UPDATE %s AS t SET %s, %s = t.%[3]s - 1 WHERE %s <= (SELECT clock_timestamp()) AND %s = $1::uuid",
			w.table, cleared, w.attempts, w.runAt, w.token),
		// NOWAIT: who changes the row in a transaction of some length must not make a renewal hang until it is too late.
		extend: fmt.Sprintf("WITH mine AS MATERIALIZED (SELECT %s FROM %s AS t WHERE %s AND t.%s > clock_timestamp() FOR NO KEY UPDATE NOWAIT)"+
			" UPDATE %s AS t SET %s = clock_timestamp() + $%d::bigint * interval '1 microsecond' FROM mine WHERE %s",
			pgname.QuoteList(r.Key), w.table, mine, w.until, w.table, w.until, tokenAt+1, w.joined("t", "mine")),
		release:      update(fmt.Sprintf("%s, %s = t.%[2]s - 1", cleared, w.attempts)),
		releaseAfter: update(fmt.Sprintf("%s, %s = clock_timestamp() + $%d::bigint * interval '1 microsecond'", cleared, w.runAt, tokenAt+1)),
		rescheduleIn: update(fmt.Sprintf("%s, %s = 0, %s = clock_timestamp() + $%d::bigint * interval '1 microsecond'", cleared, w.attempts, w.runAt, tokenAt+1)),
		rescheduleAt: update(fmt.Sprintf("%s, %s = 0, %s = $%d::timestamptz", cleared, w.attempts, w.runAt, tokenAt+1)),
		complete:     update(fmt.Sprintf("%s, %s = NULL", cleared, w.runAt)),
		remove:       fmt.Sprintf("DELETE FROM %s AS t WHERE %s", w.table, mine),
	}
}

type writer struct {
	table                                string
	key                                  []string
	runAt, until, token, fence, attempts string
}

// joined compares the keys of two aliases.
func (w writer) joined(a, b string) string {
	parts := make([]string, len(w.key))
	for i, name := range w.key {
		parts[i] = fmt.Sprintf("%s.%s = %s.%[2]s", a, pgname.Quote(name), b)
	}
	return strings.Join(parts, " AND ")
}

// owned is the predicate of a claim: the row's key, then the token, numbered from first.
func (w writer) owned(first int) string {
	parts := make([]string, 0, len(w.key)+1)
	for i, name := range w.key {
		parts = append(parts, fmt.Sprintf("t.%s = $%d", pgname.Quote(name), first+i))
	}
	parts = append(parts, fmt.Sprintf("t.%s = $%d::uuid", w.token, first+len(w.key)))
	return strings.Join(parts, " AND ")
}
