package contracttest

import (
	"os"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/internal/dynamotest"
	"github.com/stintdev/stint/storetest"
)

// TestMain sets the credentials of the emulators for all tests, because parallel tests cannot.
func TestMain(m *testing.M) {
	for name, value := range dynamotest.Environment {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// dynamoDB runs the contract of a store on a table at a URL, with a prefix for each law. The
// histories are few and short, because emulators are slow.
func dynamoDB(t *testing.T, url string) {
	t.Helper()
	t.Parallel()
	o, err := dynamostore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = 10 * time.Second
	if err := dynamostore.Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	storetest.Suite{Runs: 4, Steps: 10, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		o := o
		o.Clock, o.KeepFor = clock, time.Hour
		o.Prefix = prefixOf(t)
		s, err := dynamostore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}.Run(t)
}

func TestDynamoDBOnMoto(t *testing.T) { dynamoDB(t, dynamotest.Moto(t).URL("limits")) }

func TestDynamoDBOnDynalite(t *testing.T) {
	dynamoDB(t, dynamotest.Dynalite(t).URL("limits")+"&transactions=false")
}
