package storekit

import (
	"iter"
	"reflect"

	"github.com/stintdev/stint"
)

// Wrapper is a store around another one. Every store that wraps another should have
// this method, so that [Layers] sees through it.
type Wrapper interface {
	stint.Store
	// Unwrap returns the store that this one wraps.
	Unwrap() stint.Store
}

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

// Layers returns a store, the one that it wraps, and so on. The constructor of a store
// that wraps others uses it to refuse a wrong order of layers. Stores that have no
// method Unwrap end the sequence; see [Wrapper].
func Layers(store stint.Store) iter.Seq[stint.Store] {
	return func(yield func(stint.Store) bool) {
		for n := 0; n < mostLayers && !Missing(store) && yield(store); n++ {
			w, ok := store.(Wrapper)
			if !ok {
				return
			}
			store = w.Unwrap()
		}
	}
}
