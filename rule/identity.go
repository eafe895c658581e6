package rule

// KeyText returns how a key is shown: its parts joined by "|", without marks.
func KeyText(key string) string { return key }
