package httpapi

// giveBack handles POST /v1/giveback: it refunds what a take charged.
func (b *batch) giveBack(body []byte) error {
	return b.read(body, giveBackMembers, (*batch).addGiveBack)
}

func (b *batch) addGiveBack(a *ask) error {
	units, err := a.costWithin(1)
	if err != nil {
		return err
	}
	at, err := a.giveBackTime(true)
	if err != nil {
		return err
	}
	return b.addClaims(a, -units, at)
}

// giveBackTime parses the time of the take to refund. It returns 0, which means now, if
// none is given.
func (a *ask) giveBackTime(givesBack bool) (at int64, err error) {
	if a.at == nil {
		return 0, nil
	}
	if err = wholeField("at_us", &at, 1, 1<<53-1)(a.at); err == nil && !givesBack {
		err = badRequest("at_us: belongs to a cost below 0, as the at_us of the decision that it gives back")
	}
	return at, err
}
