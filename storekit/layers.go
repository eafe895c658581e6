// Package wrapped inspects a store before another store wraps it.
//
// Use it in the constructor of a store that wraps a given one, to refuse a missing
// store and a wrong order of layers. It sees through stores that have a method Unwrap,
// which returns the store that they wrap.
package wrapped

import (
	"iter"
	"reflect"

	"github.com/stintdev/stint"
)

// Missing reports whether the store is nil or a nil pointer in an interface. A
// constructor whose error was ignored may return such a pointer.
func Missing(store stint.Store) bool {
	if store == nil {
		return true
	}
	v := reflect.ValueOf(store)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// mostLayers bounds the search, because a store may wrap itself by way of another: for
// example a store that embeds the one made around it.
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
