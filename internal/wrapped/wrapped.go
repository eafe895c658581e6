// Package wrapped looks at stores that are about to be wrapped by another.
//
// Use it where a store is made around one that a program hands over: to refuse
// one that is missing, and orders that lose something. It sees through stores
// that have a method Unwrap, which returns the one that they wrap.
package wrapped

import (
	"iter"
	"reflect"

	"github.com/stintdev/stint"
)

// Missing reports whether there is no store: nil, or a nil pointer in an
// interface, as of a constructor whose error was not looked at.
func Missing(store stint.Store) bool {
	if store == nil {
		return true
	}
	v := reflect.ValueOf(store)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// mostLayers ends the search where a store wraps itself by way of another, as
// one does that embeds what is made around it.
const mostLayers = 16

// Layers returns a store, the one that it wraps, and so on.
func Layers(store stint.Store) iter.Seq[stint.Store] {
	return func(yield func(stint.Store) bool) {
		for n := 0; n < mostLayers && !Missing(store) && yield(store); n++ {
			w, ok := store.(interface{ Unwrap() stint.Store })
			if !ok {
				return
			}
			store = w.Unwrap()
		}
	}
}
