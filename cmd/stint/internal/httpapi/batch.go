package httpapi

import (
	"encoding/json"
	"net/http"
)

// maxItems bounds the number of items in one batch.
const maxItems = 1000

// many handles POST /v1/batch: a list of checks and takes, decided in order, each as if
// it were alone. An invalid item fails only itself.
func (b *batch) many(body []byte) error {
	given := false
	err := eachMember(body, func(name, raw []byte) error {
		if string(name) != "items" {
			return unknownField(name, []string{"items"})
		}
		given = true
		return b.readItems(raw)
	})
	if err == nil && !given {
		err = badRequest("items: is missing: give a list of bodies of /v1/check and /v1/take")
	}
	return err
}

func (b *batch) readItems(raw []byte) error {
	switch n := countElements(raw); {
	case n < 0:
		return badRequest("items: must be a list")
	case n > maxItems:
		return badRequest("items: has %d items (give at most %d)", n, maxItems)
	}
	_, err := eachElement(raw, func(raw []byte) error {
		_ = b.read(raw, itemMembers, (*batch).addItem) // the error is answered in the item's place
		return nil
	})
	return err
}

// addItem adds an ask as a check or as a take.
func (b *batch) addItem(a *ask) error {
	check, err := a.isCheck()
	switch {
	case err != nil:
		return err
	case !check:
		return b.addTake(a)
	case a.at != nil:
		return badRequest("at_us: belongs to a key and a cost below 0")
	}
	return b.addCheck(a)
}

// answerMany writes the answers to all items in order.
func (p *workPool) answerMany(w http.ResponseWriter, r *http.Request, k *work) {
	told := false
	k.out = append(k.out[:0], `{"answers":[`...)
	for i := range k.items {
		if i > 0 {
			k.out = append(k.out, ',')
		}
		out, _, err := k.settle(k.out, &k.items[i])
		if k.out = out; err == nil {
			continue
		}
		e := asAPIError(err)
		k.out = appendError(k.out, e)
		if e.status >= http.StatusInternalServerError && !told { // log the failure once per batch
			told = true
			p.server.logFailure(r, err)
		}
	}
	k.out = append(k.out, ']', '}')
	k.write(w, http.StatusOK)
}

// appendError appends a JSON error body.
func appendError(out []byte, e *apiError) []byte {
	body, err := json.Marshal(errorBody{errorDetail{e.code, e.message}})
	if err != nil { // cannot happen: both fields are strings
		return append(out, "null"...)
	}
	return append(out, body...)
}
