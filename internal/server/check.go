package server

import (
	"net/http"

	"github.com/stintdev/stint/rule"
)

// check answers POST /v1/check: what the rules say of a request that the
// caller describes.
func (s *Server) check(r *http.Request, body []byte) (status int, answer any, err error) {
	request, err := parseCheck(body)
	if err != nil {
		return 0, nil, err
	}
	o := s.outcomes.get()
	defer s.outcomes.put(o)
	if err := s.rules.decide(r.Context(), request.attributes, request.cost, o); err != nil {
		return 0, nil, err
	}
	return statusOf(closed(o)), outcomeBody(o), nil
}

type checkRequest struct {
	attributes rule.Map
	cost       int64
}

func parseCheck(body []byte) (checkRequest, error) {
	request := checkRequest{cost: 1}
	err := decodeObject(body, fields{
		"attributes": func(raw []byte) error {
			request.attributes = rule.Map{}
			return within("attributes", parseAttributes(raw, request.attributes))
		},
		"cost": costField(&request.cost, 0),
	})
	if err == nil && request.attributes == nil {
		err = badRequest("attributes: is missing: say what the request is, such as {\"attributes\":{\"api_key\":\"k\",\"path\":\"/\"}}")
	}
	return request, err
}

// parseAttributes reads the members of a JSON object into a. Numbers and
// booleans count as their text.
func parseAttributes(raw []byte, a rule.Map) error {
	return eachMember(raw, func(name string, raw []byte) error {
		value, err := attributeText(raw)
		if err != nil {
			return within(shown(name), err)
		}
		a[name] = value
		return nil
	})
}

func attributeText(raw []byte) (string, error) {
	switch raw[0] {
	case '"':
		return jsonString(raw)
	case '{', '[', 'n':
		return "", badRequest("must be a string, a number, true or false")
	}
	return string(raw), nil
}
