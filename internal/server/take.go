package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

// maxLimits bounds how many limits one request may bring.
const maxLimits = 32

// take answers POST /v1/take: the caller brings the key and its limits.
func (s *Server) take(r *http.Request, body []byte) (status int, answer any, err error) {
	claims, err := s.parseTake(body)
	if err != nil {
		return 0, nil, err
	}
	decisions := make([]stint.Decision, len(claims))
	if err := s.store.TakeGroups(r.Context(), []stint.Group{{Claims: claims}}, decisions); err != nil {
		return 0, nil, err
	}
	face, decided := takeBody(claims, decisions)
	onFailure := claims[0].Policy.OnFailure
	s.metrics.countTake(&face, onFailure)
	return statusOf(closedClaim(&face, onFailure)), decided, nil
}

type takeRequest struct {
	key       string
	limits    []stint.Limit
	cost      int64
	at        int64
	onFailure stint.OnFailure
}

// parseTake returns the claims of a body, one a limit.
func (s *Server) parseTake(body []byte) ([]stint.Claim, error) {
	request := takeRequest{cost: 1}
	var one, many bool
	err := decodeObject(body, fields{
		"key":              stringField("key", &request.key),
		"cost":             costField(&request.cost, -stint.MaxCost),
		"on_store_failure": func(raw []byte) error { return failureField(raw, &request.onFailure) },
		"at_us":            wholeField("at_us", &request.at, 1, 1<<53-1),
		"limit":            func(raw []byte) error { one = true; return s.limitField("limit", raw, &request.limits) },
		"limits":           func(raw []byte) error { many = true; return s.limitsField(raw, &request.limits) },
	})
	if err != nil {
		return nil, err
	}
	if one == many {
		return nil, badRequest("limit: give either limit, or limits with a list of them")
	}
	return request.claims()
}

// claims checks what no single field shows.
func (t *takeRequest) claims() ([]stint.Claim, error) {
	if err := stint.ValidateKey(t.key); err != nil {
		return nil, err
	}
	if t.at != 0 && t.cost >= 0 {
		return nil, badRequest("at_us: belongs to a cost below 0, as the at_us of the decision that it gives back")
	}
	names := map[string]bool{}
	claims := make([]stint.Claim, len(t.limits))
	for i, limit := range t.limits {
		if names[limit.Name()] {
			return nil, badRequest("limits: two are named %s, so they would count in one state (give each a \"name\" of its own)", limit.Name())
		}
		names[limit.Name()] = true
		claims[i] = stint.Claim{Key: t.key, Limit: limit, Cost: t.cost, At: t.at, Policy: stint.Policy{OnFailure: t.onFailure}}
	}
	return claims, nil
}

// failureField reads what happens while the store fails: the words that rules
// have for it.
func failureField(raw []byte, out *stint.OnFailure) error {
	words := []string{"open", "closed", "local"}
	word, err := jsonString(raw)
	if err != nil {
		return within("on_store_failure", err)
	}
	i := slices.Index(words, word)
	if i < 0 {
		return badRequest("on_store_failure: %s is not known (use one of %s)", shown(word), strings.Join(words, ", "))
	}
	*out = stint.OnFailure(i)
	return nil
}

func (s *Server) limitField(field string, raw []byte, out *[]stint.Limit) error {
	limit, err := s.limits.get(raw)
	if err != nil {
		return within(field, err)
	}
	*out = append(*out, limit)
	return nil
}

func (s *Server) limitsField(raw []byte, out *[]stint.Limit) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return badRequest("limits: must be a list of limits")
	}
	if len(list) == 0 || len(list) > maxLimits {
		return badRequest("limits: has %d limits (give 1 to %d)", len(list), maxLimits)
	}
	for i, raw := range list {
		if err := s.limitField(indexed("limits", i), raw, out); err != nil {
			return err
		}
	}
	return nil
}
