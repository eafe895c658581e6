package adminapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/rule"
)

// slowBody is a body of spaces that does not end before the test releases it. It counts the
// bytes that were read.
type slowBody struct {
	left int64
	read *atomic.Int64
	end  <-chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		<-b.end
		return 0, io.EOF
	}
	n := copy(p, spaces[:min(int64(len(spaces)), b.left)])
	b.left -= int64(n)
	b.read.Add(int64(n))
	return n, nil
}

var spaces = strings.Repeat(" ", 1<<20)

// crowd is requests that all have a large body.
type crowd struct {
	token    string // token of every request
	read     atomic.Int64
	end      chan struct{}
	done     sync.WaitGroup
	statuses sync.Map // number of responses by status
}

func (c *crowd) send(f *fixture, n int, method, path string, length int64, declared bool) {
	for range n {
		c.done.Go(func() {
			r := httptest.NewRequestWithContext(f.t.Context(), method, path, &slowBody{length, &c.read, c.end})
			if r.ContentLength = -1; declared {
				r.ContentLength = length
			}
			r.Header.Set("Authorization", "Bearer "+c.token)
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			count, _ := c.statuses.LoadOrStore(w.Code, new(atomic.Int64))
			count.(*atomic.Int64).Add(1)
		})
	}
}

func (c *crowd) answered(status int) int64 {
	count, ok := c.statuses.Load(status)
	if !ok {
		return 0
	}
	return count.(*atomic.Int64).Load()
}

// TestLargeBodiesAreReadInTurn: however many clients send large bodies, the memory for
// them is bounded by one of the largest size, and a client that waits too long gets an
// error. Small bodies and changes do not wait.
func TestLargeBodiesAreReadInTurn(t *testing.T) {
	const large = 31 << 20
	for _, declared := range []bool{true, false} {
		t.Run(fmt.Sprint("declared ", declared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, shop)
				c := &crowd{end: make(chan struct{})}
				c.send(f, 12, "POST", "/rules/validate", large, declared)
				synctest.Wait()
				if got := c.read.Load(); got > maxBody {
					t.Errorf("%d bytes are held at once", got)
				}
				f.want(200, "POST", "/rules/validate", shop)
				f.want(200, "PUT", "/rules", shop+strings.Repeat("# Nothing.\n", 10_000))
				time.Sleep(bodyWait)
				synctest.Wait()
				if got := c.answered(http.StatusServiceUnavailable); got != 11 {
					t.Errorf("%d were refused because they waited too long", got)
				}
				close(c.end)
				c.done.Wait()
				if got := c.answered(http.StatusBadRequest); got != 1 {
					t.Errorf("%d are answered, all that is empty being a mistake", got)
				}
				if strings.Contains(f.logs.String(), "admin request failed") {
					t.Error("callers fill the log")
				}
				c.send(f, 1, "POST", "/rules/validate", large, declared)
				c.done.Wait()
				if got := c.answered(http.StatusBadRequest); got != 2 {
					t.Error("there is no room for the next one")
				}
			})
		})
	}
}

// TestViewersDelayNoOtherRole, however many large bodies they begin and never
// end.
func TestViewersDelayNoOtherRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, shop)
		var err error
		if f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("v") + "\no operator " + hash("o") + "\n")}, "root"); err != nil {
			t.Fatal(err)
		}
		c := &crowd{end: make(chan struct{}), token: "v"}
		c.send(f, 3, "POST", "/rules/validate", maxBody, true)
		synctest.Wait()
		began := time.Now()
		large := shop + strings.Repeat("# Nothing.\n", 10_000)
		f.want(200, "POST", "/rules/validate", large, "Authorization", "Bearer o")
		f.want(200, "PUT", "/rules", large, "Authorization", "Bearer root")
		if waited := time.Since(began); waited > 0 {
			t.Errorf("others have waited %v", waited)
		}
		close(c.end)
		c.done.Wait()
	})
}

// TestABodyThatIsTooLargeTakesNoRoom: neither if its size is in its header, nor if only reading
// shows it.
func TestABodyThatIsTooLargeTakesNoRoom(t *testing.T) {
	f := newFixture(t, shop)
	c := &crowd{end: make(chan struct{})}
	close(c.end)
	c.send(f, 3, "PUT", "/rules", maxBody+1, true)
	c.done.Wait()
	if got, read := c.answered(http.StatusRequestEntityTooLarge), c.read.Load(); got != 3 || read > 0 {
		t.Errorf("%d of 3 are refused, after %d bytes", got, read)
	}
	c.send(f, 1, "PUT", "/rules", maxBody+1, false)
	c.done.Wait()
	if got := c.answered(http.StatusRequestEntityTooLarge); got != 4 {
		t.Errorf("%d of 4 are refused", got)
	}
	f.want(200, "PUT", "/rules", shop+strings.Repeat("# Nothing.\n", 10_000))
}
