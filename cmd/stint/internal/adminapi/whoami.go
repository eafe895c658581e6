package adminapi

// whoamiBody is what the server knows of the sender of a request, and what it offers.
type whoamiBody struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Token reports whether requests need a token.
	Token bool `json:"token"`
	// Keys says how answers show keys to the role: shortened, or shortened with an id that
	// tells keys apart.
	Keys string `json:"keys"`
	// The parts of the API that this server has.
	Features []string `json:"features"`
}

// whoami answers GET /v1/whoami.
func (a *API) whoami(r *request) (any, error) {
	body := whoamiBody{Name: r.who.name, Role: r.who.role, Token: a.Tokens != nil, Keys: "shortened", Features: []string{}}
	if r.who.role.allows(Admin) {
		body.Keys = "shortened with id"
	}
	for _, one := range []struct {
		name string
		on   bool
	}{{"live", a.Live != nil}, {"top", a.Top != nil}, {"denied", a.Denials != nil}, {"emergency", a.Emergency != nil}, {"canary", a.Rules.CheckCanary() == nil}, {"impact", a.Sample != nil}, {"replay", true}, {"decision_log", a.DecisionLog != ""}} {
		if one.on {
			body.Features = append(body.Features, one.name)
		}
	}
	return body, nil
}
