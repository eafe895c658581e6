package gateway

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// BenchmarkRequest sends small requests over kept connections, straight to the upstream
// and through the gateway. The difference is the cost of the gateway.
func BenchmarkRequest(b *testing.B) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	upstream := serve(b, http1, hello).URL
	g := newGateway(b, toServers(urlOf(b, upstream)))
	for name, target := range map[string]string{"direct": upstream, "gateway": serve(b, http1, g).URL} {
		b.Run(name, func(b *testing.B) {
			c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer c.CloseIdleConnections()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					fetch(b, c, target)
				}
			})
		})
	}
}

func fetch(b *testing.B, c *http.Client, target string) {
	res, err := c.Get(target)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}
