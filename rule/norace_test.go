//go:build !race

package rule

const raced = false
