package httpapi

import "strconv"

// wholeField returns a parser for an integer in decimal digits between least and most. It
// refuses fractions instead of rounding them: a cost of 0.5 that became 0 would be free.
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
