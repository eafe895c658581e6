package httpapi

import (
	"encoding/json"
	"net/http"
)

// maxItems bounds the number of items in one batch.
const maxItems = 1000

// readBatch reads the body of POST /v1/batch: a list of checks and takes, decided in order,
// each as if it were alone. An invalid item fails only itself.
func (k *work) readBatch() error {
	given := false
	k.items = true
	err := eachMember(k.body, func(name, raw []byte) error {
		if string(name) != "items" {
			return unknownField(name, []string{"items"})
		}
		given = true
		return k.readItems(raw)
	})
	if err == nil && !given {
		err = badRequest("items: is missing: give a list of bodies of /v1/check and /v1/take")
	}
	return err
}

func (k *work) readItems(raw []byte) error {
	switch n := countElements(raw); {
	case n < 0:
		return badRequest("items: must be a list")
	case n > maxItems:
		return badRequest("items: has %d items (give at most %d)", n, maxItems)
	}
	_, err := eachElement(raw, func(raw []byte) error {
		if err := k.read(raw, itemMembers, (*work).addItem); err != nil {
			k.Fail(err)
		}
		return nil
	})
	return err
}

// addItem adds an item of a batch as a check or as a take.
func (k *work) addItem(in *input) error {
	check, err := in.isCheck()
	switch {
	case err != nil:
		return err
	case !check:
		return k.addTake(in)
	case in.at != nil:
		return badRequest("at_us: belongs to a key and a cost below 0")
	}
	return k.addCheck(in)
}

// answerBatch writes the answers to all items in order.
func (k *work) answerBatch(w http.ResponseWriter, r *http.Request) {
	if err := k.conflictOfAll(); err != nil {
		k.api.errors.write(w, r, err)
		return
	}
	k.out = append(k.out[:0], `{"answers":[`...)
	for i := range k.Len() {
		if i > 0 {
			k.out = append(k.out, ',')
		}
		a, err := k.Answer(i)
		if err == nil {
			k.out = appendAnswer(k.out, a)
			continue
		}
		k.out = appendError(k.out, asAPIError(err))
	}
	if err := k.Failure(); err != nil {
		k.api.errors.Log(r, err)
	}
	k.out = append(k.out, ']', '}')
	k.write(w, http.StatusOK)
}

// appendError appends a JSON error body.
func appendError(out []byte, e *apiError) []byte {
	body, err := json.Marshal(e.body())
	if err != nil { // cannot happen: both fields are strings
		return append(out, "null"...)
	}
	return append(out, body...)
}
