package httpapi

// check handles POST /v1/check: it applies the rules to the request that the caller
// describes.
func (b *batch) check(body []byte) error { return b.read(body, checkMembers, (*batch).addCheck) }

// addCheck adds a check of the attributes in a.
func (b *batch) addCheck(a *ask) error {
	if a.given&memberAttributes == 0 {
		return badRequest("attributes: is missing: say what the request is, such as {\"attributes\":{\"api_key\":\"k\",\"path\":\"/\"}}")
	}
	cost, err := a.costWithin(0)
	if err != nil {
		return err
	}
	return b.plan(&a.attributes, cost)
}
