package server

import "strconv"

// wholeField reads a whole number, written in digits, within bounds. Floats
// are refused rather than rounded: a cost of 0.5 that counts as 0 is free.
func wholeField(field string, out *int64, least, most int64) func([]byte) error {
	return func(raw []byte) error {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < least || n > most {
			return badRequest("%s: %.40s is not a whole number from %d to %d", field, raw, least, most)
		}
		*out = n
		return nil
	}
}
