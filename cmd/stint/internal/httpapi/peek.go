package httpapi

// peek answers POST /v1/peek: what a check, or a take, would find, without
// using anything.
func (b *batch) peek(body []byte) error { return b.read(body, peekMembers, (*batch).addPeek) }

func (b *batch) addPeek(a *ask) error {
	check, err := a.isCheck()
	switch {
	case err != nil:
		return err
	case check:
		return b.plan(&a.attributes, 0)
	}
	return b.addClaims(a, 0, 0)
}
