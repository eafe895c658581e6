// Package suggest finds the known name that a misspelled name probably means.
//
// Use it to end an error about an unknown name with "did you mean". It makes no
// suggestion for a name that is far from all known names.
package suggest

// Name returns the known name that is nearest to name by edit distance, and whether it is
// near enough to be a likely misspelling: at most one edit in every three characters of
// the longer name. Letter case is ignored. Of equally near names, it returns the first in
// known.
func Name(name string, known []string) (string, bool) {
	best, least := "", 0
	for _, k := range known {
		longer, shorter := max(len(name), len(k)), min(len(name), len(k))
		if 3*(longer-shorter) > longer {
			continue // too far by length alone, so a very long name costs nothing
		}
		d := distance(name, k)
		if 3*d <= longer && (best == "" || d < least) {
			best, least = k, d
		}
	}
	return best, best != ""
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours between a and b (optimal string alignment), in bytes.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+differ(a[i], b[j]))
			if i > 0 && j > 0 && differ(a[i], b[j-1]) == 0 && differ(a[i-1], b[j]) == 0 {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func differ(x, y byte) int {
	if lower(x) == lower(y) {
		return 0
	}
	return 1
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}
