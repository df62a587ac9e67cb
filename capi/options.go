//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// optionsOf parses the JSON of options for plans of a device; planning checks the values.
func optionsOf(d *dispatch.Device, text *C.char) (planner.Options, error) {
	var o struct {
		planner.Options
		TypeB  *element.Type `json:"type_b"` // distinguishes "f32", the zero value, from none
		Warmed bool          `json:"warmed"`
	}
	if text == nil {
		return o.Options, nil
	}
	if err := decode(C.GoString(text), &o); err != nil {
		return o.Options, invalid("options: %w", err)
	}
	if o.TypeB != nil {
		if o.Options.TypeB = *o.TypeB; *o.TypeB == element.F32 && o.TypeA != element.F32 {
			return o.Options, invalid("elements of B cannot be %s if those of A are %s", *o.TypeB, o.TypeA)
		}
	}
	if o.Warmed {
		o.Kernels = d.Warmed()
	}
	return o.Options, nil
}

// decode parses a JSON object. Its names must be those of the fields of a struct, each at most once.
func decode(text string, to any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	var whole json.RawMessage
	if err := decoder.Decode(&whole); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON object")
	}
	if err := checkNames(whole, reflect.TypeOf(to).Elem(), ""); err != nil {
		return err
	}
	return json.Unmarshal(whole, to)
}

// checkNames fails for a name in an object, or in a nested object, that is not a field's or occurs twice.
// Package json ignores case, and takes the last.
func checkNames(object json.RawMessage, of reflect.Type, path string) error {
	decoder := json.NewDecoder(strings.NewReader(string(object)))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') || of.Kind() != reflect.Struct {
		return err // not an object: package json reports what is wrong
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name := token.(string)
		field, known := fieldOf(of, name)
		switch {
		case !known:
			return invalid("unknown field %q", path+name)
		case seen[name]:
			return invalid("field %q occurs twice", path+name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if err := checkNames(value, field, path+name+"."); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf returns the type of the field with a name in JSON.
func fieldOf(of reflect.Type, name string) (reflect.Type, bool) {
	for _, field := range reflect.VisibleFields(of) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name && tag != "" && tag != "-" {
			return field.Type, true
		}
	}
	return nil, false
}
