package rule_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// A program that decides by a rule file.
func Example() {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(`
rules:
  - id: orders
    match: {path_prefix: /v1/orders}
    limits: [{limit: 1, window: 1s}, {limit: 100, window: 1h}]
`)})
	if err != nil {
		log.Fatal(err) // every mistake, a line each
	}
	store := stint.NewMemory(stint.MemoryOptions{})
	request := rule.Map{"api_key": "sk_1", "path": "/v1/orders/7"}
	for range 2 {
		outcome, err := set.Decide(context.Background(), store, request, 1)
		if err != nil {
			log.Fatal(err)
		}
		binding := outcome.Hits[outcome.Binding]
		fmt.Println(outcome.Allowed(), binding.Rule.ID, binding.Limit.Name(), binding.Decision.Remaining)
	}
	// Output:
	// true orders token_bucket:1s 0
	// false orders token_bucket:1s 0
}

// Mistakes say where they are, and what was probably meant.
func ExampleParse() {
	_, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(`
rules:
  - id: orders
    limt: 100
    window: soon
`)})
	fmt.Println(err)
	// Output:
	// rules.yaml:4:5: a rule has no key "limt" (did you mean limit?)
	// rules.yaml:5:13: window: "soon" is not a time (write whole seconds, such as 60, or a length such as 500ms, 1m30s, 12h or 1d)
}

// A limit that a request brings with it.
func ExampleParseLimit() {
	limit, err := rule.ParseLimit([]byte(`{"capacity":10,"refill_rate":1.67}`))
	fmt.Println(limit, err)
	_, err = rule.ParseLimit([]byte(`{"limit":100,"windw":"1m"}`))
	fmt.Println(err)
	// Output:
	// token_bucket, capacity 10, 167/100 a second <nil>
	// limit: has no field "windw" (did you mean window?)
}

// ParseSpec is ParseLimit for a program that changes the numbers before it compiles them.
func ExampleParseSpec() {
	spec, err := rule.ParseSpec([]byte(`{"limit":100,"window":"1m"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	spec.Capacity = 20
	limit, err := spec.Compile()
	fmt.Println(limit, err)
	// Output: token_bucket:1m 100 per 1m, capacity 20 <nil>
}
