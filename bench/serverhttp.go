package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// addHTTP adds the check API, by the client of the standard library.
func (f *field) addHTTP(ctx context.Context, ours *serverProcess, keys []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: serverCallers}}
	f.closing(func() error { client.CloseIdleConnections(); return nil })
	url, walks := "http://"+ours.addrs["http"]+"/v1/check", walks(keys, serverCallers)
	f.add(surface{callers: serverCallers, checks: 1, processes: []int{ours.pid()}}, checkName, func(caller int) bool {
		answer, err := post(ctx, client, url, fmt.Sprintf(`{"attributes":{"api_key":%q,"method":"GET","path":"/v1/orders"}}`, walks[caller].take(1)[0]))
		return err == nil && bytes.Contains(answer, []byte(`"allowed":true`)) && bytes.Contains(answer, []byte(`"rule":"race"`))
	})
}

func post(ctx context.Context, client *http.Client, url, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
