package stintpolicy_test

import (
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/contrib/stintpolicy"
)

// Stint among the policies of failsafe-go: an attempt over the limit is retried at the
// time that the limiter names.
func ExampleNew() {
	limit, err := stint.Spec{Limit: 100, Window: time.Second}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "orders", limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := stintpolicy.New(stintpolicy.Options[string]{Limiter: limiter})
	if err != nil {
		fmt.Println(err)
		return
	}
	retries := retrypolicy.NewBuilder[string]().WithMaxRetries(3).WithDelayFunc(stintpolicy.Delay[string]).Build()
	got, err := failsafe.With[string](retries, policy).Get(func() (string, error) { return "hello", nil })
	fmt.Println(got, err)
	// Output: hello <nil>
}
