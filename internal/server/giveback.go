package server

// giveBack answers POST /v1/giveback: what a take charged was not used.
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

// giveBackTime reads the time of the take that is given back; 0, which means
// now, when it is not given.
func (a *ask) giveBackTime(givesBack bool) (at int64, err error) {
	if a.at == nil {
		return 0, nil
	}
	if err = wholeField("at_us", &at, 1, 1<<53-1)(a.at); err == nil && !givesBack {
		err = badRequest("at_us: belongs to a cost below 0, as the at_us of the decision that it gives back")
	}
	return at, err
}
