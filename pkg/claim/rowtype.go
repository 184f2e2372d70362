// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"reflect"
	"slices"
)

// rowType tells how a row becomes a T: the columns to ask for, and where their values go.
type rowType[T any] struct {
	columns []string
	fields  func(*T) []any
	// key is the places of the key's columns among columns.
	key []int
}

// newRowType takes the columns from T's db tags, unless the caller gave columns and fields.
func newRowType[T any](key []string, columns []string, fields func(*T) []any) (rowType[T], error) {
	r := rowType[T]{columns: columns, fields: fields}
	switch {
	case (len(columns) == 0) != (fields == nil):
		return r, &InvalidError{Argument: "Fields", Problem: "Columns of the row and Fields go together: the names, and a pointer for each"}
	case fields == nil:
		if err := r.fromTags(); err != nil {
			return r, err
		}
	default:
		if got := len(fields(new(T))); got != len(columns) {
			return r, &InvalidError{Argument: "Fields", Problem: fmt.Sprintf("gives %d pointers for %d columns", got, len(columns))}
		}
	}
	for i, name := range r.columns {
		if err := checkIdentifier("RowColumns", name); err != nil {
			return r, err
		}
		if slices.Contains(r.columns[:i], name) {
			return r, &InvalidError{Argument: "RowColumns", Problem: fmt.Sprintf("column %q is named twice", name)}
		}
	}
	for _, name := range key {
		place := slices.Index(r.columns, name)
		if place < 0 {
			return r, &InvalidError{Argument: "Relation.Key", Problem: fmt.Sprintf("key column %q is not in the row type %T; add a field with the tag db:%q", name, *new(T), name)}
		}
		r.key = append(r.key, place)
	}
	return r, nil
}

// fromTags reads the db tags of a struct; embedded structs count as if their fields were written out.
func (r *rowType[T]) fromTags() error {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return &InvalidError{Argument: "Fields", Problem: fmt.Sprintf("row type %s is not a struct; give RowColumns and Fields", t)}
	}
	var places [][]int
	for _, f := range reflect.VisibleFields(t) {
		column, ok := f.Tag.Lookup("db")
		if !ok || column == "-" {
			continue
		}
		if !f.IsExported() {
			return &InvalidError{Argument: "Fields", Problem: fmt.Sprintf("field %s of %s has a db tag but is not exported", f.Name, t)}
		}
		if behindPointer(t, f.Index) {
			return &InvalidError{Argument: "Fields", Problem: fmt.Sprintf("field %s of %s is in a struct that is embedded by pointer; embed it by value", f.Name, t)}
		}
		r.columns = append(r.columns, column)
		places = append(places, f.Index)
	}
	if len(places) == 0 {
		return &InvalidError{Argument: "Fields", Problem: fmt.Sprintf("no field of %s has a db tag that names its column", t)}
	}
	r.fields = func(row *T) []any {
		v := reflect.ValueOf(row).Elem()
		pointers := make([]any, len(places))
		for i, place := range places {
			pointers[i] = v.FieldByIndex(place).Addr().Interface()
		}
		return pointers
	}
	return nil
}

func behindPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		t = t.Field(i).Type
		if t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// keyOf copies the key out of pointers, so that a handler that changes its row does not change which row is completed.
func (r rowType[T]) keyOf(pointers []any) []any {
	key := make([]any, len(r.key))
	for i, place := range r.key {
		key[i] = reflect.ValueOf(pointers[place]).Elem().Interface()
	}
	return key
}
