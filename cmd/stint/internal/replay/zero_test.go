package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A missing option is an error.
func TestZeroValues(t *testing.T) {
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	line := func() Input {
		return Input{Name: "x", Reader: strings.NewReader(`{"t_us":1431857103000001,"key":"a"}` + "\n")}
	}
	if _, err := Run(t.Context(), Options{}, line()); err == nil {
		t.Error("no limit")
	}
	none := func(func() time.Time) stint.Store { return nil }
	if _, err := Run(t.Context(), Options{Limit: limit, By: "key", Store: none}, line()); err == nil || !strings.Contains(err.Error(), "Store") {
		t.Errorf("no store: %v", err)
	}
	if _, err := Run(t.Context(), Options{Limit: limit, By: "key"}, Input{}); err == nil || !strings.Contains(err.Error(), "Reader") {
		t.Errorf("no reader: %v", err)
	}
	if s, err := Run(t.Context(), Options{Limit: limit, By: "key"}); err != nil || s.Events != 0 {
		t.Errorf("no input: %+v, %v", s, err)
	}
}
